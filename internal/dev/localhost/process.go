package localhost

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"kennel/internal/customhandler"
)

// A launcher starts handler processes. It is immutable.
type launcher struct {
	path string            // of the executable
	args []string          // after it
	root string            // the script root, in which it runs
	env  map[string]string // all but what differs from process to process
	out  *console
}

// A process is one run of the handler.
type process struct {
	client *customhandler.Client
	cmd    *exec.Cmd
	stderr lastLines

	done chan struct{} // closed when the process is gone and its output has been read
	code int           // its exit code, -1 when a signal ended it; may be read once done is closed

	doomed chan struct{} // closed when the host has decided to replace the process
	doom   sync.Once
}

// newLauncher resolves the command line. A relative executable that exists below
// the root is taken from there, otherwise it is looked up in PATH.
func newLauncher(command handlerCommand, root string, env map[string]string, out *console) (launcher, error) {
	l := launcher{path: command.executable, root: root, env: env, out: out}
	if !filepath.IsAbs(l.path) {
		l.path = filepath.Join(root, l.path)
	}
	if _, err := os.Stat(l.path); err != nil {
		if filepath.IsAbs(command.executable) {
			return launcher{}, fmt.Errorf("find handler %q: it does not exist; build it first", command.executable)
		}
		if l.path, err = exec.LookPath(command.executable); err != nil {
			return launcher{}, fmt.Errorf("find handler %q (customHandler.description.defaultExecutablePath): it is neither in %s nor in PATH; build it first",
				command.executable, root)
		}
	}
	// The host joins arguments with blanks, unquoted, so an argument with a blank
	// arrives in pieces.
	for _, argument := range command.arguments {
		l.args = append(l.args, strings.Fields(argument)...)
	}
	return l, nil
}

// start runs the handler on a free port. The process is only started, not ready.
func (l launcher) start() (*process, error) {
	port, err := freePort()
	if err != nil {
		return nil, fmt.Errorf("find a free port for the handler: %w", err)
	}
	p := &process{
		client: customhandler.NewClient("http://127.0.0.1:" + strconv.Itoa(port)),
		cmd:    exec.Command(l.path, l.args...),
		done:   make(chan struct{}),
		doomed: make(chan struct{}),
	}
	env := maps.Clone(l.env)
	id := customhandler.NewInvocationID() // any GUID will do
	env["FUNCTIONS_CUSTOMHANDLER_PORT"] = strconv.Itoa(port)
	env["FUNCTIONS_HTTPWORKER_PORT"] = strconv.Itoa(port)
	env["FUNCTIONS_CUSTOMHANDLER_WORKER_ID"] = id
	env["FUNCTIONS_HTTPWORKER_ID"] = id
	env["FUNCTIONS_APP_ROOT_PATH"] = l.root
	p.cmd.Env = make([]string, 0, len(env))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		p.cmd.Env = append(p.cmd.Env, name+"="+env[name])
	}
	p.cmd.Dir = l.root
	stdout := &lineWriter{emit: l.out.line}
	stderr := &lineWriter{emit: func(line string) { p.stderr.add(line); l.out.line(line) }}
	p.cmd.Stdout, p.cmd.Stderr = stdout, stderr
	// A grandchild may hold the pipes open after the handler is gone; its output is not waited for.
	p.cmd.WaitDelay = time.Second
	dieWithParent(p.cmd)

	started := make(chan error, 1)
	go func() {
		// On Linux the kernel kills the child when the thread that started it ends, not the process.
		// This goroutine keeps its thread until the child is gone.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err != nil {
			return
		}
		// The exit code says all there is to know; Wait's error adds nothing to it.
		_ = p.cmd.Wait()
		_ = stdout.Close()
		_ = stderr.Close()
		p.code = p.cmd.ProcessState.ExitCode()
		close(p.done)
	}()
	if err := <-started; err != nil {
		hint := ""
		if errors.Is(err, fs.ErrPermission) {
			hint = ": is its exec bit set?"
		} else if errors.Is(err, syscall.ENOEXEC) {
			hint = ": was it built for this system?"
		}
		return nil, fmt.Errorf("start handler: %w%s", err, hint)
	}
	return p, nil
}

// replace tells the supervisor to kill this process and start another. It may be called often.
func (p *process) replace() { p.doom.Do(func() { close(p.doomed) }) }

// exited returns the exit code of a process that is gone.
func (p *process) exited() (code int, gone bool) {
	select {
	case <-p.done:
		return p.code, true
	default:
		return 0, false
	}
}

// lost reports whether another process will take this one's place.
func (p *process) lost() bool {
	select {
	case <-p.doomed:
		return true
	default:
		code, gone := p.exited()
		return gone && code != 0
	}
}

// stop ends the process and waits until it is gone: at once with SIGKILL, as the host does, or, with a
// patience above zero, with SIGTERM first.
func (p *process) stop(patience time.Duration) {
	// A process that is already gone cannot be signalled, and need not be.
	if patience > 0 && p.cmd.Process.Signal(syscall.SIGTERM) == nil {
		timer := time.NewTimer(patience)
		defer timer.Stop()
		select {
		case <-p.done:
			return
		case <-timer.C:
		}
	}
	_ = p.cmd.Process.Kill()
	<-p.done
}

// freePort asks the system for a port on the loopback address. Another process may take it before the
// handler does; the handler then exits, and its next start gets another port.
func freePort() (int, error) {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}
