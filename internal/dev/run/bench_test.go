package run

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"kennel/internal/dev/azurite"
	"kennel/internal/dev/localhost"
	"kennel/internal/dev/project"
	"kennel/internal/storetest"
)

// BenchmarkUp measures a warm start, in which nothing has changed, until the app
// is ready. The baseline is Azurite alone, until its three services respond.
func BenchmarkUp(b *testing.B) {
	root := copyOfProject(b)
	time.Sleep(settled)
	cache, err := os.UserCacheDir()
	check(b, err)
	installed, err := azurite.Install(b.Context(), filepath.Join(cache, "kennel"), nil)
	check(b, err)
	const rounds = 7
	var ours, ratios []float64
	for round := range rounds + 1 {
		began := time.Now()
		server, err := azurite.StartAt(b.Context(), installed, azurite.FirstPort, azurite.Options{})
		check(b, err)
		alone := time.Since(began)
		check(b, server.Stop())
		if took := up(b, root); round > 0 { // the first one builds
			ours, ratios = append(ours, took.Seconds()), append(ratios, took.Seconds()/alone.Seconds())
		}
	}
	slices.Sort(ours)
	slices.Sort(ratios)
	b.Logf("figure: from the start of a warm `kennel up` until the app is ready | %.2f s (%.2f × Azurite alone) | ≤ 0.35 s", ours[rounds/2], ratios[rounds/2])
}

// settled is the age from which sources are not built again.
const settled = 3 * time.Second

// TestWarmStart checks that a second start needs no Go tool.
func TestWarmStart(t *testing.T) {
	storetest.OnlyInProve(t) // it builds
	root := copyOfProject(t)
	time.Sleep(settled)
	up(t, root)
	t.Setenv("PATH", t.TempDir())
	up(t, root)
}

// up runs the app until it is ready and returns how long that took.
func up(b testing.TB, root string) (took time.Duration) {
	began := time.Now()
	p, err := project.Open(root, localhost.CheckFunction)
	check(b, err)
	env := make(map[string]string)
	for _, name := range []string{"PATH", "HOME", "GOCACHE", "GOMODCACHE", "GOFLAGS", "GOPROXY"} {
		env[name] = os.Getenv(name)
	}
	ctx, stop := context.WithCancel(b.Context())
	defer stop()
	app, err := New(p, env, &Options{Report: func(e Event) error {
		if e.Event == "ready" {
			took = time.Since(began)
			stop()
		}
		return nil
	}})
	check(b, err)
	check(b, app.Run(ctx))
	return took
}

// copyOfProject copies the source of the app, so that a start does not replace
// the files of a real one.
func copyOfProject(b testing.TB) string {
	from, to := filepath.Join("..", "..", ".."), b.TempDir()
	check(b, filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		relative, _ := filepath.Rel(from, path)
		name := entry.Name()
		switch {
		case err != nil:
			return err
		case name == ".git" && !entry.IsDir(): // of a worktree
			return nil
		case entry.IsDir() && path != from && (strings.HasPrefix(name, ".") || slices.Contains([]string{"bin", "dist", "testdata", "node_modules"}, name)):
			return filepath.SkipDir
		case entry.IsDir():
			return os.MkdirAll(filepath.Join(to, relative), 0o755)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(to, relative), text, 0o644)
	}))
	return to
}

func check(b testing.TB, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}
