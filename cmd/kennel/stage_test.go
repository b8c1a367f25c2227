package main

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// program is the start of a Linux program for the machine, which is all of it
// that anybody looks at.
func program(t *testing.T, machine elf.Machine) string {
	t.Helper()
	header := elf.Header64{
		Ident:   [elf.EI_NIDENT]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)},
		Type:    uint16(elf.ET_EXEC),
		Machine: uint16(machine),
		Version: uint32(elf.EV_CURRENT),
		Ehsize:  64,
	}
	var text bytes.Buffer
	if err := binary.Write(&text, binary.LittleEndian, header); err != nil {
		t.Fatal(err)
	}
	return text.String()
}

func TestStageForAzureTakesOnlyWhatRunsThere(t *testing.T) {
	tests := []struct {
		name    string
		handler string
		wantErr string // "" for none
	}{
		{"x64", program(t, elf.EM_X86_64), ""},
		{"arm64", program(t, elf.EM_AARCH64), "a Linux program for EM_AARCH64: Azure runs Linux on x64"},
		{"Windows", "MZ\x90\x00", "the handler is no Linux program"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			root := writeTree(t, map[string]string{
				"host.json":                   goodHost,
				"functions/One/function.json": goodFunction,
				"built":                       test.handler,
			})
			p, err := openProject(root)
			if err != nil {
				t.Fatal(err)
			}
			con := newConsole(nil, nil, nil, new(bytes.Buffer), new(bytes.Buffer))
			_, err = p.stage(t.Context(), con, azureTarget, filepath.Join(root, "built"))
			if test.wantErr == "" && err != nil || test.wantErr != "" && (err == nil || !strings.Contains(err.Error(), test.wantErr)) {
				t.Errorf("got %v, want %q", err, test.wantErr)
			}
		})
	}
}

func TestStageReplacesTheHandlerThatRuns(t *testing.T) {
	root := writeTree(t, map[string]string{
		"host.json":                   goodHost,
		"functions/One/function.json": goodFunction,
		".funcignore":                 "*.zip\n",
		"built":                       "new",
		"dist/handler":                "old",
		"dist/kennel.zip":             "package",
		"dist/Gone/function.json":     "{}",
	})
	p, err := openProject(root)
	if err != nil {
		t.Fatal(err)
	}
	running, err := os.Open(filepath.Join(root, "dist", "handler"))
	if err != nil {
		t.Fatal(err)
	}
	defer running.Close()

	con := newConsole(nil, nil, nil, new(bytes.Buffer), new(bytes.Buffer))
	dist, err := p.stage(t.Context(), con, target{os: "linux", arch: "arm64"}, filepath.Join(root, "built"))
	if err != nil {
		t.Fatal(err)
	}
	old := make([]byte, 10)
	if n, _ := running.Read(old); string(old[:n]) != "old" {
		t.Errorf("the handler that runs was changed to %q", old[:n])
	}
	for name, want := range map[string]string{
		"handler":           "new",
		"host.json":         goodHost,
		"One/function.json": goodFunction,
		".funcignore":       "*.zip\n",
		"kennel.zip":        "package",
	} {
		text, err := os.ReadFile(filepath.Join(dist, name))
		if err != nil || string(text) != want {
			t.Errorf("%s: got %q, %v; want %q", name, text, err, want)
		}
	}
	if _, err := os.Stat(filepath.Join(dist, "Gone")); err == nil {
		t.Error("a function that is gone from the source is still in dist")
	}
}
