package servicebus

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/google/go-cmp/cmp"

	"kennel/gate"
	"kennel/internal/dev/devbus"
)

const (
	contoso = "Endpoint=sb://contoso.servicebus.windows.net/;SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey=c2VjcmV0"
	topic   = "signals"

	ourStore = "ours"
)

// release is what the tests publish.
var release = gate.Signal{
	Gate: "hounds", Generation: 7, Released: true, Life: "LIFE",
	At: time.Date(2026, 11, 21, 9, 0, 0, 123e6, time.UTC), By: "ann", Reason: "all are \"warm\"\nand ready",
}

// withBus runs a test in virtual time on a bus that has the topic. It fails if
// a goroutine outlives the test.
func withBus(t *testing.T, test func(t *testing.T, b *devbus.Broker)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := devbus.New(nil)
		t.Cleanup(b.Close)
		if err := b.CreateTopic(topic, nil); err != nil {
			t.Fatal(err)
		}
		test(t, b)
	})
}

func inProcess(b *devbus.Broker) *Options {
	return &Options{
		Dial:  func(context.Context) (net.Conn, error) { return b.Dial(), nil },
		Admin: b.AdminTransport(),
	}
}

func openSignals(t *testing.T, o *Options) *Signals {
	t.Helper()
	s, err := Namespace{ConnectionString: contoso}.OpenSignals(topic, ourStore, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// stranger is somebody else on the bus, who may send to the topic.
func stranger(t *testing.T, b *devbus.Broker) (*busClient, *azservicebus.Sender) {
	t.Helper()
	clients, err := Namespace{ConnectionString: contoso}.open(inProcess(b))
	if err != nil {
		t.Fatal(err)
	}
	client, err := clients.connect(promptly)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.close)
	sender, err := client.NewSender(topic, nil)
	if err != nil {
		t.Fatal(err)
	}
	return client, sender
}

// diary is a listener that writes everything down.
type diary struct {
	mu     sync.Mutex
	up     bool
	ups    int
	whys   []error
	heard  []gate.Signal
	upFrom time.Time
}

func (d *diary) Up() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.up, d.upFrom = true, time.Now()
	d.ups++
}

func (d *diary) Down(why error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.up = false
	d.whys = append(d.whys, why)
}

func (d *diary) Heard(s gate.Signal) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.heard = append(d.heard, s)
}

func (d *diary) read() (up bool, ups int, heard []gate.Signal, why error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.whys) > 0 {
		why = d.whys[len(d.whys)-1]
	}
	return d.up, d.ups, slices.Clone(d.heard), why
}

// listen starts listening. When stop returns, it has ended, and done with its
// error.
func listen(t *testing.T, s *Signals) (d *diary, stop func() error) {
	t.Helper()
	d = &diary{}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Listen(ctx, d) }()
	stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	t.Cleanup(func() { stop() })
	return d, stop
}

// within waits until it is so, at most as long in virtual time, and returns
// how long that was.
func within(t *testing.T, most time.Duration, what string, so func() bool) time.Duration {
	t.Helper()
	began := time.Now()
	for !so() {
		if time.Since(began) > most {
			t.Fatalf("%s: not within %v", what, most)
		}
		time.Sleep(time.Millisecond)
	}
	return time.Since(began)
}

func (d *diary) isUp() bool {
	up, _, _, _ := d.read()
	return up
}

func (d *diary) hasHeard(n int) func() bool {
	return func() bool {
		_, _, heard, _ := d.read()
		return len(heard) >= n
	}
}

func publish(t *testing.T, s *Signals, signal gate.Signal) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	return s.Publish(ctx, signal)
}

func subscriptions(b *devbus.Broker) (names []string) {
	for _, path := range b.Entities() {
		if _, name, ok := strings.Cut(path, "/Subscriptions/"); ok {
			names = append(names, name)
		}
	}
	return names
}

func TestSignalsReachEverybody(t *testing.T) {
	withBus(t, func(t *testing.T, b *devbus.Broker) {
		one, two := openSignals(t, inProcess(b)), openSignals(t, inProcess(b))
		first, stopFirst := listen(t, one)
		second, stopSecond := listen(t, two)
		for _, d := range []*diary{first, second} {
			within(t, 2*time.Second, "subscribed", d.isUp)
		}
		names := subscriptions(b)
		if len(names) != 2 || len(names[0]) > 50 || names[0] == names[1] {
			t.Errorf("the subscriptions are %q, want two of up to 50 characters", names)
		}
		for range 2 {
			if err := publish(t, one, release); err != nil {
				t.Fatal(err)
			}
		}
		for _, d := range []*diary{first, second} {
			within(t, time.Second, "heard", d.hasHeard(2))
			if _, _, heard, _ := d.read(); !cmp.Equal(heard, []gate.Signal{release, release}) {
				t.Errorf("heard %s", cmp.Diff([]gate.Signal{release, release}, heard))
			}
		}
		for _, stop := range []func() error{stopFirst, stopSecond} {
			if err := stop(); err != nil {
				t.Errorf("listening ended with %v", err)
			}
		}
		if names := subscriptions(b); len(names) != 0 {
			t.Errorf("after the stop there are still the subscriptions %q", names)
		}
	})
}

