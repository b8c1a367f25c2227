package devbus_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	sb "github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/go-amqp"

	"kennel/internal/dev/devbus"
)

// isCode expects the SDK's own error. It hides its cause: errors.As does not
// find the AMQP error in it.
func isCode(want sb.Code) func(error) bool {
	return func(err error) bool {
		_, found := errors.AsType[*amqp.Error](err)
		return codeOf(err) == want && !found
	}
}

// isBare expects an AMQP error that the SDK does not wrap.
func isBare(condition string) func(error) bool {
	return func(err error) bool {
		if codeOf(err) != "" {
			return false
		}
		if e, ok := errors.AsType[*amqp.LinkError](err); ok && e.RemoteErr != nil {
			return string(e.RemoteErr.Condition) == condition
		}
		e, ok := errors.AsType[*amqp.Error](err)
		return ok && string(e.Condition) == condition
	}
}

func isDeadline(err error) bool { return errors.Is(err, context.DeadlineExceeded) }
func isNil(err error) bool      { return err == nil }

// isDeadlineOrLost is for a connection that is not established in time: the
// SDK gives the connection its context's deadline as well, and either may be
// noticed first.
func isDeadlineOrLost(err error) bool { return isDeadline(err) || codeOf(err) == sb.CodeConnectionLost }

// isRPC expects the SDK's unexported error with a status.
func isRPC(code int) func(error) bool {
	return func(err error) bool {
		e, ok := errors.AsType[interface {
			error
			RPCCode() int
		}](err)
		return ok && e.RPCCode() == code
	}
}

// What a send looks like under each fault, with retries off and a deadline of
// 4 s. "warm" senders have sent before; the others begin under the fault.
func TestSendUnderFaults(t *testing.T) {
	const deadline = 4 * time.Second
	for _, tt := range []struct {
		name   string
		fault  devbus.Fault
		cold   bool
		want   func(error) bool
		after  time.Duration
		stored int
	}{
		{"dial refused", devbus.Fault{Kind: devbus.RefuseDial}, true, isCode(sb.CodeConnectionLost), 0, 0},
		{"black hole", devbus.Fault{Kind: devbus.BlackHole}, true, isDeadlineOrLost, deadline, 0},
		{"frozen", devbus.Fault{Kind: devbus.Freeze}, false, isDeadline, deadline, 0},
		{"connection closed", devbus.Fault{Kind: devbus.CloseBefore}, false, isCode(sb.CodeConnectionLost), 0, 0},
		{"stored, connection closed", devbus.Fault{Kind: devbus.CloseAfter}, false, isCode(sb.CodeConnectionLost), 0, 1},
		{"stored, no answer", devbus.Fault{Kind: devbus.SilentAfter}, false, isDeadline, deadline, 1},
		{"no answer", devbus.Fault{Kind: devbus.Silent}, false, isDeadline, deadline, 0},
		{"late answer", devbus.Fault{Kind: devbus.Slow, Delay: 3 * time.Second}, false, isNil, 3 * time.Second, 1},
		{"answer too late", devbus.Fault{Kind: devbus.Slow, Delay: 5 * time.Second}, false, isDeadline, deadline, 1},
		{"released", devbus.Fault{Kind: devbus.Release}, false, isNil, 0, 0},
		{"full", devbus.Fault{Kind: devbus.Full}, false, isBare("amqp:resource-limit-exceeded"), 0, 0},

		{"rejected, busy", devbus.Fault{Kind: devbus.Reject, Condition: "com.microsoft:server-busy"}, false, isBare("com.microsoft:server-busy"), 0, 0},
		{"rejected, timeout", devbus.Fault{Kind: devbus.Reject, Condition: "com.microsoft:timeout"}, false, isCode(sb.CodeTimeout), 0, 0},
		{"rejected, internal error", devbus.Fault{Kind: devbus.Reject}, false, isCode(sb.CodeConnectionLost), 0, 0},
		{"rejected, disabled", devbus.Fault{Kind: devbus.Reject, Condition: "com.microsoft:entity-disabled"}, false, isBare("com.microsoft:entity-disabled"), 0, 0},
		{"rejected, unauthorized", devbus.Fault{Kind: devbus.Reject, Condition: "amqp:unauthorized-access"}, false, isCode(sb.CodeUnauthorizedAccess), 0, 0},

		{"detached, busy", devbus.Fault{Kind: devbus.Detach, Condition: "com.microsoft:server-busy"}, false, isBare("com.microsoft:server-busy"), 0, 0},
		{"detached, forced", devbus.Fault{Kind: devbus.Detach, Condition: "amqp:link:detach-forced"}, false, isCode(sb.CodeConnectionLost), 0, 0},
		{"detached, not found", devbus.Fault{Kind: devbus.Detach, Condition: "amqp:not-found"}, false, isBare("amqp:not-found"), 0, 0},
		{"deleted", devbus.Fault{Kind: devbus.DeleteEntity, Entity: "q"}, false, isBare("amqp:not-found"), 0, 0},

		{"refused, busy", devbus.Fault{Kind: devbus.RefuseAttach, Condition: "com.microsoft:server-busy"}, true, isBare("com.microsoft:server-busy"), 0, 0},
		{"refused, internal error", devbus.Fault{Kind: devbus.RefuseAttach}, true, isCode(sb.CodeConnectionLost), 0, 0},
		{"refused, unauthorized", devbus.Fault{Kind: devbus.RefuseAttach, Condition: "amqp:unauthorized-access"}, true, isCode(sb.CodeUnauthorizedAccess), 0, 0},
		{"no such entity", devbus.Fault{Kind: devbus.DeleteEntity, Entity: "q"}, true, isBare("amqp:not-found"), 0, 0},

		{"token not accepted", devbus.Fault{Kind: devbus.CBS, Status: 401}, true, isCode(sb.CodeUnauthorizedAccess), 0, 0},
		{"token for nothing", devbus.Fault{Kind: devbus.CBS, Status: 404}, true, isCode(sb.CodeNotFound), 0, 0},
		{"tokens unavailable", devbus.Fault{Kind: devbus.CBS}, true, isRPC(503), 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inBubble(t, nil, func(t *testing.T, b *devbus.Broker) {
				must(t, b.CreateQueue("q", nil), "create")
				must(t, b.CreateQueue("other", nil), "create")
				client := dial(t, b, sb.RetryOptions{MaxRetries: -1})
				s := sender(t, client, "q")
				if !tt.cold {
					must(t, s.SendMessage(t.Context(), text("before"), nil), "send before the fault")
					receive(t, receiver(t, dial(t, b, quick), "q", &sb.ReceiverOptions{ReceiveMode: sb.ReceiveModeReceiveAndDelete}), 1)
				}
				b.Fail(tt.fault)
				synctest.Wait()

				start := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), deadline)
				defer cancel()
				err := s.SendMessage(ctx, text("x"), nil)
				if !tt.want(err) {
					t.Errorf("got %T %[1]v", err)
				}
				if took := time.Since(start); took != tt.after {
					t.Errorf("it took %v, want %v", took, tt.after)
				}
				n, _ := b.Counts("q") // which may be deleted
				if n.Ready != tt.stored {
					t.Errorf("%d messages are stored, want %d", n.Ready, tt.stored)
				}
				b.Heal() // or closing would take as long as the fault
			})
		})
	}
}

