package servicebus

import (
	"context"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"kennel/gate"
	"kennel/internal/dev/devbus"
)

const (
	contoso = "Endpoint=sb://contoso.servicebus.windows.net/;SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=" + key
	key     = "c2VjcmV0"
	topic   = "signals"
)

// release is the signal that the tests publish.
var release = gate.Signal{Gate: "hounds", Generation: 1763715600123}

func messageOf(s gate.Signal) message {
	return message{Version: messageVersion, Gate: s.Gate, Generation: s.Generation}
}

// withBus runs a test in virtual time with a bus that has the topic. It fails
// if a goroutine outlives the test.
func withBus(t *testing.T, test func(t *testing.T, b *devbus.Broker)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newBus(t)) })
}

// newBus returns a bus with the topic, in virtual time.
func newBus(t *testing.T) *devbus.Broker {
	t.Helper()
	b := devbus.New(nil)
	t.Cleanup(func() {
		b.Heal()
		b.Close()
	})
	if err := b.CreateTopic(topic, nil); err != nil {
		t.Fatal(err)
	}
	return b
}

func inProcess(b *devbus.Broker) *Options {
	return &Options{
		Dial:  func(context.Context) (net.Conn, error) { return b.Dial(), nil },
		Admin: b.AdminTransport(),
	}
}

// counted counts the connections of a client with these options.
func counted(o *Options, dials *atomic.Int64) *Options {
	dial := o.Dial
	o.Dial = func(ctx context.Context) (net.Conn, error) {
		dials.Add(1)
		return dial(ctx)
	}
	return o
}

// distant delays everything like a bus with this round trip, including the
// handshakes of TCP and TLS.
func distant(t *testing.T, b *devbus.Broker, roundTrip time.Duration) *Options {
	var carrying sync.WaitGroup
	t.Cleanup(carrying.Wait)
	return &Options{
		Dial: func(context.Context) (net.Conn, error) {
			time.Sleep(3 * roundTrip)
			near, far := net.Pipe()
			bus := b.Dial()
			carrying.Go(func() { carry(bus, far, roundTrip/2) })
			carrying.Go(func() { carry(far, bus, roundTrip/2) })
			return near, nil
		},
		Admin: delayed{b.AdminTransport(), 4 * roundTrip},
	}
}

// carry copies from one connection to the other with a delay, until either
// ends.
func carry(to, from net.Conn, delay time.Duration) {
	type packet struct {
		due  time.Time
		data []byte
	}
	packets := make(chan packet, 1000)
	go func() {
		defer close(packets)
		for {
			data := make([]byte, 64<<10)
			n, err := from.Read(data)
			if err != nil {
				return
			}
			packets <- packet{time.Now().Add(delay), data[:n]}
		}
	}()
	for p := range packets {
		time.Sleep(time.Until(p.due))
		to.Write(p.data)
	}
	to.Close()
}

type delayed struct {
	policy.Transporter
	delay time.Duration
}

func (d delayed) Do(r *http.Request) (*http.Response, error) {
	time.Sleep(d.delay)
	return d.Transporter.Do(r)
}

func openSignals(t *testing.T, o *Options) *Signals {
	t.Helper()
	s, err := Namespace{ConnectionString: contoso}.OpenSignals(topic, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		began := time.Now()
		s.Close()
		if took := time.Since(began); took > closeTimeout {
			t.Errorf("Close took %v", took)
		}
	})
	return s
}

// openRaw returns a client of the SDK and its sender for the topic.
func openRaw(t *testing.T, b *devbus.Broker) (c *client, send func(m *azservicebus.Message)) {
	t.Helper()
	out, _, err := openSignals(t, inProcess(b)).takeSender()
	if err != nil {
		t.Fatal(err)
	}
	return out.client, func(m *azservicebus.Message) {
		t.Helper()
		if err := out.SendMessage(t.Context(), m, nil); err != nil {
			t.Fatal(err)
		}
	}
}

// recorder is a listener that records its calls.
type recorder struct {
	mu sync.Mutex
	record
}

type record struct {
	up       bool
	ups      int
	reasons  []error
	received []gate.Signal
}

func (r *recorder) Up() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.up = true
	r.ups++
}

func (r *recorder) Down(reason error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.up = false
	r.reasons = append(r.reasons, reason)
}

func (r *recorder) Received(s gate.Signal) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.received = append(r.received, s)
}

func (r *recorder) read() record {
	r.mu.Lock()
	defer r.mu.Unlock()
	return record{r.up, r.ups, slices.Clone(r.reasons), slices.Clone(r.received)}
}

func (r *recorder) isUp() bool   { return r.read().up }
func (r *recorder) isDown() bool { return !r.read().up }

// goesDown returns a function that reports whether the listener went down
// since. It may be up again after a millisecond.
func (r *recorder) goesDown() func() bool {
	before := len(r.read().reasons)
	return func() bool { return len(r.read().reasons) > before }
}
func (r *recorder) hasReceived(n int) func() bool {
	return func() bool { return len(r.read().received) >= n }
}

// listen starts Listen. The function stop ends it and checks that it returns
// quickly and without an error.
func listen(t *testing.T, s *Signals) (r *recorder, stop func()) {
	r = &recorder{}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Listen(ctx, r) }()
	stop = sync.OnceFunc(func() {
		began := time.Now()
		cancel()
		err := <-ended
		if took := time.Since(began); err != nil || took > unsubscribeTimeout+2*closeTimeout+100*time.Millisecond {
			t.Errorf("Listen returned %v, %v after its context ended", err, took)
		}
	})
	t.Cleanup(stop)
	return r, stop
}

// listenUp also waits until the listener is up.
func listenUp(t *testing.T, s *Signals) (r *recorder, stop func()) {
	t.Helper()
	r, stop = listen(t, s)
	await(t, 2*time.Second, "up", r.isUp)
	return r, stop
}

// await waits for a condition in virtual time and returns the duration.
func await(t *testing.T, atMost time.Duration, what string, condition func() bool) time.Duration {
	t.Helper()
	began := time.Now()
	for !condition() {
		if time.Since(began) > atMost {
			t.Fatalf("not %s within %v", what, atMost)
		}
		time.Sleep(5 * time.Millisecond)
	}
	return time.Since(began)
}

func publish(t *testing.T, s *Signals) error {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	return s.Publish(ctx, release)
}

func mustPublish(t *testing.T, s *Signals) {
	t.Helper()
	if err := publish(t, s); err != nil {
		t.Fatal(err)
	}
}

func subscriptions(b *devbus.Broker) (names []string) {
	for _, path := range b.Entities() {
		if _, name, ok := strings.Cut(path, "/Subscriptions/"); ok {
			names = append(names, name)
		}
	}
	return names
}
