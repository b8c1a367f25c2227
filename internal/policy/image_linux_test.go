package policy

import (
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"kennel/internal/storetest"
)

// TestImage carries out the Dockerfile without an engine: it copies the build
// context into an empty folder, runs the command that compiles, and runs the
// image as its ENTRYPOINT and HEALTHCHECK say. As root, where chroot is
// permitted, it does this as the user of the image, in a file system that
// contains nothing else.
func TestImage(t *testing.T) {
	storetest.OnlyInProve(t)
	t.Parallel()
	image := buildImage(t)
	image.isolated = os.Geteuid() == 0
	if err := image.command(t, "ENTRYPOINT", "--help").Run(); errors.Is(err, syscall.EPERM) {
		t.Log("this machine does not permit chroot, so the commands see its files")
		image.isolated = false
	}
	authorities, err := os.ReadFile(filepath.Join(image.root, "etc/ssl/certs/ca-certificates.crt"))
	if err != nil || !x509.NewCertPool().AppendCertsFromPEM(authorities) {
		t.Errorf("the image has no certificates of authorities: %v", err)
	}

	// With an empty environment the message names the setting.
	unset := image.command(t, "ENTRYPOINT")
	if output, err := unset.CombinedOutput(); unset.ProcessState.ExitCode() != 1 || !strings.Contains(string(output), "AzureWebJobsStorage is not set") {
		t.Errorf("without settings it ended with %v:\n%s", err, output)
	}

	// Further arguments of the container follow. Port 8080 may be taken here.
	port, err := storetest.Port()
	if err != nil {
		t.Fatal(err)
	}
	listen := []string{"--listen", fmt.Sprint("127.0.0.1:", port)}
	worker := image.command(t, "ENTRYPOINT", listen...)
	worker.Env = []string{"AzureWebJobsStorage=UseDevelopmentStorage=true"} // an outage is none of its health
	var output bytes.Buffer
	worker.Stdout, worker.Stderr = &output, &output
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- worker.Wait() }()
	t.Cleanup(func() { _ = worker.Process.Kill() })
	for image.command(t, "HEALTHCHECK", listen...).Run() != nil {
		select {
		case err := <-ended:
			t.Fatalf("the worker ended: %v\n%s", err, &output)
		case <-time.After(5 * time.Millisecond): // until it listens
		}
	}
	if err := worker.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil || !strings.Contains(output.String(), `"version":"v1.2.3"`) {
		t.Errorf("ended with %v, want exit code 0 and the version v1.2.3:\n%s", err, &output)
	}
	dead := image.command(t, "HEALTHCHECK", listen...)
	if output, err := dead.CombinedOutput(); dead.ProcessState.ExitCode() != 1 || !strings.Contains(string(output), "the worker does not answer") {
		t.Errorf("the health check of a worker that ended: %v\n%s", err, output)
	}
}

// builtImage is what the Dockerfile makes.
type builtImage struct {
	root     string // holds the files of the image
	parts    map[string]instruction
	isolated bool // its commands see no other files, and run as its user
}

// command returns the command of ENTRYPOINT or HEALTHCHECK, with arguments
// added and an empty environment.
func (b builtImage) command(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	words, err := b.parts[name].exec()
	if err != nil {
		t.Fatal(err)
	}
	words = append(words, args...)
	cmd := exec.CommandContext(t.Context(), words[0], words[1:]...)
	cmd.Env, cmd.Dir = []string{}, "/"
	if !b.isolated {
		cmd.Path, cmd.Dir = filepath.Join(b.root, words[0]), b.root
		return cmd
	}
	user := numericUser.FindStringSubmatch(b.parts["USER"].args)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Chroot:     b.root,
		Credential: &syscall.Credential{Uid: uint32(number(user[1])), Gid: uint32(number(user[2]))},
	}
	return cmd
}

// buildImage carries out the instructions of both stages. Files that the first
// stage has from its base image are those of this machine.
func buildImage(t *testing.T) builtImage {
	t.Helper()
	text, err := os.ReadFile("Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	parts := stages(parseDockerfile(string(text)))
	build, workdir := t.TempDir(), "/"
	for _, in := range parts[0] {
		switch in.name {
		case "WORKDIR":
			workdir = path.Join(workdir, in.args)
			if err := os.MkdirAll(filepath.Join(build, workdir), 0o755); err != nil {
				t.Fatal(err)
			}
		case "COPY":
			if in.args != ". ." {
				t.Fatalf("line %d: this test copies the whole context only", in.line)
			}
			copyContext(t, filepath.Join(build, workdir))
		case "RUN":
			cmd := exec.CommandContext(t.Context(), "sh", "-c", in.args)
			cmd.Dir = filepath.Join(build, workdir)
			cmd.Env = append(os.Environ(), "VERSION=v1.2.3", "COMMIT=0123456789", "TARGETOS=", "TARGETARCH=")
			if output, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("line %d: %v\n%s", in.line, err, output)
			}
		}
	}
	image := builtImage{root: t.TempDir(), parts: make(map[string]instruction)}
	if err := os.Chmod(image.root, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, in := range parts[1] {
		image.parts[in.name] = in
		if in.name != "COPY" {
			continue
		}
		from, to, _ := strings.Cut(in.args, " ")
		made := filepath.Join(build, from)
		if _, err := os.Stat(made); err != nil {
			made = from
		}
		copyTo(t, made, filepath.Join(image.root, to))
	}
	return image
}

// copyContext copies the files of the repository that are sent to an engine.
func copyContext(t *testing.T, to string) {
	t.Helper()
	ignored, copied := ignored(t), 0
	err := filepath.WalkDir(".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains([]string{".git", "bin", "dist"}, name): // many files, none of them sent
			return fs.SkipDir
		case entry.Type().IsRegular() && !ignored(name):
			copyTo(t, name, filepath.Join(to, name))
			copied++
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d files were sent", copied)
}

// copyTo copies a file with its mode.
func copyTo(t *testing.T, from, to string) {
	t.Helper()
	content, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, content, info.Mode().Perm()); err != nil {
		t.Fatal(err)
	}
}