// A fault happens to its entity only, as often as Times says, and needs a
// Kind.
func TestFaultsAreLimited(t *testing.T) {
	for _, kind := range []devbus.Kind{devbus.Reject, devbus.Detach, devbus.RefuseAttach, devbus.CBS, devbus.Full, devbus.Silent, devbus.CloseBefore} {
		inBubble(t, nil, func(t *testing.T, b *devbus.Broker) {
			must(t, b.CreateQueue("ill", nil), "create")
			must(t, b.CreateQueue("well", nil), "create")
			b.Fail(devbus.Fault{Kind: kind, Entity: "ILL"})
			client := dial(t, b, sb.RetryOptions{MaxRetries: -1})
			if err := sender(t, client, "well").SendMessage(t.Context(), text("x"), nil); err != nil {
				t.Errorf("fault %d of another entity: %v", kind, err)
			}
			if err := sender(t, client, "ill").SendMessage(within(t, time.Second), text("x"), nil); err == nil {
				t.Errorf("fault %d did not happen", kind)
			}
			b.Heal()
		})
	}
	onQueue(t, nil, func(t *testing.T, b *devbus.Broker, client *sb.Client) {
		s := sender(t, client, "q")
		b.Fail(devbus.Fault{Kind: devbus.Reject, Condition: "amqp:not-allowed", Times: 2})
		for i := range 3 {
			if err := s.SendMessage(t.Context(), text("x"), nil); (err != nil) != (i < 2) {
				t.Errorf("send %d: got %v", i, err)
			}
		}
		if got := b.Stats().Faults; got != 2 {
			t.Errorf("%d faults happened, want 2", got)
		}
		defer func() {
			if recover() == nil {
				t.Error("a fault without a kind was accepted")
			}
		}()
		b.Fail(devbus.Fault{Entity: "q"})
	})
}

