package storetest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"

	"kennel/internal/version"
)

// programs are the programs that this test process has built.
var programs struct {
	mu    sync.Mutex
	dir   string // "" until the first one is built; Main removes it
	built map[string]func() (string, error)
}

// Build builds the program in folder pkg of this module, such as "handler",
// with [BuildFlags], once per test process, and returns its path. Like the test binaries of `make test`, it has
// no debug information: without that, linking takes a fifth less time.
func Build(pkg string) (string, error) { return build(pkg, nil, linked(BuildFlags())...) }

func linked(flags []string) []string { return append(flags, "-buildvcs=false", "-ldflags=-w") }

// BuildFlags returns the flags that the test binary was compiled with. A test
// that compiles other programs uses them too, so that the go command compiles
// shared packages only once.
func BuildFlags() (flags []string) {
	info, _ := debug.ReadBuildInfo() // a test binary has it
	for _, setting := range info.Settings {
		if setting.Key == "-race" || setting.Key == "-gcflags" {
			flags = append(flags, setting.Key+"="+setting.Value)
		}
	}
	return flags
}

// QuotedBuildFlags returns those of [BuildFlags] for a shell or GOFLAGS.
func QuotedBuildFlags() string {
	flags := BuildFlags()
	for i, flag := range flags {
		flags[i] = "'" + flag + "'"
	}
	return strings.Join(flags, " ")
}

// BuildShipped is [Build] with the flags of `make build`. With these flags the
// standard library and the SDKs are compiled again, so use it only in `make
// prove` and benchmarks. More flags may follow, such as -overlay.
func BuildShipped(pkg string, flags ...string) (string, error) {
	return build(pkg, []string{"CGO_ENABLED=0"}, append([]string{"-trimpath", "-buildvcs=false", "-ldflags=-s -w"}, flags...)...)
}

// BuildOverlay is [Build] with changed source: path is that of a file for the
// -overlay flag of the go command.
func BuildOverlay(pkg, path string) (string, error) {
	return build(pkg, nil, append(linked(BuildFlags()), "-overlay="+path)...)
}

func build(pkg string, env []string, flags ...string) (string, error) {
	programs.mu.Lock()
	key := fmt.Sprint(pkg, flags)
	once := programs.built[key]
	if once == nil {
		if programs.built == nil {
			programs.built = make(map[string]func() (string, error))
		}
		path := filepath.Join(fmt.Sprint(len(programs.built)), filepath.Base(pkg))
		once = sync.OnceValues(func() (string, error) { return goBuild(path, pkg, env, flags) })
		programs.built[key] = once
	}
	programs.mu.Unlock()
	return once()
}

func goBuild(path, pkg string, env, flags []string) (string, error) {
	programs.mu.Lock()
	var err error
	if programs.dir == "" {
		programs.dir, err = os.MkdirTemp("", "kennel-test")
	}
	path = filepath.Join(programs.dir, path)
	programs.mu.Unlock()
	if err != nil {
		return "", err
	}
	args := append([]string{"build", "-o", path}, flags...)
	cmd := exec.Command("go", append(args, version.Module+"/"+pkg)...)
	cmd.Env = append(os.Environ(), env...)
	if output, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", pkg, err, output)
	}
	return path, nil
}

// removePrograms removes the programs of Build.
func removePrograms() {
	programs.mu.Lock()
	defer programs.mu.Unlock()
	if programs.dir != "" {
		os.RemoveAll(programs.dir)
	}
}
