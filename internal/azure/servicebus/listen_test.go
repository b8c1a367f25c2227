package servicebus

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/google/go-cmp/cmp"

	"kennel/gate"
	"kennel/internal/dev/devbus"
)

// far makes a bus as far away as one in the same region, and farther: there and
// back takes that long, and so do the handshakes of TCP and TLS.
func far(t *testing.T, b *devbus.Broker, roundTrip time.Duration) *Options {
	var carrying sync.WaitGroup
	t.Cleanup(carrying.Wait)
	return &Options{
		Dial: func(context.Context) (net.Conn, error) {
			time.Sleep(3 * roundTrip)
			near, distant := net.Pipe()
			bus := b.Dial()
			carrying.Go(func() { carry(bus, distant, roundTrip/2) })
			carrying.Go(func() { carry(distant, bus, roundTrip/2) })
			return near, nil
		},
		Admin: farAdmin{b.AdminTransport(), 4 * roundTrip},
	}
}

// carry brings what is written to from to the other side, that much later. It
// ends with either side.
func carry(to, from net.Conn, late time.Duration) {
	type parcel struct {
		at   time.Time
		data []byte
	}
	way := make(chan parcel, 1000)
	go func() {
		defer close(way)
		for {
			data := make([]byte, 64<<10)
			n, err := from.Read(data)
			if err != nil {
				return
			}
			way <- parcel{time.Now().Add(late), data[:n]}
		}
	}()
	for p := range way {
		time.Sleep(time.Until(p.at))
		to.Write(p.data)
	}
	to.Close()
}

type farAdmin struct {
	near policy.Transporter
	late time.Duration
}

func (f farAdmin) Do(r *http.Request) (*http.Response, error) {
	time.Sleep(f.late)
	return f.near.Do(r)
}

// From a start to being subscribed takes many round trips, of which the SDK
// makes most; they must not add up to more than two seconds.
func TestSubscribingFromAfar(t *testing.T) {
	withBus(t, func(t *testing.T, b *devbus.Broker) {
		const roundTrip = 50 * time.Millisecond
		d, _ := listen(t, openSignals(t, far(t, b, roundTrip)))
		took := within(t, 2*time.Second, "subscribed", d.isUp)
		t.Logf("figure: from the start to being subscribed, with the bus %v away | %v | ≤ 2 s", roundTrip, took.Round(time.Millisecond))
	})
}

// A subscription that nobody uses is removed after five minutes, and a
// receiver that waits may not count as use. Nobody publishes for a day.
func TestSubscriptionOutlivesSilence(t *testing.T) {
	withBus(t, func(t *testing.T, b *devbus.Broker) {
		s := openSignals(t, inProcess(b))
		d, _ := listen(t, s)
		within(t, 2*time.Second, "subscribed", d.isUp)
		before := b.Stats()
		time.Sleep(24 * time.Hour)
		after := b.Stats()
		_, ups, _, why := d.read()
		if ups != 1 || after.AutoDeleted != 0 {
			t.Errorf("in a silent day it was up %d times, the last time down because of %v, and %d subscriptions were removed", ups, why, after.AutoDeleted)
		}
		if knocks := after.Requests - before.Requests; knocks < 24*60*60/100 {
			t.Errorf("%d signs of life in a day, want one each 100 s at least: a third of what the subscription lives", knocks)
		}
		if err := publish(t, s, release); err != nil {
			t.Fatal(err)
		}
		within(t, time.Second, "heard", d.hasHeard(1))
	})
}

