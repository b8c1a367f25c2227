package localhost

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

var (
	// ErrCrashed is the reason of a CrashError.
	ErrCrashed = errors.New("exceeded http worker restart retry count, shutting down functions host")

	// ErrNeverReady is returned by Run if an invocation has waited four times
	// the initialization timeout for a handler.
	ErrNeverReady = errors.New("the handler did not become ready")
)

// A CrashError is returned by Run after the third crash of the handler, each
// within 30 minutes of the previous one. The real host also stops then.
type CrashError struct {
	How   string   // the last time: "exited with code 2"
	Lines []string // the last ones on its standard error
}

func (e *CrashError) Error() string {
	return fmt.Sprintf("%v: the handler %s%s", ErrCrashed, e.How, indented(e.Lines))
}

func (e *CrashError) Unwrap() error { return ErrCrashed }

func indented(lines []string) string {
	text := ""
	for _, line := range lines {
		text += "\n    " + line
	}
	return text
}

// A supervisor keeps one handler process running, by the host's rules:
//
//   - exit code 0: the handler is not restarted, and every invocation fails
//     until the host is restarted;
//   - exit code 200: it is restarted;
//   - any other exit, or no response within the initialization timeout: it is
//     restarted and the error is counted. The third error stops the host. After
//     30 minutes without an error the count is reset;
//   - no start at all, because the handler does not exist or is not a program:
//     that is not repeated, and every invocation fails.
type supervisor struct {
	launcher launcher
	startUp  time.Duration // the initialization timeout
	grace    time.Duration // between SIGTERM and SIGKILL; zero: SIGKILL at once
	attached int           // the port of processes that another program starts; 0: start them

	overdue     chan struct{} // closed when an invocation has waited too long for the handler
	overdueOnce sync.Once

	mu      sync.Mutex
	current *process      // serves invocations; nil if there is none; guarded by mu
	failure error         // why no process can be started; guarded by mu
	changed chan struct{} // closed and replaced when current or failure changes; guarded by mu
}

func newSupervisor(l launcher, startUp, grace time.Duration) *supervisor {
	return &supervisor{
		launcher: l,
		startUp:  startUp,
		grace:    grace,
		overdue:  make(chan struct{}),
		changed:  make(chan struct{}),
	}
}

// stopWindow is how soon a stop of the host must follow the end of the handler
// to explain it: Ctrl+C in a terminal reaches both, and the handler may end
// first.
const stopWindow = 100 * time.Millisecond

// run starts the handler and keeps it running until work ends. Once taking has
// ended, the handler is not restarted. When run returns, the last process has
// ended.
func (s *supervisor) run(taking, work context.Context) error {
	if s.attached != 0 {
		return s.attach(work)
	}
	var record crashRecord
	port := 0 // of a handler that was ready, which the next one gets too
	for {
		p, err := s.launcher.start(port)
		if err != nil {
			s.giveUp(err)
			<-work.Done()
			return nil
		}
		crash := s.tend(taking, work, p)
		if s.publish(nil) == p {
			port = p.port
		}

		select {
		case <-s.overdue:
			p.stop(0)
			return fmt.Errorf("%w: an invocation has waited %s for it", ErrNeverReady, formatTimeSpan(4*s.startUp))
		default:
		}
		if taking.Err() != nil {
			p.stop(s.grace)
			return nil
		}
		p.stop(0)
		if crash == "" {
			continue
		}

		// The last lines on standard error were shown when they were written.
		if record.add(time.Now()) {
			s.say("Exceeded http worker restart retry count. Shutting down Functions Host. The handler %s.", crash)
			return &CrashError{crash, p.stderr.all()}
		}
		s.say("The handler %s: error %d of 3 (the host stops at the third, each within 30 minutes of the previous one). It is restarted.",
			crash, record.count)
	}
}

