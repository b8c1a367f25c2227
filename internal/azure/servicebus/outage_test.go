package servicebus

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"kennel/gate"
	"kennel/internal/dev/devbus"
)

// While the bus is away, nobody asks it more than now and then: thousands of
// instances that do would keep it away. The SDK by itself renews its tokens
// every five minutes, and repeats that dozens of times a second when it fails.
func TestOutageIsNoStorm(t *testing.T) {
	const outage = time.Hour
	for _, fault := range []devbus.Fault{
		{Kind: devbus.RefuseDial}, {Kind: devbus.BlackHole},
		{Kind: devbus.CBS, Status: 503}, {Kind: devbus.CBS, Status: 500},
		{Kind: devbus.Detach}, {Kind: devbus.Detach, Condition: "com.microsoft:server-busy"},
		{Kind: devbus.RefuseAttach, Condition: "com.microsoft:timeout"},
	} {
		t.Run(fmt.Sprint(fault.Kind, fault.Status, fault.Condition), func(t *testing.T) {
			withBus(t, func(t *testing.T, b *devbus.Broker) {
				var dials atomic.Int64
				o := inProcess(b)
				o.Dial = func(context.Context) (net.Conn, error) {
					dials.Add(1)
					return b.Dial(), nil
				}
				s := openSignals(t, o)
				d, _ := listen(t, s)
				within(t, 2*time.Second, "subscribed", d.isUp)
				if err := publish(t, s, release); err != nil {
					t.Fatal(err)
				}
				before, first := b.Stats(), dials.Load()
				b.Fail(fault)
				if fault.Kind == devbus.RefuseDial || fault.Kind == devbus.BlackHole {
					b.DropConnections()
				}
				time.Sleep(outage)
				after := b.Stats()
				asked := max(dials.Load()-first, after.Faults-before.Faults, after.Attached-before.Attached)
				if most := int64(outage / time.Second); asked > most {
					t.Errorf("in %v of outage it asked %d times, want at most %d", outage, asked, most)
				}
				if _, ups, _, _ := d.read(); ups > 3 {
					t.Errorf("it was up %d times, on a bus that does not work", ups)
				}
				b.Heal()
				within(t, 3*time.Minute, "up again", d.isUp)
			})
		})
	}
}

// A connection that falls silent in an unlucky moment has the SDK wait for it
// whatever the context says. We do not.
func TestStopAmidSilence(t *testing.T) {
	for late := 20 * time.Millisecond; late <= 140*time.Millisecond; late += 10 * time.Millisecond {
		for _, stopAt := range []time.Duration{0, time.Second, time.Minute} {
			withBus(t, func(t *testing.T, b *devbus.Broker) {
				d, stop := listen(t, openSignals(t, far(t, b, 50*time.Millisecond)))
				within(t, 3*time.Second, "subscribed", d.isUp)
				b.Fail(devbus.Fault{Kind: devbus.Detach, Condition: "amqp:link:detach-forced", Times: 1})
				time.Sleep(late)
				b.Fail(devbus.Fault{Kind: devbus.Freeze})
				time.Sleep(stopAt)
				if _, _, _, why := d.read(); stopAt == time.Minute && why == nil {
					t.Errorf("frozen %v after a detach, and not noticed for %v", late, stopAt)
				}
				began := time.Now()
				stop()
				if took := time.Since(began); took > farewell+2*closeWithin+100*time.Millisecond {
					t.Errorf("frozen %v after a detach, the stop took %v", late, took)
				}
				b.Heal()
			})
		}
	}
}

// What an old connection says of rights and topics may be long over.
func TestStaleRefusals(t *testing.T) {
	for _, test := range []struct {
		name  string
		stale func(b *devbus.Broker)
	}{
		{"topic made anew", func(b *devbus.Broker) {
			b.Delete(topic)
			b.CreateTopic(topic, nil) // at once: whoever meets no topic at all has no reason to insist
		}},
		{"detached for want of rights", func(b *devbus.Broker) {
			b.Fail(devbus.Fault{Kind: devbus.Detach, Condition: "amqp:unauthorized-access"})
			b.Heal()
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			withBus(t, func(t *testing.T, b *devbus.Broker) {
				s := openSignals(t, inProcess(b))
				d, _ := listen(t, openSignals(t, inProcess(b)))
				within(t, 2*time.Second, "subscribed", d.isUp)
				if err := publish(t, s, release); err != nil {
					t.Fatal(err)
				}
				within(t, time.Second, "heard", d.hasHeard(1))
				test.stale(b)
				within(t, time.Second, "noticed", func() bool { return !d.isUp() })
				within(t, 5*time.Second, "up again", d.isUp)
				if err := publish(t, s, release); err != nil {
					t.Fatal(err)
				}
				within(t, time.Second, "heard", d.hasHeard(2))
			})
		})
	}
}

// A namespace in another part of the world is slow, and works.
func TestFromAfar(t *testing.T) {
	withBus(t, func(t *testing.T, b *devbus.Broker) {
		s := openSignals(t, far(t, b, 150*time.Millisecond))
		d, _ := listen(t, s)
		within(t, 10*time.Second, "subscribed", d.isUp)
		for i := range 3 {
			time.Sleep(time.Duration(i) * 2 * time.Minute)
			if err := publish(t, s, release); err != nil {
				t.Fatal(err)
			}
			within(t, 2*time.Second, "heard", d.hasHeard(i+1))
		}
	})
}

