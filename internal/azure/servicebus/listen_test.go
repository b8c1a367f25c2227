package servicebus

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/google/go-cmp/cmp"

	"kennel/gate"
	"kennel/internal/dev/devbus"
	"kennel/internal/storetest"
)

// Subscribing takes many round trips, most of them by the SDK. It works with a
// distant namespace, and takes at most 2 s in the same region.
func TestSubscribingFromAfar(t *testing.T) {
	for _, tt := range []struct{ roundTrip, atMost time.Duration }{
		{50 * time.Millisecond, 2 * time.Second},
		{150 * time.Millisecond, 10 * time.Second},
	} {
		withBus(t, func(t *testing.T, b *devbus.Broker) {
			s := openSignals(t, distant(t, b, tt.roundTrip))
			r, _ := listen(t, s)
			took := await(t, tt.atMost, "up", r.isUp)
			if tt.atMost == 2*time.Second {
				t.Logf("figure: from the start to being subscribed, with the bus %v away | %v | ≤ 2 s", tt.roundTrip, took.Round(time.Millisecond))
			}
			for i := range 3 {
				time.Sleep(time.Duration(i) * 2 * time.Minute)
				mustPublish(t, s)
				await(t, 2*time.Second, "received", r.hasReceived(i+1))
			}
		})
	}
}

// A listener is up only once Service Bus has accepted its credit.
func TestUpAfterCredit(t *testing.T) {
	withBus(t, func(t *testing.T, b *devbus.Broker) {
		b.Fail(devbus.Fault{Kind: devbus.Detach, Condition: "com.microsoft:server-busy"})
		r, _ := listen(t, openSignals(t, distant(t, b, 50*time.Millisecond)))
		time.Sleep(time.Minute)
		if got := r.read(); got.ups != 0 || len(got.reasons) == 0 {
			t.Errorf("up %d times, down because of %v", got.ups, got.reasons)
		}
	})
}

// Service Bus deletes a subscription after five minutes without use, and a
// waiting receiver may not count as use.
func TestSubscriptionOutlivesSilence(t *testing.T) {
	withBus(t, func(t *testing.T, b *devbus.Broker) {
		silence := time.Duration(storetest.Scale(2, 24)) * time.Hour
		s := openSignals(t, inProcess(b))
		r, _ := listenUp(t, s)
		before := b.Stats()
		time.Sleep(silence)
		after := b.Stats()
		if got := r.read(); got.ups != 1 || after.AutoDeleted != 0 {
			t.Errorf("in %v of silence it was up %d times (%v), and %d subscriptions were deleted", silence, got.ups, got.reasons, after.AutoDeleted)
		}
		if probes := after.Requests - before.Requests; probes < int64(silence/(100*time.Second)) {
			t.Errorf("%d probes in %v, want at least one every 100 s, a third of the subscription's lifetime", probes, silence)
		}
		mustPublish(t, s)
		await(t, time.Second, "received", r.hasReceived(1))
	})
}

