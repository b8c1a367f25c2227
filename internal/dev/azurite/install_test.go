package azurite

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// The lock file pins contents, not places: whoever installs uses the registry
// that npm is configured for.
func TestLockFile(t *testing.T) {
	text, err := files.ReadFile("npm/package-lock.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, unwanted := range []string{`"resolved"`, "://"} {
		if bytes.Contains(text, []byte(unwanted)) {
			t.Errorf("the lock file contains %s", unwanted)
		}
	}
	var lock struct {
		Packages map[string]struct {
			Version, Integrity string
			Dependencies       map[string]string
		}
	}
	if err := json.Unmarshal(text, &lock); err != nil {
		t.Fatal(err)
	}
	if got := lock.Packages[""].Dependencies["azurite"]; got != Version {
		t.Errorf("the lock file wants Azurite %q, want %q", got, Version)
	}
	if got := lock.Packages["node_modules/azurite"].Version; got != Version {
		t.Errorf("the lock file has Azurite %q, want %q", got, Version)
	}
	for name, p := range lock.Packages {
		if name != "" && !strings.HasPrefix(p.Integrity, "sha512-") {
			t.Errorf("%s is not pinned by a digest", name)
		}
	}
}

// fakeTools puts a node and an npm on the PATH that only pretend.
func fakeTools(t *testing.T, node, npm string) {
	t.Helper()
	bin := t.TempDir()
	for name, script := range map[string]string{"node": node, "npm": npm} {
		if script == "" {
			continue
		}
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin)
}

const (
	node20 = "echo v20.1.0"
	// Counts its installations, and fills node_modules in two steps.
	npm10 = `if [ "$1" = --version ]; then echo 10.2.3; exit; fi
echo once >>../installs
/bin/mkdir node_modules && echo "$@" >node_modules/arguments`
)

func TestInstallOnce(t *testing.T) {
	fakeTools(t, node20, npm10)
	cache := filepath.Join(t.TempDir(), "not", "there", "yet")
	var mu sync.Mutex
	var dirs []string
	var wg sync.WaitGroup
	for range 5 { // each opens the lock for itself, as a process does
		wg.Go(func() {
			in, err := Install(t.Context(), cache, nil)
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := os.Stat(filepath.Join(in.Dir, "node_modules", "arguments")); err != nil {
				t.Errorf("returned before all was there: %v", err)
			}
			mu.Lock()
			defer mu.Unlock()
			dirs = append(dirs, in.Dir)
		})
	}
	wg.Wait()
	for _, dir := range dirs {
		if dir != dirs[0] {
			t.Errorf("installed in %s and in %s", dir, dirs[0])
		}
	}
	installs, err := os.ReadFile(filepath.Join(cache, "installs"))
	if err != nil || string(installs) != "once\n" {
		t.Errorf("npm installed %q, %v, want once", installs, err)
	}
	arguments, err := os.ReadFile(filepath.Join(dirs[0], "node_modules", "arguments"))
	if err != nil || !strings.HasPrefix(string(arguments), "ci --omit=optional --ignore-scripts ") {
		t.Errorf("npm was called with %q, %v", arguments, err)
	}
	if left, _ := filepath.Glob(filepath.Join(cache, "*"+tempMark+"*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestInstallFails(t *testing.T) {
	for _, test := range []struct{ name, node, npm, want string }{
		{"no node", "", npm10, "node is not on the PATH"},
		{"old node", "echo v18.19.0", npm10, "node v18.19.0"},
		{"odd node", "echo hello", npm10, "no version"},
		{"no npm", node20, "", "npm is not on the PATH"},
		{"old npm", node20, "echo 6.14.18", "npm 6.14.18"},
		{"npm fails", node20, `if [ "$1" = --version ]; then echo 10.2.3; exit; fi; echo no network; exit 1`, "no network"},
	} {
		t.Run(test.name, func(t *testing.T) {
			fakeTools(t, test.node, test.npm)
			cache := t.TempDir()
			_, err := Install(t.Context(), cache, nil)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Fatalf("error %v does not say %q", err, test.want)
			}
			if strings.Contains(test.want, "PATH") && !strings.Contains(err.Error(), "install it from") {
				t.Errorf("error does not say what to do: %v", err)
			}
			if left, _ := filepath.Glob(filepath.Join(cache, "azurite-*[0-9a-f]")); len(left) > 0 {
				t.Errorf("a failed installation left %v", left)
			}
		})
	}
}

func TestInstallWaitsForAnother(t *testing.T) {
	fakeTools(t, node20, npm10)
	cache := t.TempDir()
	held, err := lock(t.Context(), filepath.Join(cache, folderName())+".lock", func() {})
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	ctx, cancel := context.WithCancel(t.Context())
	told := writerFunc(func(p []byte) {
		if strings.Contains(string(p), "waiting") {
			cancel() // nobody will unlock
		}
	})
	if _, err := Install(ctx, cache, told); !errors.Is(err, context.Canceled) {
		t.Errorf("install while another does: %v, want %v", err, context.Canceled)
	}
}

func TestSweep(t *testing.T) {
	final := filepath.Join(t.TempDir(), "azurite")
	fresh, old := final+tempMark+"fresh", final+tempMark+"old"
	for _, dir := range []string{fresh, old, final} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	past := time.Now().Add(-2 * tempAge)
	for _, dir := range []string{old, final} {
		if err := os.Chtimes(dir, past, past); err != nil {
			t.Fatal(err)
		}
	}
	sweep(final)
	for dir, want := range map[string]bool{fresh: true, old: false, final: true} {
		if exists(dir) != want {
			t.Errorf("%s is there: %v, want %v", filepath.Base(dir), !want, want)
		}
	}
}

type writerFunc func(p []byte)

func (f writerFunc) Write(p []byte) (int, error) {
	f(p)
	return len(p), nil
}
