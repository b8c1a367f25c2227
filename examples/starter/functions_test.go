package main

import (
	"context"
	"encoding/json"
	"flag"
	"io"
	"os"
	"path/filepath"
	"testing"

	"kennel"
)

var update = flag.Bool("update", false, "write functions/ and infra/app.json")

// TestFunctions: functions/ and infra/app.json are what the program declares. It
// is not copied to the programs that `kennel new` writes.
func TestFunctions(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout := os.Stdout
	os.Stdout = w
	ended := make(chan error, 1)
	go func() {
		defer w.Close()
		ended <- kennel.Run(context.Background(), "starter", newShop(dispatch).program, []string{"describe"})
	}()
	text, readErr := io.ReadAll(r)
	err = <-ended
	os.Stdout = stdout
	var described struct {
		Functions []struct {
			Name     string
			Bindings json.RawMessage
		}
	}
	if err != nil || readErr != nil || json.Unmarshal(text, &described) != nil || len(described.Functions) == 0 {
		t.Fatalf("describe: %v, %v, %s", err, readErr, text)
	}
	want := map[string]string{"infra/app.json": string(text)}
	for _, f := range described.Functions {
		bindings, err := json.MarshalIndent(map[string]any{"bindings": f.Bindings}, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		want["functions/"+f.Name+"/function.json"] = string(bindings) + "\n"
	}
	for path, text := range want {
		if *update {
			os.MkdirAll(filepath.Dir(path), 0o755) // the write fails, too
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != text {
			t.Errorf("%s is outdated (%v); run the test with -update", path, err)
		}
	}
	if all, _ := filepath.Glob("functions/*"); len(all) != len(described.Functions) {
		t.Errorf("functions/ has %d folders, and the program %d functions", len(all), len(described.Functions))
	}
}
