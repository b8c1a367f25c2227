// Package kenneltest runs a program on package kennel in a test: on Azure Storage
// in memory, behind a Functions host whose clock the test moves.
//
//	func TestOrder(t *testing.T) {
//		kenneltest.Run(t, func(k *kenneltest.Kit) kennel.Program {
//			s := &Shop{mail: func(to string) error { return k.Effect("mail", to, nil) }}
//			return s.program
//		}, func(k *kenneltest.Kit) {
//			k.Send("orders", Order{To: "ann"}, nil)
//			k.Settle()
//			if mails := k.Effects("mail"); len(mails) != 1 || mails[0].Key != "ann" {
//				t.Errorf("mails %v", mails)
//			}
//		}, nil)
//	}
//
// Kennel's clock (delays, waits after failed attempts, slots of timers) stands
// still until [Kit.Settle] or [Kit.Advance] moves it. The program's own code runs
// in real time, and may use the network; [kennel.Now] returns the time of
// Kennel's clock.
//
// Batches are an exception: the times of a [kennel.Batch] are real ones, because
// the program may submit a batch and read it without a context of Kennel. Use
// them to compare batches with each other, not with [Kit.Now].
package kenneltest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"kennel"
	"kennel/devstore"
	"kennel/internal/attempt"
	"kennel/internal/azure"
	"kennel/internal/customhandler"
	"kennel/internal/inside"
	"kennel/internal/parts"
	"kennel/internal/program"
)

// Build returns the program of a test. What it makes belongs to that test alone.
type Build func(*Kit) kennel.Program

// Options are the options of a run; nil and zero fields mean the defaults.
type Options struct {
	Name     string            // of the program; default "program"
	Settings map[string]string // instead of the environment
	Start    time.Time         // of Kennel's clock; default 2026-01-01 00:00 UTC
}