// Whatever goes wrong, listening goes on by itself soon after, with the
// subscription or a new one, and signals are heard again.
func TestListeningRecovers(t *testing.T) {
	gone := func(b *devbus.Broker) {
		for _, name := range subscriptions(b) {
			b.Fail(devbus.Fault{Kind: devbus.DeleteEntity, Entity: topic + "/Subscriptions/" + name})
		}
	}
	for _, test := range []struct {
		name    string
		wrong   func(b *devbus.Broker)
		lasts   time.Duration // until it is mended
		notices time.Duration // until it has to be noticed that it is wrong
		again   time.Duration // after it is mended
	}{
		{"subscription deleted", gone, 0, time.Second, 5 * time.Second},
		{"connections dropped", (*devbus.Broker).DropConnections, 0, time.Second, 2 * time.Second},
		{"frozen, as if unplugged", func(b *devbus.Broker) { b.Fail(devbus.Fault{Kind: devbus.Freeze}) },
			0, heartbeat + busTimeout + closeWithin, 2 * time.Second},
		{"away for ten minutes", func(b *devbus.Broker) {
			b.Fail(devbus.Fault{Kind: devbus.RefuseDial})
			b.DropConnections()
		}, 10 * time.Minute, time.Second, longestPause + 2*time.Second},
		{"black hole for ten minutes", func(b *devbus.Broker) {
			b.Fail(devbus.Fault{Kind: devbus.BlackHole})
			b.DropConnections()
		}, 10 * time.Minute, time.Second, longestPause + busTimeout + 2*time.Second},
		{"busy for a minute", func(b *devbus.Broker) {
			b.Fail(devbus.Fault{Kind: devbus.Detach, Condition: "com.microsoft:server-busy"})
		}, time.Minute, time.Second, longestPause + 2*time.Second},
		{"internal errors for a minute", func(b *devbus.Broker) {
			b.Fail(devbus.Fault{Kind: devbus.Detach, Condition: "amqp:internal-error"})
		}, time.Minute, time.Second, longestPause + 2*time.Second},
		{"no tokens for a minute", func(b *devbus.Broker) {
			b.Fail(devbus.Fault{Kind: devbus.CBS, Status: 503})
			b.DropConnections()
		}, time.Minute, time.Second, longestPause + 2*time.Second},
		{"no signs of life for ten minutes", func(b *devbus.Broker) { b.Fail(devbus.Fault{Kind: devbus.DropHeartbeats}) },
			10 * time.Minute, 0, 2 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			withBus(t, func(t *testing.T, b *devbus.Broker) {
				s := openSignals(t, inProcess(b))
				d, stop := listen(t, s)
				within(t, 2*time.Second, "subscribed", d.isUp)

				const rounds = 8 // pauses are random
				var longest time.Duration
				for i := range rounds {
					test.wrong(b)
					if test.notices > 0 {
						within(t, test.notices, "noticed", func() bool { return !d.isUp() })
					}
					time.Sleep(test.lasts)
					b.Heal()
					longest = max(longest, within(t, test.again, "up again", d.isUp))
					if err := publish(t, s, release); err != nil {
						t.Fatal(err)
					}
					within(t, time.Second, "heard", d.hasHeard(i+1))
					time.Sleep(2*steady + time.Second) // not when it knocks, which would be repaired in passing
				}
				if test.name == "subscription deleted" {
					t.Logf("figure: a deleted subscription is back after, at most | %v | ≤ 5 s", longest)
				}
				if err := stop(); err != nil || len(subscriptions(b)) != 0 {
					t.Errorf("the stop said %v and left the subscriptions %q", err, subscriptions(b))
				}
			})
		})
	}
}

// A stop in the middle of an outage does not take long, and leaves nothing
// behind in this process.
func TestStopWithoutTheBus(t *testing.T) {
	for _, fault := range []devbus.Kind{devbus.Freeze, devbus.RefuseDial, devbus.BlackHole} {
		t.Run(fmt.Sprint(fault), func(t *testing.T) {
			withBus(t, func(t *testing.T, b *devbus.Broker) {
				s := openSignals(t, inProcess(b))
				d, stop := listen(t, s)
				within(t, 2*time.Second, "subscribed", d.isUp)
				publish(t, s, release)
				b.Fail(devbus.Fault{Kind: fault})
				if fault != devbus.Freeze {
					b.DropConnections()
				}
				time.Sleep(3 * time.Second)
				began := time.Now()
				if err := stop(); err != nil {
					t.Error(err)
				}
				s.Close()
				if took := time.Since(began); took > farewell+2*closeWithin+100*time.Millisecond {
					t.Errorf("the stop took %v", took)
				}
				b.Heal()
			})
		})
	}
}