// A connection to publish by is kept for the next signal, and not for ever.
func TestIdlePublisherHangsUp(t *testing.T) {
	withBus(t, func(t *testing.T, b *devbus.Broker) {
		s := openSignals(t, inProcess(b))
		for range 5 {
			if err := publish(t, s, release); err != nil {
				t.Fatal(err)
			}
			time.Sleep(outletLives / 2)
		}
		if made := b.Stats().Connections; made != 1 {
			t.Errorf("%d connections for five signals, one each half minute", made)
		}
		time.Sleep(outletLives)
		if left := b.Connections(); left != 0 {
			t.Errorf("%d connections are left", left)
		}
	})
}

// A receiver that gets nothing while its subscription holds something is not
// believed for long. Here somebody else has taken hold of it.
func TestDeafReceiver(t *testing.T) {
	withBus(t, func(t *testing.T, b *devbus.Broker) {
		s := openSignals(t, inProcess(b))
		d, stop := listen(t, s)
		within(t, 2*time.Second, "subscribed", d.isUp)
		b.Fail(devbus.Fault{Kind: devbus.RefuseDial})
		b.DropConnections()
		within(t, time.Second, "noticed", func() bool { return !d.isUp() })
		b.Heal()

		client, sender := stranger(t, b)
		if err := sender.SendMessage(t.Context(), &azservicebus.Message{Body: encodeSignal(release, ourStore)}, nil); err != nil {
			t.Fatal(err)
		}
		other, err := client.NewReceiverForSubscription(topic, subscriptions(b)[0], nil)
		if err != nil {
			t.Fatal(err)
		}
		if messages, err := other.ReceiveMessages(t.Context(), 1, nil); err != nil || len(messages) != 1 {
			t.Fatalf("took %d, %v", len(messages), err)
		}
		within(t, 2*time.Minute, "reconnected", func() bool {
			d.mu.Lock()
			defer d.mu.Unlock()
			return slices.ContainsFunc(d.whys, func(why error) bool { return strings.Contains(fmt.Sprint(why), errDeaf.Error()) })
		})
		time.Sleep(2 * time.Minute) // the lock ends, and so does the signal's life
		within(t, time.Minute, "up again", d.isUp)
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// Signals about the gates of other stores are none of ours: there, a gate of
// the same name may be open that is shut here.
func TestOthersSignals(t *testing.T) {
	withBus(t, func(t *testing.T, b *devbus.Broker) {
		theirs, err := Namespace{ConnectionString: contoso}.OpenSignals(topic, "theirs", inProcess(b))
		if err != nil {
			t.Fatal(err)
		}
		defer theirs.Close()
		ours := openSignals(t, inProcess(b))
		d, _ := listen(t, ours)
		within(t, 2*time.Second, "subscribed", d.isUp)
		for _, s := range []*Signals{theirs, ours} {
			if err := publish(t, s, release); err != nil {
				t.Fatal(err)
			}
		}
		within(t, time.Second, "heard", d.hasHeard(1))
		time.Sleep(time.Second)
		if _, _, heard, _ := d.read(); len(heard) != 1 {
			t.Errorf("heard %d signals, want our own alone", len(heard))
		}
	})
}

// The SDK takes the answer "released" for success. If one of its versions does
// not any more, the comment on Signals may go.
func TestReleasedLooksLikeSuccess(t *testing.T) {
	withBus(t, func(t *testing.T, b *devbus.Broker) {
		s := openSignals(t, inProcess(b))
		b.Fail(devbus.Fault{Kind: devbus.Release})
		if err := publish(t, s, release); err != nil || b.Stats().Stored != 0 {
			t.Errorf("published with %v, and %d stored", err, b.Stats().Stored)
		}
		b.Heal()
	})
}

// Connection strings come in many forms, of which the SDK's parser and ours
// have to think the same.
func TestTidy(t *testing.T) {
	const keys = ";SharedAccessKeyName=k;SharedAccessKey=c2VjcmV0"
	for _, test := range []struct {
		connection, host string
		emulated         bool
	}{
		{"Endpoint=sb://contoso.servicebus.windows.net/" + keys, "contoso.servicebus.windows.net", false},
		{" Endpoint = SB://contoso.servicebus.windows.net/ " + keys + ";;", "contoso.servicebus.windows.net", false},
		{"Endpoint=sb://127.0.0.1:5001" + keys + ";UseDevelopmentEmulator=true", "127.0.0.1:5001", true},
		{"Endpoint=sb://localhost" + keys + "; usedevelopmentemulator = TRUE ;", "localhost", true},
		{"Endpoint=sb://contoso.servicebus.windows.net" + keys + ";UseDevelopmentEmulator=false", "contoso.servicebus.windows.net", false},
		{"Endpoint=sb://contoso.servicebus.windows.net" + keys + ";UseDevelopmentEmulator=1", "contoso.servicebus.windows.net", false},
	} {
		tidied, host, emulated := tidy(test.connection)
		if host != test.host || emulated != test.emulated {
			t.Errorf("%q leads to %q, emulated %v, want %q and %v", test.connection, host, emulated, test.host, test.emulated)
		}
		if got := strings.Contains(tidied, "UseDevelopmentEmulator=true"); got != emulated {
			t.Errorf("%q: the SDK would think %v of the emulator, we %v", test.connection, got, emulated)
		}
		if _, err := (Namespace{ConnectionString: test.connection}).OpenSignals(topic, ourStore, nil); err != nil {
			t.Errorf("%q: %v", test.connection, err)
		}
	}
	if got := withPort("localhost", emulatorAdminPort); got != "localhost:5300" {
		t.Errorf("an emulator without a port is administered at %s", got)
	}
	if got := withPort("[::1]", 1); got != "[::1]:1" {
		t.Errorf("got %s", got)
	}
}

var _ gate.Signals = (*Signals)(nil)