// Listen recovers from every fault, with the old subscription or a new one, and
// so does Publish. A denial on an existing connection may be out of date: it
// ends neither.
func TestListeningRecovers(t *testing.T) {
	// A fault may end just after the last dial of an attempt, whose probe then
	// waits for its deadline.
	const nextAttempt = requestTimeout + closeTimeout + maxBackoff
	for _, tt := range []struct {
		name      string
		fault     devbus.Fault // ends at once if it affects the topic or rights
		drop      bool         // drops all connections
		lasts     time.Duration
		downAfter time.Duration // maximum; 0: it stays up
		upAfter   time.Duration // maximum, after the fault
	}{
		{"subscription deleted, failure mode 24", devbus.Fault{Kind: devbus.DeleteEntity}, false, 0, time.Second, 5 * time.Second},
		{"topic created again", devbus.Fault{Kind: devbus.DeleteEntity, Entity: topic}, false, 0, time.Second, 5 * time.Second},
		{"rights lost and given", devbus.Fault{Kind: devbus.Detach, Condition: "amqp:unauthorized-access"}, false, 0, time.Second, 5 * time.Second},
		{"connections dropped", devbus.Fault{}, true, 0, time.Second, 2 * time.Second},
		{"frozen, as if unplugged", devbus.Fault{Kind: devbus.Freeze}, false, 0, probeInterval + requestTimeout + closeTimeout, 2 * time.Second},
		{"refused for ten minutes", devbus.Fault{Kind: devbus.RefuseDial}, true, 10 * time.Minute, time.Second, nextAttempt + time.Second},
		{"black hole for ten minutes", devbus.Fault{Kind: devbus.BlackHole}, true, 10 * time.Minute, time.Second, nextAttempt + time.Second},
		{"busy for a minute", devbus.Fault{Kind: devbus.Detach, Condition: "com.microsoft:server-busy"}, false, time.Minute, time.Second, nextAttempt + time.Second},
		{"internal errors for a minute", devbus.Fault{Kind: devbus.Detach, Condition: "amqp:internal-error"}, false, time.Minute, time.Second, nextAttempt + time.Second},
		{"no tokens for a minute", devbus.Fault{Kind: devbus.CBS, Status: 503}, true, time.Minute, time.Second, nextAttempt + time.Second},
		{"no heartbeats for ten minutes", devbus.Fault{Kind: devbus.DropHeartbeats}, false, 10 * time.Minute, 0, 2 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			withBus(t, func(t *testing.T, b *devbus.Broker) {
				s := openSignals(t, inProcess(b))
				r, stop := listenUp(t, s)
				var maxRecovery time.Duration
				for i := range storetest.Scale(2, 8) { // backoffs are random
					mustPublish(t, s) // so that it has a sender
					await(t, time.Second, "received", r.hasReceived(2*i+1))
					fault, wentDown := tt.fault, r.goesDown()
					if fault.Kind == devbus.DeleteEntity && fault.Entity == "" {
						fault.Entity = topic + "/Subscriptions/" + subscriptions(b)[0]
					}
					if fault.Kind != 0 {
						b.Fail(fault)
					}
					if fault.Entity == topic || strings.Contains(fault.Condition, "unauthorized") {
						b.Heal()
						b.CreateTopic(topic, nil) // fails if it exists
					}
					if tt.drop {
						b.DropConnections()
					}
					if tt.downAfter > 0 {
						await(t, tt.downAfter, "down", wentDown)
					}
					time.Sleep(tt.lasts)
					b.Heal()
					maxRecovery = max(maxRecovery, await(t, tt.upAfter, "up again", r.isUp))
					mustPublish(t, s)
					await(t, time.Second, "received", r.hasReceived(2*i+2))
					time.Sleep(2*stableAfter + time.Second) // not shortly before a probe, which would recover at once
				}
				if strings.HasPrefix(tt.name, "subscription deleted") {
					t.Logf("figure: time until a deleted subscription is replaced, at most | %v | ≤ 5 s", maxRecovery)
				}
				if stop(); len(subscriptions(b)) != 0 {
					t.Errorf("it left the subscriptions %q", subscriptions(b))
				}
			})
		})
	}
}

// Listen returns at once if this process lacks a right or the topic does not
// exist.
func TestListeningIsDenied(t *testing.T) {
	for _, tt := range []struct {
		name  string
		fault func(b *devbus.Broker, o *Options)
		want  string
	}{
		{"no right to manage", func(_ *devbus.Broker, o *Options) { o.Admin = refusing(http.StatusUnauthorized) }, "Data Owner"},
		{"too many subscriptions", func(_ *devbus.Broker, o *Options) { o.Admin = refusing(http.StatusForbidden) }, "limit of subscriptions"},
		{"no topic", func(b *devbus.Broker, _ *Options) { b.Delete(topic) }, "there is no such topic"},
		{"no right to listen", func(b *devbus.Broker, _ *Options) { b.Fail(devbus.Fault{Kind: devbus.CBS, Status: 401}) }, "no right to listen"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			withBus(t, func(t *testing.T, b *devbus.Broker) {
				o := inProcess(b)
				tt.fault(b, o)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				r := &recorder{}
				err := openSignals(t, o).Listen(ctx, r)
				if !errors.Is(err, ErrDenied) || !strings.Contains(fmt.Sprint(err), tt.want) {
					t.Errorf("got %v, want ErrDenied with %q", err, tt.want)
				}
				if ups, names := r.read().ups, subscriptions(b); ups != 0 || len(names) != 0 {
					t.Errorf("it was up %d times and left the subscriptions %q", ups, names)
				}
			})
		})
	}
}

