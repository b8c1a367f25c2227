package project

import (
	"context"
	"debug/buildinfo"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
)

// A Target is the kind of machine that a handler is for.
type Target struct{ OS, Arch string }

// Azure is the target for Azure Functions: Linux on x64, on every plan that
// supports custom handlers.
var Azure = Target{OS: "linux", Arch: "amd64"}

// Executable returns the file name of the handler on the target.
func (t Target) Executable() string {
	if t.OS == "windows" {
		return handlerName + ".exe"
	}
	return handlerName
}

// StageOptions are the choices of [Project.Stage]; nil and zero fields mean the
// defaults.
type StageOptions struct {
	Prebuilt string            // stage a copy of this handler; default: build the program
	Env      map[string]string // the environment of the compiler and of git
	Settings bool              // also stage local.settings.json, for `func start` in dist/
	Keep     bool              // do not run the compiler if the handler in dist/ is that of the source

	// Built is called with the file of a handler that was built, before the other
	// files are collected. An error ends Stage. Default: nothing.
	Built func(ctx context.Context, file string) error

	NoHandler bool // stage no handler: another program starts one

	// Replace is called before files of dist/ are replaced, unless none are.
	// Default: nothing.
	Replace func()

	// Running returns the address of an app that runs from dist/, "" for none. It
	// is called before files that such an app would notice are replaced. Default:
	// there is none.
	Running func(context.Context) string

	// Step is called when a slow step starts; the returned function is called
	// when the step ends. Default: nothing.
	Step func(text string) (done func())
}

// Stage writes the files that the host needs to dist/ and returns its path:
// host.json, the handler, its version if known, and one folder with a
// function.json per function.
//
// Staging does not disturb an app that runs from the folder: a file with the
// same bytes is left where it is. The others are replaced together and each
// atomically, or, if a running app would notice, nothing is changed and the
// error names them. Other files in dist/ are kept, except functions that the
// source no longer has.
func (p *Project) Stage(ctx context.Context, t Target, options *StageOptions) (string, error) {
	opt := StageOptions{}
	if options != nil {
		opt = *options
	}
	if opt.Prebuilt != "" {
		if err := p.checkPrebuilt(opt.Prebuilt, t); err != nil {
			return "", err // before anything is written
		}
	}
	dist := filepath.Join(p.Root, "dist")
	if err := os.MkdirAll(dist, 0o755); err != nil {
		return "", err
	}
	c := &changes{dist: dist}
	defer c.discard()
	if err := p.collect(ctx, t, opt, c); err != nil {
		return "", err
	}
	if names := c.disturb(t); len(names) > 0 && opt.Running != nil {
		if url := opt.Running(ctx); url != "" {
			return "", fmt.Errorf("the app at %s runs from dist/ and would be disturbed by the new %s; stop it, then run this command again",
				url, strings.Join(names, ", "))
		}
	}
	if opt.Replace != nil && len(c.files)+len(c.gone) > 0 {
		opt.Replace()
	}
	return dist, c.apply()
}

// collect adds everything that changes in dist/.
func (p *Project) collect(ctx context.Context, t Target, opt StageOptions, c *changes) error {
	var from version
	var err error
	switch {
	case opt.NoHandler:
	case opt.Prebuilt != "":
		err = c.copy(t.Executable(), opt.Prebuilt, 0o755)
	default:
		from = p.describe(ctx, opt.Env)
		err = p.build(ctx, t, c, from, opt)
	}
	if err != nil {
		return err
	}
	if err := from.write(c); err != nil {
		return err
	}
	for _, name := range p.Functions {
		if err := p.stageFunction(c, name); err != nil {
			return err
		}
	}
	if err := p.stageHostFile(c, t); err != nil {
		return err
	}
	if opt.Settings {
		if err := p.stageSettings(c); err != nil {
			return err
		}
	}
	// Other tools that publish from dist/ read it to exclude the zip file.
	const ignore = ".funcignore"
	err = c.copy(ignore, filepath.Join(p.Root, ignore), 0o644)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return p.unstage(c)
}

// executablePath finds the member of host.json that names the handler.
var executablePath = regexp.MustCompile(`(?i)("defaultExecutablePath"\s*:\s*)"` + handlerName + `"`)

