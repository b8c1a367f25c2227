package servicebus

import (
	"testing"
	"testing/synctest"
	"time"

	"kennel/internal/dev/devbus"
	"kennel/relay"
)

// TestClasses checks the class of a send's error under each fault of the bus,
// and in what time it comes. A cold connection has sent nothing before. Class 0
// is no error.
func TestClasses(t *testing.T) {
	const deadline = 4 * time.Second
	busy := "com.microsoft:server-busy"
	for _, tt := range []struct {
		name   string
		fault  devbus.Fault
		cold   bool
		want   relay.Class
		after  time.Duration
		stored int
	}{
		// The faults of a connection.
		{"dial refused", devbus.Fault{Kind: devbus.RefuseDial}, true, relay.Unavailable, 0, 0},
		{"black hole", devbus.Fault{Kind: devbus.BlackHole}, true, relay.Unavailable, deadline, 0},
		{"frozen", devbus.Fault{Kind: devbus.Freeze}, false, relay.Unavailable, deadline, 0},
		{"no heartbeats", devbus.Fault{Kind: devbus.DropHeartbeats}, false, 0, 0, 1},
		{"disconnected before", devbus.Fault{Kind: devbus.Disconnect}, false, 0, 0, 1}, // it connects again
		{"disconnected before, with a reason", devbus.Fault{Kind: devbus.Disconnect, Condition: "amqp:connection:forced"}, false, 0, 0, 1},
		{"connection closed", devbus.Fault{Kind: devbus.CloseBefore}, false, relay.Unavailable, 0, 0},
		{"stored, connection closed", devbus.Fault{Kind: devbus.CloseAfter}, false, relay.Unavailable, 0, 1},

		// The faults of an answer.
		{"no answer", devbus.Fault{Kind: devbus.Silent}, false, relay.Unavailable, deadline, 0},
		{"stored, no answer", devbus.Fault{Kind: devbus.SilentAfter}, false, relay.Unavailable, deadline, 1},
		{"late answer", devbus.Fault{Kind: devbus.Slow, Delay: 3 * time.Second}, false, 0, 3 * time.Second, 1},
		{"answer too late", devbus.Fault{Kind: devbus.Slow, Delay: 5 * time.Second}, false, relay.Unavailable, deadline, 1},
		{"released", devbus.Fault{Kind: devbus.Release}, true, relay.Unavailable, 0, 0},
		{"modified", devbus.Fault{Kind: devbus.Modify}, true, relay.Unavailable, 0, 0},
		{"full", devbus.Fault{Kind: devbus.Full}, false, relay.Full, 0, 0},
		{"internal error", devbus.Fault{Kind: devbus.Reject}, false, relay.Unavailable, 0, 0},
		{"timeout", devbus.Fault{Kind: devbus.Reject, Condition: "com.microsoft:timeout"}, false, relay.Unavailable, 0, 0},
		{"cancelled", devbus.Fault{Kind: devbus.Reject, Condition: "com.microsoft:operation-cancelled"}, false, relay.Unavailable, 0, 0},
		{"busy", devbus.Fault{Kind: devbus.Reject, Condition: busy}, false, relay.Throttled, 0, 0},
		{"unauthorized", devbus.Fault{Kind: devbus.Reject, Condition: "amqp:unauthorized-access"}, false, relay.Denied, 0, 0},
		{"not allowed", devbus.Fault{Kind: devbus.Reject, Condition: "amqp:not-allowed"}, false, relay.Invalid, 0, 0},
		{"bad argument", devbus.Fault{Kind: devbus.Reject, Condition: "com.microsoft:argument-error"}, false, relay.Invalid, 0, 0},
		{"cannot be decoded", devbus.Fault{Kind: devbus.Reject, Condition: "amqp:decode-error"}, false, relay.Invalid, 0, 0},
		{"disabled", devbus.Fault{Kind: devbus.Reject, Condition: "com.microsoft:entity-disabled"}, false, relay.NotFound, 0, 0},
		{"too large", devbus.Fault{Kind: devbus.Reject, Condition: "amqp:link:message-size-exceeded"}, false, relay.TooLarge, 0, 0},

		// The faults of a link.
		{"detached, busy", devbus.Fault{Kind: devbus.Detach, Condition: busy}, false, relay.Throttled, 0, 0},
		{"detached, forced", devbus.Fault{Kind: devbus.Detach, Condition: "amqp:link:detach-forced"}, false, relay.Unavailable, 0, 0},
		{"detached, not found", devbus.Fault{Kind: devbus.Detach, Condition: "amqp:not-found"}, false, relay.NotFound, 0, 0},
		{"stored, detached", devbus.Fault{Kind: devbus.DetachAfter}, false, relay.Unavailable, 0, 1},
		{"stored, detached by force", devbus.Fault{Kind: devbus.DetachAfter, Condition: "amqp:link:detach-forced"}, false, relay.Unavailable, 0, 1}, // the SDK would repeat it
		{"stored, detached, busy", devbus.Fault{Kind: devbus.DetachAfter, Condition: busy}, false, relay.Throttled, 0, 1},
		{"refused, busy", devbus.Fault{Kind: devbus.RefuseAttach, Condition: busy}, true, relay.Throttled, 0, 0},
		{"refused, internal error", devbus.Fault{Kind: devbus.RefuseAttach}, true, relay.Unavailable, 0, 0},
		{"refused, unauthorized", devbus.Fault{Kind: devbus.RefuseAttach, Condition: "amqp:unauthorized-access"}, true, relay.Denied, 0, 0},
		{"refused, disabled", devbus.Fault{Kind: devbus.RefuseAttach, Condition: "com.microsoft:entity-disabled"}, true, relay.NotFound, 0, 0},

		// Others.
		{"token refused", devbus.Fault{Kind: devbus.CBS, Status: 401}, true, relay.Denied, 0, 0},
		{"token forbidden", devbus.Fault{Kind: devbus.CBS, Status: 403}, true, relay.Denied, 0, 0},
		{"token for an unknown entity", devbus.Fault{Kind: devbus.CBS, Status: 404}, true, relay.NotFound, 0, 0},
		{"no tokens for now", devbus.Fault{Kind: devbus.CBS, Status: 503}, true, relay.Unavailable, 0, 0},
		{"token expired", devbus.Fault{Kind: devbus.ExpireTokens, Entity: orders}, false, 0, 0, 1},
		{"deleted", devbus.Fault{Kind: devbus.DeleteEntity, Entity: orders}, false, relay.NotFound, 0, 0},
		{"missing", devbus.Fault{Kind: devbus.DeleteEntity, Entity: orders}, true, relay.NotFound, 0, 0},
		{"clock ahead", devbus.Fault{Kind: devbus.ClockSkew, Delay: 10 * time.Minute}, false, 0, 0, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			withQueue(t, nil, func(t *testing.T, b *devbus.Broker) {
				c := connect(t, inProcess(b))
				before := 0
				if !tt.cold {
					mustSend(t, c)
					before = 1
				}
				b.Fail(tt.fault)
				synctest.Wait()
				began := time.Now()
				err := c.Send(within(t, deadline), orders, text("x"))
				took := time.Since(began)
				switch {
				case tt.want == 0 && err != nil:
					t.Errorf("got %v", err)
				case tt.want != 0:
					got := errorOf(t, err)
					if got.Class != tt.want {
						t.Errorf("got %v, want %v", err, tt.want)
					}
					isRejection := tt.want != relay.Unavailable && tt.fault.Kind != devbus.Detach && tt.fault.Kind != devbus.DetachAfter
					if want := tt.cold || isRejection; got.Unsent != want {
						t.Errorf("unsent %t, want %t", got.Unsent, want)
					}
				}
				if took < tt.after || took > tt.after+100*time.Millisecond {
					t.Errorf("it took %v, want %v", took, tt.after)
				}
				if tt.fault.Kind != devbus.DeleteEntity {
					if stored := ready(t, b) - before; stored != tt.stored {
						t.Errorf("stored %d, want %d", stored, tt.stored)
					}
				}
				b.Heal()
				if tt.fault.Kind == devbus.DeleteEntity {
					if err := b.CreateQueue(orders, nil); err != nil {
						t.Fatal(err)
					}
				}
				mustSend(t, c) // at once, also if the SDK's sender ended
			})
		})
	}
}

// TestHint: a busy bus may report how long to wait.
func TestHint(t *testing.T) {
	for description, want := range map[string]time.Duration{
		"The request was terminated because the entity is being throttled. Error code : 50009. Please wait 4 seconds and try again.": 4 * time.Second,
		"Please wait 1 second and try again.": time.Second,
		"Please wait a moment.":               0,
		"wait 99999 seconds":                  0,
	} {
		withQueue(t, nil, func(t *testing.T, b *devbus.Broker) {
			b.Fail(devbus.Fault{Kind: devbus.Reject, Condition: "com.microsoft:server-busy", Description: description})
			err := errorOf(t, attempt(t, connect(t, inProcess(b))))
			if text := "throttled: call Service Bus: com.microsoft:server-busy: " + description; err.Error() != text {
				t.Errorf("got %v, want %s", err, text)
			}
			if err.Class != relay.Throttled || err.After != want {
				t.Errorf("%q: %v with hint %v, want %v", description, &err, err.After, want)
			}
			b.Heal()
		})
	}
}