func (o *Options) withDefaults() Options {
	var opt Options
	if o != nil {
		opt = *o
	}
	opt.Name = cmp.Or(opt.Name, "program")
	if opt.Start.IsZero() {
		opt.Start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	return opt
}

// Kit is a program that runs in a test. A mistake in its use, as an undeclared
// queue, ends the test.
type Kit struct {
	t       testing.TB
	ctx     context.Context
	network *network
	clock   *clock
	log     *logged

	running  *parts.Running
	declared *program.Declared
	host     *customhandler.Client
	queues   *azure.Queues
	triggers map[string]string // the function of a storage queue
	timers   []*timer

	mu      sync.Mutex
	effects []EffectRecord    // guarded by mu
	fails   map[string][]bool // before or after the next effects of a name; guarded by mu
}

// Run runs a program while f tests it.
func Run(t testing.TB, build Build, f func(*Kit), options *Options) {
	t.Helper()
	opt := options.withDefaults()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	k := &Kit{t: t, clock: &clock{now: opt.Start}, log: &logged{t: t}, triggers: make(map[string]string), fails: make(map[string][]bool)}
	k.ctx = attempt.WithClock(ctx, k.clock.Now)
	store, err := devstore.Open("", &devstore.Options{Now: k.clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	defer k.log.end()
	k.network = &network{store: store, clock: k.clock}
	k.open(build, opt, store.InProcess())
	if err := k.running.Start(k.ctx); err != nil {
		t.Fatal(err)
	}
	defer func() {
		stopping, cancel := context.WithTimeout(context.WithoutCancel(k.ctx), 30*time.Second)
		defer cancel()
		if err := k.running.Stop(stopping); err != nil {
			t.Errorf("stop the program: %v", err)
		}
	}()
	f(k)
}

// open opens the program.
func (k *Kit) open(build Build, opt Options, connection string) {
	k.t.Helper()
	p := build(k)
	environ := []string{"AzureWebJobsStorage=" + connection}
	for name, value := range opt.Settings {
		environ = append(environ, name+"="+value)
	}
	ids := 0
	var mu sync.Mutex
	newID := func() string {
		mu.Lock()
		defer mu.Unlock()
		ids++
		return fmt.Sprintf("message-%d", ids)
	}
	opened := &inside.Opening{Outside: parts.Outside{
		Environ: environ, Stdout: k.log, Stderr: k.log, Transport: &http.Client{Transport: k.network}, NewID: newID,
	}}
	err := kennel.Run(inside.With(k.ctx, opened), opt.Name, p, nil)
	if err != nil {
		k.t.Fatalf("the program cannot run:\n%v", err)
	}
	k.running, k.declared = opened.Running, opened.Declared
	k.host = customhandler.NewClientThrough(inProcess{k.running.Program.Host, k.ctx})
	if k.queues, err = (azure.Account{ConnectionString: connection, Prefix: k.running.Prefix()}).OpenQueues(&azure.Options{HTTP: &http.Client{Transport: uncounted{k.network}}}); err != nil {
		k.t.Fatal(err)
	}
	k.openTimers()
	for _, f := range k.declared.Describe().Functions {
		if f.Bindings[0].Type == "queueTrigger" {
			k.triggers[f.Bindings[0].QueueName] = f.Name
		}
	}
}

// Send sends a message to a declared queue. body is a value of the queue's type,
// or of one with the same JSON.
func (k *Kit) Send(queue string, body any, options *kennel.SendOptions) kennel.Sent {
	k.t.Helper()
	text, err := textOf(body)
	if err == nil {
		err = k.running.CheckBody(queue, text)
	}
	var delay time.Duration
	if options != nil {
		delay = options.Delay
	}
	var id string
	if err == nil {
		id, err = k.running.Send(k.ctx, queue, text, delay)
	}
	if err != nil {
		k.t.Fatalf("send to queue %q: %v", queue, err)
	}
	return kennel.Sent{ID: id}
}

func textOf(body any) ([]byte, error) {
	switch raw := body.(type) {
	case []byte:
		return raw, nil
	case json.RawMessage:
		return raw, nil
	}
	return json.Marshal(body)
}

// Now returns the time of Kennel's clock, as [kennel.Now] does in the program.
func (k *Kit) Now() time.Time { return k.clock.Now() }

// Requests returns how many requests the program has sent to storage.
func (k *Kit) Requests() int { return k.network.count() }

// Client returns a client of the program's routes and of the HTTP API. It takes
// addresses without a host: Get("/api/orders").
func (k *Kit) Client() *http.Client {
	return &http.Client{Transport: caller{inProcess{k.running.Program.Host, k.ctx}, k}}
}

// DeadLetter is a message that became one.
type DeadLetter struct {
	ID       string
	Body     []byte
	Reason   string
	Attempts int
}

// DeadLetters returns the first dead letters of a declared queue.
func (k *Kit) DeadLetters(queue string) (all []DeadLetter) {
	k.t.Helper()
	letters, err := k.running.Letters(k.ctx, queue)
	if err != nil {
		k.t.Fatalf("dead letters of queue %q: %v", queue, err)
	}
	for _, l := range letters {
		all = append(all, DeadLetter(l))
	}
	return all
}

// EffectRecord is what the program did outside.
type EffectRecord struct {
	Name, Key string
	At        time.Time
}

// ErrEffect is the error of an effect that was told to fail.
var ErrEffect = fmt.Errorf("the effect fails in this test")

// Effect records an effect: the fakes of a test call it instead of what is
// outside. f, which may be nil, is its own work. It returns the error of f, or
// [ErrEffect] if it was told to fail.
func (k *Kit) Effect(name, key string, f func() error) error {
	k.mu.Lock()
	var fails, after bool
	if next := k.fails[name]; len(next) > 0 {
		fails, after, k.fails[name] = true, next[0], next[1:]
	}
	k.mu.Unlock()
	if fails && !after {
		return ErrEffect
	}
	if f != nil {
		if err := f(); err != nil {
			return err
		}
	}
	k.mu.Lock()
	k.effects = append(k.effects, EffectRecord{name, key, k.clock.Now()})
	k.mu.Unlock()
	if fails {
		return ErrEffect
	}
	return nil
}

// FailEffect makes the next effect of a name fail: before it happens or, with
// after, although it happens.
func (k *Kit) FailEffect(name string, after bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.fails[name] = append(k.fails[name], after)
}

// Effects returns the effects of a name, in their order.
func (k *Kit) Effects(name string) (all []EffectRecord) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, e := range k.effects {
		if e.Name == name {
			all = append(all, e)
		}
	}
	return all
}

// Attempt returns a context of an attempt, for a plain test of a handler.
func Attempt(ctx context.Context, a kennel.Attempt) context.Context {
	return attempt.With(ctx, attempt.Attempt(a))
}

// logged is the log of the program, which a failed test prints.
type logged struct {
	t    testing.TB
	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

// Write implements [io.Writer].
func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.t.Failed() && l.text.Len() > 0 {
		l.t.Logf("log of the program:\n%s", strings.TrimSpace(l.text.String()))
	}
}
