package run

import (
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"

	"kennel/internal/dev/project"
)

// TestCheckStaged breaks a staged folder in every way that the genuine host
// refuses or overlooks.
func TestCheckStaged(t *testing.T) {
	const (
		host  = `{"version":"2.0","customHandler":{"description":{"defaultExecutablePath":"handler"}}}`
		queue = `{"bindings":[{"type":"queueTrigger","direction":"in","name":"message","queueName":"work-0","connection":"Work"}]}`
		timer = `{"bindings":[{"type":"timerTrigger","direction":"in","name":"tick","schedule":"0 0 0 * * *"}]}`
	)
	program, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	here := project.Target{OS: "linux", Arch: "amd64"}
	for _, tt := range []struct {
		name   string
		files  map[string]string // replaced; "" removes one
		unset  string            // a setting
		mode   os.FileMode       // of the handler; 0: 0755
		target project.Target
		want   string // in the error; "" for none
	}{
		{name: "good"},
		{name: "byte order mark", files: map[string]string{"host.json": "\ufeff" + host}},
		{name: "no host.json", files: map[string]string{"host.json": ""}, want: "dist/host.json: open "},
		{name: "host.json is not JSON", files: map[string]string{"host.json": "{"}, want: "dist/host.json: unexpected end of JSON"},
		{name: "another executable", files: map[string]string{"host.json": strings.Replace(host, `"handler"`, `"bin/handler"`, 1)},
			want: `defaultExecutablePath is "bin/handler", and on this machine the handler is handler; run ` + "`kennel package --local`"},
		{name: "staged elsewhere than on Windows", target: project.Target{OS: "windows", Arch: "amd64"}, want: "the handler is handler.exe"},
		{name: "no handler", files: map[string]string{"handler": ""}, want: "dist/handler is missing or not a file"},
		{name: "a folder in its place", files: map[string]string{"handler": "", "handler/main.go": "package main"}, want: "dist/handler is missing or not a file"},
		{name: "not executable", mode: 0o644, want: "dist/handler is not executable; run chmod 755 dist/handler"},
		{name: "built for another machine", files: map[string]string{"handler": string(program)}, target: project.Target{OS: "plan9", Arch: "arm"},
			want: "dist/handler is a program for " + runtime.GOOS + "/" + runtime.GOARCH + ", and this machine is plan9/arm; run `kennel package --local` on this machine"},
		{name: "no function", files: map[string]string{"One/function.json": "", "Two/function.json": ""}, want: "dist contains no function"},
		{name: "nested", files: map[string]string{"functions/One/function.json": timer}, want: "dist/functions/One/function.json: wrong depth"},
		{name: "at the root", files: map[string]string{"function.json": timer}, want: "wrong depth"},
		{name: "bad name", files: map[string]string{"1st/function.json": timer}, want: `dist/1st/function.json: "1st" is not a function name`},
		{name: "name in another case", files: map[string]string{"one/function.json": timer}, want: "another function has this name in another case"},
		{name: "script", files: map[string]string{"One/function.json": strings.Replace(timer, "{", `{"scriptFile":"run.js",`, 1)}, want: "scriptFile is set"},
		{name: "bad binding", files: map[string]string{"One/function.json": strings.Replace(timer, "tick", "a-tick", 1)}, want: `"a-tick" is not a binding name`},
		{name: "connection", unset: "Work__queueServiceUri", want: "the setting Work is missing, the connection of Two; add it"},
		{name: "storage of timers", unset: storageSetting, want: "the setting AzureWebJobsStorage is missing, the connection of One; add it"},
		{name: "runtime", unset: runtimeSetting, want: `the setting FUNCTIONS_WORKER_RUNTIME is ""; set it to custom`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.mode != 0 && runtime.GOOS == "windows" {
				t.Skip("Windows has no executable bit")
			}
			files := map[string]string{"host.json": host, "handler": "program", "One/function.json": timer, "Two/function.json": queue, "local.settings.json": "{}"}
			maps.Copy(files, tt.files)
			tree := fstest.MapFS{}
			for name, text := range files {
				if text != "" {
					tree[name] = &fstest.MapFile{Data: []byte(text), Mode: 0o644}
				}
			}
			dist := t.TempDir()
			if err := os.CopyFS(dist, tree); err != nil {
				t.Fatal(err)
			}
			if files["handler"] != "" {
				mode := tt.mode
				if mode == 0 {
					mode = 0o755
				}
				if err := os.Chmod(filepath.Join(dist, "handler"), mode); err != nil {
					t.Fatal(err)
				}
			}
			settings := map[string]string{runtimeSetting: "custom", storageSetting: developmentStorage, "Work__queueServiceUri": "https://account.queue.core.windows.net"}
			delete(settings, tt.unset)
			target := here
			if tt.target.OS != "" {
				target = tt.target
			}
			err := CheckStaged(dist, target, settings)
			if (err == nil) != (tt.want == "") || err != nil && (!strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "\n")) {
				t.Errorf("got %v, want one problem: %q", err, tt.want)
			}
		})
	}
}

// TestCrashLog checks that a host that gives up is recognised by its log, in
// whatever pieces that is written.
func TestCrashLog(t *testing.T) {
	const log = "[2026-01-02T03:04:05.678Z] handler exited with code 137 (0x89)\n" +
		"[2026-01-02T03:04:05.679Z] Exceeded http worker restart retry count. Shutting down Functions Host\n"
	var out strings.Builder
	l := &crashLog{out: &out}
	for i := range len(log) {
		l.Write([]byte(log[i : i+1]))
		if i == len(log)/2 && l.crash() != nil {
			t.Error("a first crash is reported as the last")
		}
	}
	if err := l.crash(); err == nil || !strings.HasSuffix(err.Error(), "the handler exited with code 137") || out.String() != log {
		t.Errorf("got %v and the log %q", err, out.String())
	}
}