// tend supervises one process until it ends or must be replaced, and returns
// how it crashed. An empty text means that it did not crash: it requested a
// restart, the host replaces it, or the host stops.
func (s *supervisor) tend(taking, work context.Context, p *process) (crash string) {
	if err := s.awaitReady(work, p); err != nil {
		code, ended := p.exited()
		switch {
		case work.Err() != nil || ended && isStopping(taking):
			return ""
		case ended && code == 200:
			s.say("The handler exited with code 200 before it was ready and is restarted.")
			return ""
		case ended && code != 0:
			return fmt.Sprintf("exited with %s before it was ready", exitText(p))
		default:
			return fmt.Sprintf("did not answer GET / on its port in %s (initializing HttpWorker timed out); it must listen on 127.0.0.1, port FUNCTIONS_CUSTOMHANDLER_PORT",
				formatTimeSpan(s.startUp))
		}
	}
	s.publish(p)

	select {
	case <-work.Done():
		return ""
	case <-s.overdue:
		return ""
	case <-p.replaced:
		return ""
	case <-p.done:
		if isStopping(taking) {
			return ""
		}
	}
	switch p.code {
	case 200:
		s.say("The handler exited with code 200 and is restarted.")
		return ""
	case 0:
		s.say("THE HANDLER EXITED WITH CODE 0. The host treats that as intended and does not restart it: every invocation fails from now on. Exit with another code after an error, or with 200 to be restarted.")
		select {
		case <-work.Done():
		case <-p.replaced:
		}
		return ""
	}
	return "exited with " + exitText(p)
}

// isStopping reports whether the host stops now or within the stopWindow.
func isStopping(taking context.Context) bool {
	timer := time.NewTimer(stopWindow)
	defer timer.Stop()
	select {
	case <-taking.Done():
		return true
	case <-timer.C:
		return false
	}
}

// awaitReady returns nil when the process responds to HTTP, and an error when
// that can no longer happen. After exit code 0 the host retries until its
// timeout, as the real host does.
func (s *supervisor) awaitReady(ctx context.Context, p *process) error {
	ctx, cancel := context.WithTimeout(ctx, s.startUp)
	defer cancel()
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-ctx.Done():
			return
		case <-s.overdue:
		case <-p.done:
			if p.code == 0 {
				s.say("The handler exited with code 0 before it was ready.")
				return
			}
		}
		cancel()
	})
	err := p.client.Ready(ctx)
	cancel()
	watch.Wait()
	return err
}

func exitText(p *process) string {
	if p.cmd == nil {
		return "a code that is not known"
	}
	if p.code < 0 {
		return p.cmd.ProcessState.String() // "signal: killed"
	}
	return fmt.Sprintf("code %d", p.code)
}

func (s *supervisor) say(format string, args ...any) { s.launcher.out.say(format, args...) }

// publish sets the process that serves invocations, nil for none, and returns
// the one before.
func (s *supervisor) publish(p *process) (before *process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, s.current = s.current, p
	close(s.changed)
	s.changed = make(chan struct{})
	return before
}

// giveUp fails all invocations from now on, because no process can be started.
func (s *supervisor) giveUp(err error) {
	s.say("ERROR: The handler cannot be started: %v. Every call fails with 500, as in Azure. Correct this, then start the host again.", err)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failure = err
	close(s.changed)
	s.changed = make(chan struct{})
}

// startError returns why no process can be started, or nil.
func (s *supervisor) startError() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failure
}

// acquire returns the process to send an invocation to. It waits until there is
// one, at most four times the initialization timeout; then the host stops. It
// also returns a process that exited with code 0: the call to it then fails, as
// in the real host.
func (s *supervisor) acquire(ctx context.Context) (*process, error) {
	limit := time.NewTimer(4 * s.startUp)
	defer limit.Stop()
	p, err := s.wait(ctx, limit.C)
	if errors.Is(err, ErrNeverReady) {
		s.overdueOnce.Do(func() { close(s.overdue) })
	}
	return p, err
}

// wait waits for a process that serves invocations and returns it. A nil limit
// means no limit.
func (s *supervisor) wait(ctx context.Context, limit <-chan time.Time) (*process, error) {
	for {
		s.mu.Lock()
		p, failure, changed := s.current, s.failure, s.changed
		s.mu.Unlock()
		if failure != nil {
			return nil, failure
		}
		if p != nil && !p.lost() {
			return p, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-limit:
			return nil, ErrNeverReady
		}
	}
}

// dead reports whether the handler has exited with code 0, after which it is
// not restarted.
func (s *supervisor) dead() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == nil {
		return false
	}
	code, ended := s.current.exited()
	return ended && code == 0
}

// A crashRecord counts errors that come within 30 minutes of each other.
type crashRecord struct {
	last  time.Time
	count int
}

// add counts an error and reports whether the host must stop.
func (c *crashRecord) add(now time.Time) (stop bool) {
	if now.Sub(c.last) > 30*time.Minute {
		c.count = 0
	}
	c.last = now
	c.count++
	return c.count >= 3
}
