package localhost

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

var (
	// ErrCrashed ends Run: the handler has crashed for the third time, each within 30 minutes of the one
	// before. The real host stops then, too.
	ErrCrashed = errors.New("exceeded http worker restart retry count")

	// ErrNeverReady ends Run: an invocation has waited four times the initialization timeout for a handler.
	ErrNeverReady = errors.New("the handler did not become ready")
)

// A supervisor keeps one handler process running, by the host's rules:
//
//   - exit code 0: the handler is left dead, and every invocation fails, until the host itself is restarted;
//   - exit code 200: it is started again;
//   - any other exit, or no answer within the initialization timeout: it is started again and the error is
//     counted; the third stops the host. 30 minutes without an error clear the count.
type supervisor struct {
	launcher launcher
	startUp  time.Duration // the initialization timeout
	patience time.Duration // between SIGTERM and SIGKILL; zero: SIGKILL at once

	overdue     chan struct{} // closed when an invocation has waited too long for the handler
	overdueOnce sync.Once

	mu      sync.Mutex
	current *process      // answers invocations; nil while there is none; guarded by mu
	changed chan struct{} // closed and replaced when current changes; guarded by mu
}

func newSupervisor(l launcher, startUp, patience time.Duration) *supervisor {
	return &supervisor{
		launcher: l,
		startUp:  startUp,
		patience: patience,
		overdue:  make(chan struct{}),
		changed:  make(chan struct{}),
	}
}

// farewell is how long after the handler's end a stop of the host still explains it: Ctrl+C in a terminal goes
// to both, and the handler may be quicker.
const farewell = 100 * time.Millisecond

// run starts the handler and keeps it running until work ends. Once taking has ended, it is not started again. The
// last process is gone when run returns.
func (s *supervisor) run(taking, work context.Context) error {
	var record crashRecord
	for {
		p, err := s.launcher.start()
		if err != nil {
			return err
		}
		crash := s.tend(taking, work, p)
		s.publish(nil)

		select {
		case <-s.overdue:
			p.stop(0)
			return fmt.Errorf("%w: an invocation has waited %s for it", ErrNeverReady, formatTimeSpan(4*s.startUp))
		default:
		}
		if taking.Err() != nil {
			p.stop(s.patience)
			return nil
		}
		p.stop(0)
		if crash == "" {
			continue
		}

		words := "" // its last, to follow a sentence
		for _, line := range p.stderr.all() {
			words += "\n    " + line
		}
		if record.add(time.Now()) {
			s.say("Exceeded http worker restart retry count. Shutting down Functions Host. The handler %s.%s", crash, words)
			return fmt.Errorf("%w, shutting down functions host: the handler %s%s", ErrCrashed, crash, words)
		}
		s.say("The handler %s: error %d of 3 (the third within 30 minutes of the one before stops the host). It is started again.%s",
			crash, record.count, words)
	}
}

// tend watches one process for as long as it is of use, and says how it crashed. An empty text means that its
// end is no crash: it asked for a restart, the host wants to replace it, or the host stops.
func (s *supervisor) tend(taking, work context.Context, p *process) (crash string) {
	if err := s.awaitReady(work, p); err != nil {
		code, gone := p.exited()
		switch {
		case work.Err() != nil || gone && isStopping(taking):
			return ""
		case gone && code == 200:
			s.say("The handler exited with code 200 before it was ready: it is started again.")
			return ""
		case gone && code != 0:
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
	case <-p.doomed:
		return ""
	case <-p.done:
		if isStopping(taking) {
			return ""
		}
	}
	switch p.code {
	case 200:
		s.say("The handler exited with code 200: it is started again.")
		return ""
	case 0:
		s.say("THE HANDLER EXITED WITH CODE 0. The host takes that for a wanted end and never starts it again: every invocation fails from here on. Exit with another code after an unexpected end, or with 200 to be started again.")
		select {
		case <-work.Done():
		case <-p.doomed:
		}
		return ""
	}
	return "exited with " + exitText(p)
}

// isStopping reports whether the host stops now or within the farewell.
func isStopping(taking context.Context) bool {
	timer := time.NewTimer(farewell)
	defer timer.Stop()
	select {
	case <-taking.Done():
		return true
	case <-timer.C:
		return false
	}
}

// awaitReady returns nil when the process answers over HTTP, and an error when that can no longer happen. After
// exit code 0 the real host goes on asking until the time is over, and so does this one.
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
	if p.code < 0 {
		return p.cmd.ProcessState.String() // "signal: killed"
	}
	return fmt.Sprintf("code %d", p.code)
}

func (s *supervisor) say(format string, args ...any) { s.launcher.out.say(format, args...) }

// publish makes a process the one that gets invocations; nil: there is none now.
func (s *supervisor) publish(p *process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current = p
	close(s.changed)
	s.changed = make(chan struct{})
}

// acquire returns the process to send an invocation to, and waits for one if need be, but not for longer than
// the host does: after that, the host stops. A process that exited with code 0 is returned too: the call to it
// then fails, as in the real host.
func (s *supervisor) acquire(ctx context.Context) (*process, error) {
	limit := time.NewTimer(4 * s.startUp)
	defer limit.Stop()
	p, err := s.wait(ctx, limit.C)
	if errors.Is(err, ErrNeverReady) {
		s.overdueOnce.Do(func() { close(s.overdue) })
	}
	return p, err
}

// wait returns the process that answers invocations as soon as there is one. A nil limit never ends it.
func (s *supervisor) wait(ctx context.Context, limit <-chan time.Time) (*process, error) {
	for {
		s.mu.Lock()
		p, changed := s.current, s.changed
		s.mu.Unlock()
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

// dead reports whether the handler has exited with code 0, after which it stays dead.
func (s *supervisor) dead() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == nil {
		return false
	}
	code, gone := s.current.exited()
	return gone && code == 0
}

// A crashRecord counts errors that come within 30 minutes of each other.
type crashRecord struct {
	last  time.Time
	count int
}

// add counts an error, and reports whether it is the one that stops the host.
func (c *crashRecord) add(now time.Time) (stop bool) {
	if now.Sub(c.last) > 30*time.Minute {
		c.count = 0
	}
	c.last = now
	c.count++
	return c.count >= 3
}
