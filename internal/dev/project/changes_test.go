package project

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// stageAt stages the built handler of a tree.
func stageAt(t *testing.T, root string, target Target, opt StageOptions) error {
	t.Helper()
	opt.Prebuilt = filepath.Join(root, "built")
	_, err := (&Project{Root: root, Functions: []string{"One"}}).Stage(t.Context(), target, &opt)
	return err
}

// TestStageLeavesEqualFiles checks that staging the same again touches no file:
// the Functions host restarts the app that it runs when a file is replaced by
// the same bytes.
func TestStageLeavesEqualFiles(t *testing.T) {
	root := writeTree(t, map[string]string{
		"host.json": goodHost, "functions/One/function.json": "one", ".funcignore": "*.zip\n",
		"built": "handler", "local.settings.json.sample": "{}",
	})
	stage := func() map[string]fs.FileInfo {
		if err := stageAt(t, root, Target{}, StageOptions{Settings: true}); err != nil {
			t.Fatal(err)
		}
		found := make(map[string]fs.FileInfo)
		dist := filepath.Join(root, "dist")
		err := filepath.WalkDir(dist, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			found[strings.TrimPrefix(path, dist)] = must(entry.Info())
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	first, second := stage(), stage()
	if len(first) != 5 || len(second) != len(first) {
		t.Errorf("staged %d files and then %d, want 5", len(first), len(second))
	}
	for name, was := range first {
		if !os.SameFile(was, second[name]) {
			t.Errorf("%s was replaced by the same bytes", name)
		}
	}
	// A mode is repaired.
	if runtime.GOOS != "windows" {
		if err := os.Chmod(filepath.Join(root, "dist", "handler"), 0o644); err != nil {
			t.Fatal(err)
		}
		if mode := stage()["/handler"].Mode(); mode != 0o755 {
			t.Errorf("the mode of the handler is %v, want 0755", mode)
		}
	}
}

// TestStageAsksTheRunningApp checks that nothing is replaced if a running app
// would notice, and that everything is replaced otherwise.
func TestStageAsksTheRunningApp(t *testing.T) {
	program := readFile(must(os.Executable()))
	for _, tt := range []struct {
		name, path, text string // a file that differs
		want             string // the files in the error
	}{
		{"nothing", "built", "old", ""},
		{"handler", "built", "new", ""},
		{"settings", "local.settings.json", `{"IsEncrypted":false}`, ""},
		{"function", "functions/One/function.json", "other", "One/function.json"},
		{"host.json", "host.json", goodHost + "\n", "host.json"},
		{"function that is gone", "dist/Gone/function.json", "{}", "Gone"},
		{"handler for another machine", "dist/handler", program, "handler"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			files := map[string]string{
				"host.json": goodHost, "functions/One/function.json": "one", "built": "old",
				"dist/host.json": goodHost, "dist/One/function.json": "one", "dist/handler": "old", "dist/version.txt": "v1",
			}
			files[tt.path] = tt.text
			root := writeTree(t, files)
			asked := 0
			err := stageAt(t, root, Target{}, StageOptions{Settings: true, Running: func(context.Context) string {
				asked++
				return "http://127.0.0.1:7071"
			}})
			if tt.want == "" {
				expectError(t, tt.name, err)
			} else {
				expectError(t, tt.name, err, "the app at http://127.0.0.1:7071 runs from dist/ and would be disturbed by the new "+tt.want+"; stop it")
				for name, want := range files {
					if got := readFile(filepath.Join(root, filepath.FromSlash(name))); got != want {
						t.Errorf("%s was changed", name)
					}
				}
			}
			if left := must(filepath.Glob(filepath.Join(root, "dist", ".*"))); len(left) > 0 || asked > 1 || asked == 0 && tt.want != "" {
				t.Errorf("asked %d times, and left behind %q", asked, left)
			}
			if err := stageAt(t, root, Target{}, StageOptions{Running: func(context.Context) string { return "" }}); err != nil {
				t.Errorf("without an app: %v", err)
			}
		})
	}
}

// TestStageForWindows checks that host.json names the handler as Windows does,
// and that the package for Azure does not.
func TestStageForWindows(t *testing.T) {
	root := writeTree(t, map[string]string{"host.json": "{\n  " + goodHost[1:], "functions/One/function.json": "one", "built": "handler"})
	for target, want := range map[Target]string{
		{"windows", "arm64"}: "{\n  " + strings.Replace(goodHost[1:], `"handler"`, `"handler.exe"`, 1),
		{"linux", "arm64"}:   "{\n  " + goodHost[1:],
	} {
		if err := stageAt(t, root, target, StageOptions{}); err != nil {
			t.Fatal(err)
		}
		if got := readFile(filepath.Join(root, "dist", "host.json")); got != want {
			t.Errorf("%v: host.json is %s, want %s", target, got, want)
		}
		if _, err := os.Stat(filepath.Join(root, "dist", target.Executable())); err != nil {
			t.Error(err)
		}
	}
}

// TestStageRejectsAHandlerForAnotherMachine checks --handler of a local run.
func TestStageRejectsAHandlerForAnotherMachine(t *testing.T) {
	p := &Project{Root: writeTree(t, map[string]string{"host.json": goodHost})}
	_, err := p.Stage(t.Context(), Target{"plan9", "arm"}, &StageOptions{Prebuilt: must(os.Executable())})
	expectError(t, "another machine", err, "the handler is a program for "+runtime.GOOS+"/"+runtime.GOARCH+", and this machine is plan9/arm; build it here")
}

// TestStagedSettings checks which settings are staged and read: a file that a
// developer has changed is kept.
func TestStagedSettings(t *testing.T) {
	file := func(value string) string { return `{"IsEncrypted":false,"Values":{"A":"` + value + `"}}` }
	for _, tt := range []struct {
		name                 string
		ours, staged, sample string // "" for no file
		marked               bool   // the staged file is as it was staged
		want                 string // the value of A; "error"
	}{
		{"no file", "", "", "", false, ""},
		{"sample", "", "", "sample", false, "sample"},
		{"changed in dist", "", "changed", "sample", false, "changed"},
		{"outdated in dist", "", "outdated", "sample", true, "sample"},
		{"of the project", "ours", "", "sample", false, "ours"},
		{"of the project, outdated in dist", "ours", "outdated", "sample", true, "ours"},
		{"both, equal", "ours", "ours", "sample", false, "ours"},
		{"both, different", "ours", "changed", "sample", false, "error"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			files := map[string]string{"host.json": goodHost, "functions/One/function.json": "one", "built": "handler"}
			for name, value := range map[string]string{settingsName: tt.ours, "dist/" + settingsName: tt.staged, settingsName + ".sample": tt.sample} {
				if value != "" {
					files[name] = file(value)
				}
			}
			p := &Project{Root: writeTree(t, files), Functions: []string{"One"}}
			staged := filepath.Join(p.Root, "dist", settingsName)
			if tt.marked {
				if err := os.Chtimes(staged, stagedTime, stagedTime); err != nil {
					t.Fatal(err)
				}
			}
			for range 2 {
				local, err := p.LocalSettings()
				stageErr := stageAt(t, p.Root, Target{}, StageOptions{Settings: true})
				if tt.want == "error" {
					expectError(t, "read", err, "differ; move the changes to the first and delete the second")
					expectError(t, "stage", stageErr, "differ; move the changes")
					if got := readFile(staged); got != file("changed") {
						t.Errorf("the changed file is now %s", got)
					}
					continue
				}
				if err != nil || stageErr != nil || local.Values["A"] != tt.want {
					t.Errorf("read %q, %v, %v, want %q", local.Values["A"], err, stageErr, tt.want)
				}
				if tt.want != "" {
					if got := readFile(staged); got != file(tt.want) {
						t.Errorf("staged %s, want %s", got, file(tt.want))
					}
				}
			}
		})
	}
}

// TestStagedSettingsFollow checks that staged settings follow their source,
// until a developer changes them.
func TestStagedSettingsFollow(t *testing.T) {
	root := writeTree(t, map[string]string{"host.json": goodHost, "functions/One/function.json": "one", "built": "handler"})
	staged, sample := filepath.Join(root, "dist", settingsName), filepath.Join(root, settingsName+".sample")
	for _, step := range []struct{ path, text, want string }{
		{sample, `{"A":1}`, `{"A":1}`},
		{sample, `{"A":2}`, `{"A":2}`},
		{staged, `{"A":3}`, `{"A":3}`},
		{sample, `{"A":4}`, `{"A":3}`},
	} {
		if err := os.WriteFile(step.path, []byte(step.text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := stageAt(t, root, Target{}, StageOptions{Settings: true}); err != nil {
			t.Fatal(err)
		}
		if got := readFile(staged); got != step.want {
			t.Errorf("after %s: staged %s, want %s", step.text, got, step.want)
		}
	}
}
