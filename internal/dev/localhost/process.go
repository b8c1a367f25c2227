package localhost

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"kennel/internal/customhandler"
)

// A launcher starts handler processes. It is immutable.
type launcher struct {
	executable string            // as configured
	args       []string          // after it
	root       string            // the script root, which is its working directory
	env        map[string]string // except the variables that differ between processes
	out        *console
}

// A process is one run of the handler.
type process struct {
	port   int
	client *customhandler.Client
	cmd    *exec.Cmd
	stderr lastLines

	done chan struct{} // closed when the process has ended and its output was read
	code int           // the exit code, -1 if ended by a signal; valid once done is closed

	replaced    chan struct{} // closed when the host has decided to replace the process
	replaceOnce sync.Once
}

func newLauncher(command handlerCommand, root string, env map[string]string, out *console) launcher {
	l := launcher{executable: command.executable, root: root, env: env, out: out}
	// The host joins arguments with unquoted blanks, so an argument that
	// contains a blank is split.
	for _, argument := range command.arguments {
		l.args = append(l.args, strings.Fields(argument)...)
	}
	return l
}

// find returns the path of the executable. A relative one is searched for below
// the root and then in PATH.
func (l launcher) find() (string, error) {
	path := l.executable
	if !filepath.IsAbs(path) {
		path = filepath.Join(l.root, path)
	}
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	if filepath.IsAbs(l.executable) {
		return "", fmt.Errorf("find handler %q: it does not exist; build it first", l.executable)
	}
	path, err := exec.LookPath(l.executable)
	if err != nil {
		return "", fmt.Errorf("find handler %q (customHandler.description.defaultExecutablePath): it is neither in %s nor in PATH; build it first",
			l.executable, l.root)
	}
	return path, nil
}

// environment returns the environment of a process at a port.
func (l launcher) environment(port int) map[string]string {
	env := maps.Clone(l.env)
	id := customhandler.NewInvocationID() // any GUID will do
	env["FUNCTIONS_CUSTOMHANDLER_PORT"] = strconv.Itoa(port)
	env["FUNCTIONS_HTTPWORKER_PORT"] = strconv.Itoa(port)
	env["FUNCTIONS_CUSTOMHANDLER_WORKER_ID"] = id
	env["FUNCTIONS_HTTPWORKER_ID"] = id
	env["FUNCTIONS_APP_ROOT_PATH"] = l.root
	return env
}

// start starts the handler on a port, or on a free one if that is 0. It does not
// wait until the handler is ready.
func (l launcher) start(port int) (*process, error) {
	path, err := l.find()
	if err != nil {
		return nil, err
	}
	if port == 0 {
		if port, err = freePort(); err != nil {
			return nil, fmt.Errorf("find a free port for the handler: %w", err)
		}
	}
	p := &process{
		port:     port,
		client:   customhandler.NewClient("http://127.0.0.1:" + strconv.Itoa(port)),
		cmd:      exec.Command(path, l.args...),
		done:     make(chan struct{}),
		replaced: make(chan struct{}),
	}
	env := l.environment(port)
	p.cmd.Env = make([]string, 0, len(env))
	for _, name := range slices.Sorted(maps.Keys(env)) {
		p.cmd.Env = append(p.cmd.Env, name+"="+env[name])
	}
	p.cmd.Dir = l.root
	stdout := &lineWriter{emit: l.out.line}
	stderr := &lineWriter{emit: func(line string) { p.stderr.add(line); l.out.line(line) }}
	p.cmd.Stdout, p.cmd.Stderr = stdout, stderr
	// A grandchild may hold the pipes open after the handler has ended. Do not
	// wait for its output.
	p.cmd.WaitDelay = time.Second
	dieWithParent(p.cmd)

	started := make(chan error, 1)
	go func() {
		// On Linux the kernel kills the child when the thread that started it
		// ends, not the process. So this goroutine keeps its thread until the
		// child has ended.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := p.cmd.Start()
		started <- err
		if err != nil {
			return
		}
		// The exit code is sufficient; the error of Wait adds nothing.
		_ = p.cmd.Wait()
		_ = stdout.Close()
		_ = stderr.Close()
		p.code = p.cmd.ProcessState.ExitCode()
		close(p.done)
	}()
	if err := <-started; err != nil {
		hint := ""
		if errors.Is(err, fs.ErrPermission) {
			hint = "; set its exec bit (chmod +x)"
		} else if errors.Is(err, syscall.ENOEXEC) {
			hint = "; build it for this system"
		}
		return nil, fmt.Errorf("start handler: %w%s", err, hint)
	}
	return p, nil
}

// replace makes the supervisor kill this process and start another one. It may
// be called more than once.
func (p *process) replace() { p.replaceOnce.Do(func() { close(p.replaced) }) }

// exited returns the exit code of a process that has ended.
func (p *process) exited() (code int, ended bool) {
	select {
	case <-p.done:
		return p.code, true
	default:
		return 0, false
	}
}

// lost reports whether another process will replace this one.
func (p *process) lost() bool {
	select {
	case <-p.replaced:
		return true
	default:
		code, ended := p.exited()
		return ended && code != 0
	}
}

// stop ends the process and waits until it has ended. It sends SIGKILL, as the
// host does; with a positive grace time it sends SIGTERM first.
func (p *process) stop(grace time.Duration) {
	// Signal fails if the process has already ended.
	if grace > 0 && p.cmd.Process.Signal(syscall.SIGTERM) == nil {
		timer := time.NewTimer(grace)
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

// freePort returns a free port of the loopback address, another one with each
// call. It is below the ports that systems give to connections and to listeners
// on port 0, which could take it before the handler does, or between two starts
// of the handler. If another program takes it all the same, the handler exits
// before it is ready, and its next start uses another port.
func freePort() (int, error) {
	const first, count, tries = 20000, 10000, 100
	lastPort.CompareAndSwap(0, 1+rand.Uint32N(count)) // other processes call this, too
	var last error
	for range tries {
		port := first + int(lastPort.Add(1)%count)
		listener, err := net.Listen("tcp4", "127.0.0.1:"+strconv.Itoa(port))
		if err == nil {
			return port, listener.Close()
		}
		last = err
	}
	return 0, last
}

// lastPort is the port that freePort tried last, from its first one on; 0 before
// the first call.
var lastPort atomic.Uint32
