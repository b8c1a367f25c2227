package azurite

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestVersion checks that the lock file has the version that is reported. A test
// of the repository checks the rest of it.
func TestVersion(t *testing.T) {
	text, err := files.ReadFile("npm/package-lock.json")
	must(t, err)
	var lock struct {
		Packages map[string]struct{ Version string }
	}
	must(t, json.Unmarshal(text, &lock))
	if locked := lock.Packages["node_modules/azurite"].Version; locked != Version {
		t.Errorf("the lock file has Azurite %q, want %q", locked, Version)
	}
}

// fakeTools puts scripts for node and npm on the PATH.
func fakeTools(t *testing.T, node, npm string) {
	t.Helper()
	bin := t.TempDir()
	for name, script := range map[string]string{"node": node, "npm": npm} {
		if script != "" {
			must(t, os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+script), 0o755))
		}
	}
	t.Setenv("PATH", bin)
}

const (
	node20 = "echo v20.1.0"
	// Counts its installations, and fills node_modules in two steps. Its ping
	// fails without a limit of time for the network.
	npm10 = `case "$1 $*" in
	--version*) echo 10.2.3; exit;;
	ping*--fetch-timeout=8000*) exit;;
	ping*) echo '{"error":{"code":"ETIME","summary":"no limit of time"}}'; exit 1;;
esac
echo once >>../installs
/bin/mkdir node_modules && echo "$@" >node_modules/arguments`
)

// npmFails is the part of a fake npm in which a command fails.
func npmFails(command, code, summary string) string {
	return `if [ "$1" = --version ]; then echo 10.2.3; exit; fi
if [ "$1" = ` + command + ` ]; then
	echo 'npm error stack {' >&2
	echo '{"error":{"code":"` + code + `","summary":"` + summary + `"}}'
	exit 1
fi
`
}

func TestInstallOnce(t *testing.T) {
	fakeTools(t, node20, npm10)
	cache := filepath.Join(t.TempDir(), "not", "there", "yet")
	dirs := make([]string, 5)
	var wg sync.WaitGroup
	for i := range dirs { // each opens the lock, as a separate process does
		wg.Go(func() {
			in, err := Install(t.Context(), cache, nil)
			if err != nil || !exists(filepath.Join(in.Dir, "node_modules", "arguments")) {
				t.Errorf("installed %+v, %v before it was complete", in, err)
			}
			dirs[i] = in.Dir
		})
	}
	wg.Wait()
	if len(slices.Compact(slices.Clone(dirs))) != 1 {
		t.Errorf("installed in %q, want one folder", dirs)
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
	for _, tt := range []struct{ name, node, npm, want string }{
		{"no node", "", npm10, "node is not on the PATH"},
		{"old node", "echo v18.19.0", npm10, "node v18.19.0"},
		{"odd node", "echo hello", npm10, "not a version"},
		{"no npm", node20, "", "npm is not on the PATH"},
		{"old npm", node20, "echo 6.14.18", "npm 6.14.18"},
		{"no network", node20, npmFails("ping", "ENOTFOUND", "FetchError: no such host"), "the npm registry cannot be reached (no such host); check the network"},
		{"silent network", node20, npmFails("ping", "FETCH_ERROR", "network timeout at: http://registry.example/-/ping"), "the npm registry cannot be reached (network timeout at: http://registry.example/-/ping); check the network"},
		{"no ping, no package", node20, npmFails("ping", "E404", "no ping here") + npmFails("ci", "E404", `404\\nnpm error stack`), "npm ci: 404"},
		{"offline", node20, npmFails("ping", "ENOTCACHED", "offline") + npmFails("ci", "ENOTCACHED", "not cached"), "npm ci: not cached"},
		{"npm fails", node20, `if [ "$1" = ci ]; then echo out of order >&2; exit 3; fi; echo 10.2.3`, "npm ci: exit status 3: out of order"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			fakeTools(t, tt.node, tt.npm)
			cache := t.TempDir()
			_, err := Install(t.Context(), cache, nil)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("error %v does not contain %q", err, tt.want)
			}
			if strings.Contains(tt.want, "PATH") && !strings.Contains(err.Error(), "install it from") {
				t.Errorf("the error does not state what to do: %v", err)
			}
			if wayOut := strings.Contains(err.Error(), withoutAzurite); !wayOut && !strings.Contains(tt.want, "npm ci") && tt.name != "odd node" {
				t.Errorf("the error does not name the way without Azurite: %v", err)
			}
			if strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "stack") {
				t.Errorf("the error has several lines: %v", err)
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
	must(t, err)
	defer held.Close()
	ctx, cancel := context.WithCancel(t.Context())
	log := writerFunc(func(p []byte) {
		if strings.Contains(string(p), "waiting") {
			cancel() // the lock is never released
		}
	})
	if _, err := Install(ctx, cache, log); !errors.Is(err, context.Canceled) {
		t.Errorf("during another installation: got %v, want %v", err, context.Canceled)
	}
}

func TestSweep(t *testing.T) {
	final := filepath.Join(t.TempDir(), "azurite")
	fresh, old := final+tempMark+"fresh", final+tempMark+"old"
	for _, dir := range []string{fresh, old, final} {
		must(t, os.Mkdir(dir, 0o755))
	}
	past := time.Now().Add(-2 * tempAge)
	must(t, os.Chtimes(old, past, past))
	must(t, os.Chtimes(final, past, past))
	sweep(final)
	for dir, want := range map[string]bool{fresh: true, old: false, final: true} {
		if exists(dir) != want {
			t.Errorf("%s exists: %v, want %v", filepath.Base(dir), !want, want)
		}
	}
}

type writerFunc func(p []byte)

func (f writerFunc) Write(p []byte) (int, error) {
	f(p)
	return len(p), nil
}
