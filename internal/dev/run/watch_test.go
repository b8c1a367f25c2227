package run

import (
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"kennel/internal/dev/project"
)

// TestWatch: what can change the program is noticed, once it is no longer being
// changed, and nothing else is.
func TestWatch(t *testing.T) {
	const main = "package main\n\nimport _ \"embed\"\n\n//go:embed page.html\nvar page string\n\nfunc main() {}\n"
	for _, tt := range []struct {
		path    string
		noticed bool
	}{
		{"main.go", true}, {"part/new.go", true}, {"third_party/x/x.go", true}, {"go.mod", true}, {"page.html", true},
		{"host.json", true}, {"functions/One/function.json", true},
		{"main_test.go", false}, {"README.md", false}, {"other.html", false}, {"part/host.json", false},
		{"dist/One/function.json", false}, {"bin/x.go", false}, {".kennel/x.go", false}, {"testdata/x.go", false},
	} {
		t.Run(tt.path, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				root := t.TempDir()
				write := func(name, text string) {
					path := filepath.Join(root, filepath.FromSlash(name))
					check(t, os.MkdirAll(filepath.Dir(path), 0o755))
					check(t, os.WriteFile(path, []byte(text), 0o644))
				}
				write("main.go", main)
				write("page.html", "one")
				write("go.mod", "module example.org/shop\n")
				w := newWatch(&project.Project{Root: root})
				changed := w.next(t.Context())
				write(tt.path, main+"// more")
				time.Sleep(watchInterval + watchInterval/2)
				write(tt.path, main+"// and more") // a build would begin too early
				synctest.Wait()
				select {
				case <-changed:
					t.Error("noticed while it is being changed")
				default:
				}
				time.Sleep(3 * watchInterval)
				select {
				case <-changed:
					if !tt.noticed {
						t.Error("noticed")
					}
				default:
					if tt.noticed {
						t.Error("not noticed")
					}
				}
			})
		})
	}
}

// TestWatchOfStaging: the functions that staging writes are no change, and a Go
// file that changes during a build is one.
func TestWatchOfStaging(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		root := t.TempDir()
		write := func(name, text string) {
			path := filepath.Join(root, filepath.FromSlash(name))
			check(t, os.MkdirAll(filepath.Dir(path), 0o755))
			check(t, os.WriteFile(path, []byte(text), 0o644))
		}
		write("main.go", "package main\n")
		write("functions/Old/function.json", "{}")
		w := newWatch(&project.Project{Root: root})
		write("functions/New/function.json", "{}")
		check(t, os.RemoveAll(filepath.Join(root, "functions", "Old")))
		w.staged()
		changed := w.next(t.Context())
		time.Sleep(5 * watchInterval)
		select {
		case <-changed:
			t.Fatal("what staging wrote is noticed")
		default:
		}
		write("main.go", "package main\n\n// saved during the build\n")
		w.staged()
		time.Sleep(5 * watchInterval)
		select {
		case <-changed:
		default:
			t.Error("a change during a build is not noticed")
		}
	})
}