// refusing answers every request with a status.
type refusing int

func (status refusing) Do(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: int(status), Header: http.Header{}, Body: http.NoBody, Request: r}, nil
}

// Foreign, forged and unreadable messages are treated as signals, which only
// cause reads.
func TestStrangeMessages(t *testing.T) {
	withBus(t, func(t *testing.T, b *devbus.Broker) {
		s := openSignals(t, inProcess(b))
		r, _ := listenUp(t, s)
		_, send := openRaw(t, b)
		panics := map[string]any{"DeadLetterReason": int64(5)}                                           // the SDK panics on this
		messages := slices.Repeat([]*azservicebus.Message{{ApplicationProperties: panics}}, maxCredit+1) // each uses credit
		messages = append(messages, &azservicebus.Message{}, &azservicebus.Message{Body: []byte(strings.Repeat("x", 200<<10))})
		for _, body := range unreadable {
			messages = append(messages, &azservicebus.Message{Body: []byte(body)})
		}
		for i, m := range messages {
			send(m)
			await(t, 2*time.Second, "received", r.hasReceived(i+1))
		}
		forged := gate.Signal{Gate: "other-apps-gate", Generation: gate.MaxGeneration}
		send(newMessage(messageOf(forged)))
		mustPublish(t, s)
		await(t, 2*time.Second, "received", r.hasReceived(len(messages)+2))
		want := append(make([]gate.Signal, len(messages)), forged, release)
		if diff := cmp.Diff(want, r.read().received); diff != "" {
			t.Errorf("received signals (-want +got):\n%s", diff)
		}

		// A signal that arrives together with such a message may be lost, but
		// at least one signal of any gate remains.
		for range 100 {
			send(&azservicebus.Message{ApplicationProperties: panics})
			mustPublish(t, s)
		}
		await(t, 2*time.Second, "received", r.hasReceived(len(want)+1))
		time.Sleep(time.Second)
		mustPublish(t, s)
		await(t, 2*time.Second, "received", func() bool {
			received := r.read().received
			return received[len(received)-1] == release
		})
		if got := r.read(); got.ups != 1 {
			t.Errorf("it was down: %v", got.reasons)
		}
	})
}

// Listen reconnects if the subscription holds a message that its receiver does
// not get, here because another receiver has locked it.
func TestUndeliveredSignals(t *testing.T) {
	withBus(t, func(t *testing.T, b *devbus.Broker) {
		r, _ := listenUp(t, openSignals(t, inProcess(b)))
		b.Fail(devbus.Fault{Kind: devbus.RefuseDial})
		b.DropConnections()
		await(t, time.Second, "down", r.isDown)
		b.Heal()

		c, send := openRaw(t, b)
		send(newMessage(messageOf(release)))
		other, err := c.NewReceiverForSubscription(topic, subscriptions(b)[0], nil)
		if err != nil {
			t.Fatal(err)
		}
		if messages, err := other.ReceiveMessages(t.Context(), 1, nil); err != nil || len(messages) != 1 {
			t.Fatalf("the other receiver got %d messages, %v", len(messages), err)
		}
		await(t, 2*time.Minute, "reconnected", func() bool {
			return strings.Contains(fmt.Sprint(r.read().reasons), errNotDelivered.Error())
		})
		time.Sleep(2 * time.Minute) // until the lock and the message expire
		await(t, time.Minute, "up again", r.isUp)
	})
}