// Without the right to manage, or without the topic, there is no listening:
// the caller is told at once, and that it need not insist.
func TestListeningIsDenied(t *testing.T) {
	for _, test := range []struct {
		name  string
		wrong func(b *devbus.Broker, o *Options)
		says  string
	}{
		{"no right to manage", func(_ *devbus.Broker, o *Options) { o.Admin = refusing(http.StatusUnauthorized) }, "Data Owner"},
		{"too many subscriptions", func(_ *devbus.Broker, o *Options) { o.Admin = refusing(http.StatusForbidden) }, "as many subscriptions as it may"},
		{"no topic", func(b *devbus.Broker, _ *Options) { b.Delete(topic) }, "there is no such topic"},
		{"no right to listen", func(b *devbus.Broker, _ *Options) { b.Fail(devbus.Fault{Kind: devbus.CBS, Status: 401}) }, "no right to listen"},
	} {
		t.Run(test.name, func(t *testing.T) {
			withBus(t, func(t *testing.T, b *devbus.Broker) {
				o := inProcess(b)
				test.wrong(b, o)
				s := openSignals(t, o)
				d := &diary{}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				err := s.Listen(ctx, d)
				if !errors.Is(err, ErrDenied) || !strings.Contains(fmt.Sprint(err), test.says) {
					t.Errorf("got %v, want ErrDenied that says %q", err, test.says)
				}
				if _, ups, _, _ := d.read(); ups != 0 {
					t.Errorf("it was up %d times", ups)
				}
				if names := subscriptions(b); len(names) != 0 {
					t.Errorf("it left the subscriptions %q", names)
				}
			})
		})
	}
}

// refusing answers every request with a status.
type refusing int

func (status refusing) Do(r *http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: int(status), Status: http.StatusText(int(status)), Header: http.Header{}, Body: http.NoBody, Request: r,
	}, nil
}

var _ policy.Transporter = refusing(0)

// What others send to the topic does no harm: at most it has everybody look.
func TestStrangeMessages(t *testing.T) {
	withBus(t, func(t *testing.T, b *devbus.Broker) {
		s := openSignals(t, inProcess(b))
		d, _ := listen(t, s)
		within(t, 2*time.Second, "subscribed", d.isUp)

		_, sender := stranger(t, b)
		poison := map[string]any{"DeadLetterReason": int64(5)} // the SDK panics on that
		for i, m := range []*azservicebus.Message{
			{},
			{Body: []byte("look")},
			{Body: altered(0, "kennel 2")},
			{Body: altered(2, "../hounds")},
			{Body: altered(3, "nine")},
			{Body: altered(4, "ajar")},
			{Body: altered(6, "noon")},
			{Body: []byte(strings.Repeat("x", 200<<10))},
			{Body: []byte("poison"), ApplicationProperties: poison, SessionID: to.Ptr("s")},
			{Body: []byte("poison"), ApplicationProperties: poison},
		} {
			if err := sender.SendMessage(t.Context(), m, nil); err != nil {
				t.Fatal(err)
			}
			within(t, 2*time.Second, "heard", d.hasHeard(i+1))
		}
		if err := publish(t, s, release); err != nil {
			t.Fatal(err)
		}
		within(t, 2*time.Second, "heard", d.hasHeard(11))
		_, ups, heard, why := d.read()
		if want := append(make([]gate.Signal, 10), release); !cmp.Equal(heard, want) {
			t.Errorf("heard %s", cmp.Diff(want, heard))
		}
		if ups != 1 {
			t.Errorf("it was down meanwhile: %v", why)
		}

		// What comes together with poison may be lost, but not that something
		// came.
		for range 100 {
			if err := sender.SendMessage(t.Context(), &azservicebus.Message{ApplicationProperties: poison}, nil); err != nil {
				t.Fatal(err)
			}
			if err := publish(t, s, release); err != nil {
				t.Fatal(err)
			}
		}
		within(t, 2*time.Second, "heard", d.hasHeard(12))
		time.Sleep(time.Second)
		if err := publish(t, s, release); err != nil {
			t.Fatal(err)
		}
		within(t, 2*time.Second, "heard", func() bool {
			_, _, heard, _ := d.read()
			return cmp.Equal(heard[len(heard)-1], release)
		})
	})
}