// stageHostFile stages host.json with the name of the handler on the target: a
// host finds no handler.exe under the name handler.
func (p *Project) stageHostFile(c *changes, t Target) error {
	text, err := os.ReadFile(filepath.Join(p.Root, "host.json"))
	if err != nil {
		return err
	}
	if t.Executable() != handlerName {
		text = executablePath.ReplaceAll(text, []byte(`${1}"`+t.Executable()+`"`))
	}
	return c.write("host.json", 0o644, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
}

// unstage removes functions that the source no longer has from dist. Otherwise
// the host would still run them.
func (p *Project) unstage(c *changes) error {
	stale, err := filepath.Glob(filepath.Join(c.dist, "*", "function.json"))
	if err != nil {
		return err
	}
	for _, file := range stale {
		if name := filepath.Base(filepath.Dir(file)); !slices.Contains(p.Functions, name) {
			c.remove(name)
		}
	}
	return nil
}

// build compiles the program. Two builds of the same commit produce the same
// bytes: no paths, no symbols.
func (p *Project) build(ctx context.Context, t Target, c *changes, from version, opt StageOptions) error {
	program, err := ProgramPackage(p.Root, p.Package)
	if errors.Is(err, ErrNoSource) {
		err = fmt.Errorf("%w; use --handler FILE for a built handler", err)
	}
	if err != nil {
		return err
	}
	to := c.path(t.Executable())
	b := &goBuild{
		project: p, target: t, env: opt.Env, program: program, handler: to,
		args: []string{"build", "-trimpath", "-buildvcs=false", "-ldflags", from.linkerFlags()},
	}
	if opt.Keep && b.isCurrent() {
		return nil
	}
	half := to + ".new"
	defer os.Remove(half) // has no effect once it is in its place
	if _, err := buildinfo.ReadFile(to); err == nil {
		// The Go tool does not link a program again that has not changed, which
		// saves most of the time. It refuses to replace other files.
		if err := copyFile(half, to, 0o755); err != nil {
			return err
		}
	}
	began, err := b.begin()
	if err != nil {
		return err
	}
	cmd := p.command(ctx, opt.Env, "go", append(slices.Clone(b.args), "-o", half, program)...)
	cmd.Env = append(cmd.Env, "GOOS="+t.OS, "GOARCH="+t.Arch, "CGO_ENABLED=0",
		"GOAMD64=v1") // the target processor is unknown
	if opt.Step != nil {
		defer opt.Step(fmt.Sprintf("building the handler for %s/%s", t.OS, t.Arch))()
	}
	output, err := cmd.CombinedOutput()
	if isInterrupted(err) { // by Ctrl+C, of which this process learns at about the same time
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, exec.ErrNotFound):
		return errors.New("go is not on the PATH, so the handler cannot be built; install Go or use --handler FILE for a built handler")
	case err != nil:
		return fmt.Errorf("the handler does not build (%w):\n%s", err, strings.TrimSpace(string(output)))
	}
	temp := c.path(".new." + t.Executable()) // which Windows starts by its ending
	if err := os.Rename(half, temp); err != nil {
		return err
	}
	if opt.Built != nil {
		if err := opt.Built(ctx, temp); err != nil {
			os.Remove(temp)
			return err
		}
	}
	c.done = func() { b.remember(began) }
	return c.add(t.Executable(), temp)
}

// command returns a command that runs in the project's folder.
func (p *Project) command(ctx context.Context, env map[string]string, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = p.Root
	for name, value := range env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	cmd.WaitDelay = 5 * time.Second // programs that it started may hold its output
	return cmd
}

// checkPrebuilt rejects a file that is not a handler for the target.
func (p *Project) checkPrebuilt(path string, t Target) error {
	if t == Azure {
		return p.checkForAzure(path)
	}
	if is, ok := TargetOf(path); ok && is != t {
		return fmt.Errorf("the handler is a program for %s/%s, and this machine is %s/%s; build it here, without --handler", is.OS, is.Arch, t.OS, t.Arch)
	}
	return nil
}

// TargetOf returns the kind of machine that a Go program was built for, if the
// file is one.
func TargetOf(path string) (t Target, ok bool) {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return t, false
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "GOOS":
			t.OS = s.Value
		case "GOARCH":
			t.Arch = s.Value
		}
	}
	return t, t.OS != "" && t.Arch != ""
}

// checkForAzure rejects a file that is not a handler, or that Azure cannot
// start.
func (p *Project) checkForAzure(path string) error {
	file, err := elf.Open(path)
	if err != nil {
		return fmt.Errorf("the handler is not a Linux program (%w); Azure runs Linux on x64", err)
	}
	defer file.Close()
	if file.Machine != elf.EM_X86_64 {
		return fmt.Errorf("the handler is a Linux program for %s; Azure runs Linux on x64 (GOOS=linux GOARCH=amd64)", file.Machine)
	}
	from := "the program of this project"
	if program, err := ProgramPackage(p.Root, p.Package); err == nil {
		from = program
	}
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return fmt.Errorf("%s is not a handler: it is not a Go program; build it from %s", path, from)
	}
	if filepath.Base(info.Path) != handlerName && info.Path != p.importPath() {
		return fmt.Errorf("%s is not a handler: it was built from %s; build it from %s", path, info.Path, from)
	}
	return nil
}

// copyFile atomically replaces the file to with a copy of from.
func copyFile(to, from string, mode fs.FileMode) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	return replaceFile(to, mode, func(w io.Writer) error {
		_, err := io.Copy(w, in)
		return err
	})
}

// replaceFile atomically replaces the file at path.
func replaceFile(path string, mode fs.FileMode, write func(io.Writer) error) error {
	file, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name()) // has no effect after the rename
	err = write(file)
	if err := errors.Join(err, file.Chmod(mode), file.Close()); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return os.Rename(file.Name(), path)
}

// isInterrupted reports whether a program was ended by SIGINT or SIGTERM.
func isInterrupted(err error) bool {
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && (status.Signal() == syscall.SIGINT || status.Signal() == syscall.SIGTERM)
}

// writerOf returns a function that writes a text.
func writerOf(text []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	}
}