// Publishing gets over whatever its connection has met since it was last used.
func TestPublishingRecovers(t *testing.T) {
	for _, test := range []struct {
		name  string
		fault devbus.Fault
		drop  bool
	}{
		{"connection lost", devbus.Fault{}, true},
		{"frozen", devbus.Fault{Kind: devbus.Freeze}, false},
		{"detached", devbus.Fault{Kind: devbus.Detach, Times: 1}, false},
		{"detached for good", devbus.Fault{Kind: devbus.Detach, Condition: "amqp:resource-limit-exceeded", Times: 1}, false},
		{"closed before", devbus.Fault{Kind: devbus.CloseBefore, Times: 1}, false},
		{"closed after", devbus.Fault{Kind: devbus.CloseAfter, Times: 1}, false},
		{"no answer", devbus.Fault{Kind: devbus.Silent, Times: 1}, false},
		{"rejected", devbus.Fault{Kind: devbus.Reject, Times: 1}, false},
		{"busy", devbus.Fault{Kind: devbus.Reject, Condition: "com.microsoft:server-busy", Times: 1}, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			withBus(t, func(t *testing.T, b *devbus.Broker) {
				s, other := openSignals(t, inProcess(b)), openSignals(t, inProcess(b))
				if err := publish(t, s, release); err != nil {
					t.Fatal(err)
				}
				if test.fault.Kind != 0 {
					b.Fail(test.fault)
				}
				if test.drop {
					b.DropConnections()
				}
				time.Sleep(time.Second)
				d, _ := listen(t, other)
				within(t, 2*time.Second, "subscribed", d.isUp)
				if err := publish(t, s, release); err != nil {
					t.Fatal(err)
				}
				within(t, time.Second, "heard", d.hasHeard(1))
			})
		})
	}
}

// An outage of the bus is the publisher's error, in time and without secrets.
func TestPublishingFails(t *testing.T) {
	for _, test := range []struct {
		name   string
		fault  devbus.Fault
		denied bool
	}{
		{"refused", devbus.Fault{Kind: devbus.RefuseDial}, false},
		{"black hole", devbus.Fault{Kind: devbus.BlackHole}, false},
		{"no answer", devbus.Fault{Kind: devbus.Silent}, false},
		{"no right", devbus.Fault{Kind: devbus.CBS, Status: 401}, true},
		{"no topic", devbus.Fault{Kind: devbus.DeleteEntity, Entity: topic}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			withBus(t, func(t *testing.T, b *devbus.Broker) {
				s := openSignals(t, inProcess(b))
				b.Fail(test.fault)
				began := time.Now()
				err := publish(t, s, release)
				if err == nil || errors.Is(err, ErrDenied) != test.denied {
					t.Errorf("got %v, want an error; denied: %v", err, test.denied)
				}
				if took := time.Since(began); took > 5*time.Second {
					t.Errorf("it took %v", took)
				}
				if text := fmt.Sprint(err); strings.Contains(text, "c2VjcmV0") || strings.Contains(text, "\n") {
					t.Errorf("the error is %q", text)
				}
				b.Heal()
			})
		})
	}
}

func TestOpenSignals(t *testing.T) {
	for _, test := range []struct {
		bus  Namespace
		says string
	}{
		{Namespace{ConnectionString: "Endpoint=sb://;SharedAccessKey=c2VjcmV0"}, "malformed"},
		{Namespace{ConnectionString: "secret"}, "malformed"},
		{Namespace{Host: "contoso.servicebus.windows.net", ManagedIdentity: true, ClientID: "an id"}, ""},
		{Namespace{Host: "contoso.servicebus.windows.net", ManagedIdentity: true}, ""},
		{Namespace{ConnectionString: contoso}, ""},
	} {
		_, err := test.bus.OpenSignals(topic, ourStore, nil)
		if got := fmt.Sprint(err); (err != nil) != (test.says != "") || !strings.Contains(got, test.says) && test.says != "" || strings.Contains(got, "c2VjcmV0") {
			t.Errorf("got %v, want an error that says %q and repeats nothing", err, test.says)
		}
	}
}

// altered is a signal with one of its lines replaced.
func altered(line int, by string) []byte {
	lines := strings.SplitN(string(encodeSignal(release, ourStore)), "\n", signalLines)
	lines[line] = by
	return []byte(strings.Join(lines, "\n"))
}

func FuzzSignal(f *testing.F) {
	f.Add(encodeSignal(release, ourStore))
	for line := range signalLines {
		f.Add(altered(line, ""))
	}
	f.Add(altered(8, "one\ntwo\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, ours := decodeSignal(text, ourStore)
		if !ours || s.Gate == "" {
			if s != (gate.Signal{}) {
				t.Errorf("%q became %+v", text, s)
			}
			return
		}
		if err := gate.CheckName(s.Gate); err != nil {
			t.Error(err)
		}
		if again, _ := decodeSignal(encodeSignal(s, ourStore), ourStore); !cmp.Equal(again, s) {
			t.Errorf("became %s", cmp.Diff(s, again))
		}
	})
}