// The answers to settling and to requests can be wrong as well.
func TestSettlingUnderFaults(t *testing.T) {
	for _, tt := range []struct {
		name  string
		fault devbus.Fault
		want  func(error) bool
		left  devbus.Counts
	}{
		{"applied, no answer", devbus.Fault{Kind: devbus.SilentAfter, On: devbus.OnSettle}, isDeadline, devbus.Counts{}},
		{"no answer", devbus.Fault{Kind: devbus.Silent, On: devbus.OnSettle}, isDeadline, devbus.Counts{Locked: 1}},
		{"lock lost", devbus.Fault{Kind: devbus.Reject, On: devbus.OnSettle, Condition: "com.microsoft:message-lock-lost"}, isCode(sb.CodeLockLost), devbus.Counts{Locked: 1}},
		{"released", devbus.Fault{Kind: devbus.Release, On: devbus.OnSettle}, isNil, devbus.Counts{Locked: 1}},
		{"not concerned", devbus.Fault{Kind: devbus.Silent}, isNil, devbus.Counts{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			onQueue(t, nil, func(t *testing.T, b *devbus.Broker, client *sb.Client) {
				must(t, sender(t, client, "q").SendMessage(t.Context(), text("x"), nil), "send")
				r := receiver(t, client, "q", nil)
				m := receive(t, r, 1)[0]
				b.Fail(tt.fault)
				if err := r.CompleteMessage(within(t, 4*time.Second), m, nil); !tt.want(err) {
					t.Errorf("got %T %[1]v", err)
				}
				wantCounts(t, b, "q", tt.left)
				b.Heal()
			})
		})
	}
	onQueue(t, nil, func(t *testing.T, b *devbus.Broker, client *sb.Client) {
		b.Fail(devbus.Fault{Kind: devbus.Reject, On: devbus.OnRequest, Condition: "amqp:unauthorized-access"})
		_, err := receiver(t, client, "q", nil).PeekMessages(t.Context(), 1, nil)
		if codeOf(err) != sb.CodeUnauthorizedAccess {
			t.Errorf("peeking: got %v, want code %s", err, sb.CodeUnauthorizedAccess)
		}
	})
}

// What was sent over a frozen wire arrives after all when it thaws, although
// the client has long given up: a message too many, and late.
func TestThawDeliversWhatWasFrozen(t *testing.T) {
	onQueue(t, nil, func(t *testing.T, b *devbus.Broker, client *sb.Client) {
		s := sender(t, client, "q")
		must(t, s.SendMessage(t.Context(), text("warm"), nil), "send")
		b.Fail(devbus.Fault{Kind: devbus.Freeze})
		if err := s.SendMessage(within(t, 5*time.Second), text("straggler"), nil); !isDeadline(err) {
			t.Errorf("got %v, want a deadline", err)
		}
		wantCounts(t, b, "q", devbus.Counts{Ready: 1})
		b.Heal()
		synctest.Wait()
		wantCounts(t, b, "q", devbus.Counts{Ready: 2})
		must(t, s.SendMessage(t.Context(), text("after"), nil), "send on the same connection")
		wantCounts(t, b, "q", devbus.Counts{Ready: 3})
	})
}

// Without signs of life a client gives an idle connection up after 60 s.
func TestHeartbeats(t *testing.T) {
	for _, dropped := range []bool{false, true} {
		onQueue(t, nil, func(t *testing.T, b *devbus.Broker, client *sb.Client) {
			r := receiver(t, client, "q", nil)
			if dropped {
				b.Fail(devbus.Fault{Kind: devbus.DropHeartbeats})
			}
			start := time.Now()
			ms, err := r.ReceiveMessages(within(t, 4*time.Minute), 1, nil)
			lost := len(ms) == 0 && err == nil // how the SDK shows a lost connection
			if lost != dropped || dropped && time.Since(start) > 2*time.Minute {
				t.Errorf("heartbeats dropped %v: got error %v after %v", dropped, err, time.Since(start))
			}
		})
	}
}

func TestClockSkew(t *testing.T) {
	onQueue(t, nil, func(t *testing.T, b *devbus.Broker, client *sb.Client) {
		b.Fail(devbus.Fault{Kind: devbus.ClockSkew, Delay: 10 * time.Minute})
		s, r := sender(t, client, "q"), receiver(t, client, "q", nil)
		must(t, s.SendMessage(t.Context(), text("x"), nil), "send")
		m := receive(t, r, 1)[0]
		if off := time.Until(*m.LockedUntil); off != 11*time.Minute {
			t.Errorf("locked for %v by our clock, want 11m", off)
		}
		if off := time.Until(*m.EnqueuedTime); off != 10*time.Minute {
			t.Errorf("enqueued %v ahead, want 10m", off)
		}
		time.Sleep(61 * time.Second) // which is as long as the lock really lasts
		wantCounts(t, b, "q", devbus.Counts{Ready: 1})
		must(t, r.CompleteMessage(t.Context(), receive(t, r, 1)[0], nil), "complete")
		start := time.Now()
		_, err := s.ScheduleMessages(t.Context(), []*sb.Message{text("y")}, start.Add(time.Hour), nil)
		must(t, err, "schedule")
		receive(t, r, 1)
		if took := time.Since(start); took != 50*time.Minute {
			t.Errorf("the message scheduled in an hour came after %v, want 50m", took)
		}
	})
}

// The faults of connections concern the administration endpoint, too.
func TestAdministrationUnderFaults(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, b *devbus.Broker) {
		adm := administer(t, b)
		for _, kind := range []devbus.Kind{devbus.RefuseDial, devbus.BlackHole} {
			b.Fail(devbus.Fault{Kind: kind})
			if _, err := adm.GetQueue(within(t, time.Minute), "q", nil); err == nil || kind == devbus.BlackHole && !isDeadline(err) {
				t.Errorf("fault %d: got error %v", kind, err)
			}
			b.Heal()
			if _, err := adm.GetQueue(t.Context(), "q", nil); err != nil {
				t.Errorf("healed of fault %d: %v", kind, err)
			}
		}
	})
}
