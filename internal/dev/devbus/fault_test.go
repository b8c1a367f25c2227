package devbus_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	sb "github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/go-amqp"

	"kennel/internal/dev/devbus"
)

// isCode expects the SDK's own error. It hides its cause: errors.As does not
// find the AMQP error in it.
func isCode(want sb.Code) func(error) bool {
	return func(err error) bool { return codeOf(err) == want && conditionOf(err) == "" }
}

// isBare expects an AMQP error that the SDK does not wrap.
func isBare(want amqp.ErrCond) func(error) bool {
	return func(err error) bool { return codeOf(err) == "" && conditionOf(err) == want }
}

// isOther expects an error of an unexported type of the SDK, with this text.
func isOther(text string) func(error) bool {
	return func(err error) bool {
		return codeOf(err) == "" && conditionOf(err) == "" && strings.Contains(err.Error(), text)
	}
}

func isDeadline(err error) bool { return errors.Is(err, context.DeadlineExceeded) }
func isNil(err error) bool      { return err == nil }

// isDeadlineOrLost expects the error of a connection that is not established in
// time. The SDK also sets the deadline of the context on the connection, so
// either can expire first.
func isDeadlineOrLost(err error) bool { return isDeadline(err) || codeOf(err) == sb.CodeConnectionLost }

// TestSendUnderFaults checks the result of a send under each fault, without
// retries and with a deadline of 4 s. A cold sender has sent nothing before.
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
		{"modified", devbus.Fault{Kind: devbus.Modify}, false, isNil, 0, 0},
		{"full", devbus.Fault{Kind: devbus.Full}, false, isBare("amqp:resource-limit-exceeded"), 0, 0},

		{"rejected, busy", devbus.Fault{Kind: devbus.Reject, Condition: "com.microsoft:server-busy"}, false, isBare("com.microsoft:server-busy"), 0, 0},
		{"rejected, timeout", devbus.Fault{Kind: devbus.Reject, Condition: "com.microsoft:timeout"}, false, isCode(sb.CodeTimeout), 0, 0},
		{"rejected, internal error", devbus.Fault{Kind: devbus.Reject}, false, isCode(sb.CodeConnectionLost), 0, 0},
		{"rejected, disabled", devbus.Fault{Kind: devbus.Reject, Condition: "com.microsoft:entity-disabled"}, false, isBare("com.microsoft:entity-disabled"), 0, 0},
		{"rejected, unauthorized", devbus.Fault{Kind: devbus.Reject, Condition: "amqp:unauthorized-access"}, false, isCode(sb.CodeUnauthorizedAccess), 0, 0},

		{"detached, busy", devbus.Fault{Kind: devbus.Detach, Condition: "com.microsoft:server-busy"}, false, isBare("com.microsoft:server-busy"), 0, 0},
		{"detached, forced", devbus.Fault{Kind: devbus.Detach, Condition: "amqp:link:detach-forced"}, false, isCode(sb.CodeConnectionLost), 0, 0},
		// The SDK sends again at once if its link was detached, even without
		// retries.
		{"stored twice, detached", devbus.Fault{Kind: devbus.DetachAfter}, false, isCode(sb.CodeConnectionLost), 0, 2},
		{"stored, detached, busy", devbus.Fault{Kind: devbus.DetachAfter, Condition: "com.microsoft:server-busy"}, false, isBare("com.microsoft:server-busy"), 0, 1},
		{"closed with a reason", devbus.Fault{Kind: devbus.CloseBefore, Condition: "amqp:connection:forced"}, false, isCode(sb.CodeConnectionLost), 0, 0},
		{"disconnected", devbus.Fault{Kind: devbus.Disconnect, Entity: "q"}, false, isCode(sb.CodeConnectionLost), 0, 0},
		{"disconnected, forbidden", devbus.Fault{Kind: devbus.Disconnect, Condition: "amqp:unauthorized-access"}, false, isCode(sb.CodeUnauthorizedAccess), 0, 0},
		{"token expired", devbus.Fault{Kind: devbus.ExpireTokens, Entity: "q"}, false, isNil, 0, 1},
		{"detached, not found", devbus.Fault{Kind: devbus.Detach, Condition: "amqp:not-found"}, false, isBare("amqp:not-found"), 0, 0},
		{"deleted", devbus.Fault{Kind: devbus.DeleteEntity, Entity: "q"}, false, isBare("amqp:not-found"), 0, 0},

		{"refused, busy", devbus.Fault{Kind: devbus.RefuseAttach, Condition: "com.microsoft:server-busy"}, true, isBare("com.microsoft:server-busy"), 0, 0},
		{"refused, internal error", devbus.Fault{Kind: devbus.RefuseAttach}, true, isCode(sb.CodeConnectionLost), 0, 0},
		{"refused, unauthorized", devbus.Fault{Kind: devbus.RefuseAttach, Condition: "amqp:unauthorized-access"}, true, isCode(sb.CodeUnauthorizedAccess), 0, 0},
		{"no such entity", devbus.Fault{Kind: devbus.DeleteEntity, Entity: "q"}, true, isCode(sb.CodeNotFound), 0, 0},

		{"token not accepted", devbus.Fault{Kind: devbus.CBS, Status: 401}, true, isCode(sb.CodeUnauthorizedAccess), 0, 0},
		{"token for an unknown entity", devbus.Fault{Kind: devbus.CBS, Status: 404}, true, isCode(sb.CodeNotFound), 0, 0},
		{"tokens unavailable", devbus.Fault{Kind: devbus.CBS}, true, isOther("status code 503"), 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			onQueue(t, nil, func(f *fixture) {
				r := f.receiver(deletes)
				f.client = f.dial(noRetries)
				s := f.sender("q")
				if !tt.cold {
					f.must(s.SendMessage(f.Context(), text("before"), nil), "send before the fault")
					f.receiveOne(r)
				}
				f.b.Fail(tt.fault)
				synctest.Wait()

				start := time.Now()
				if err := s.SendMessage(f.within(deadline), text("x"), nil); !tt.want(err) {
					t.Errorf("got %T %[1]v", err)
				}
				equal(f, "time taken", time.Since(start), tt.after)
				n, _ := f.b.Counts("q") // the queue may be deleted
				equal(f, "stored", n.Ready, tt.stored)
				f.b.Heal() // otherwise closing would take as long as the fault
			})
		})
	}
}

// TestFaultsAreLimited checks that a fault affects only its entity, that it
// happens as often as Times, and that it must have a Kind.
func TestFaultsAreLimited(t *testing.T) {
	for _, kind := range []devbus.Kind{devbus.Reject, devbus.Detach, devbus.RefuseAttach, devbus.CBS, devbus.Full, devbus.Silent, devbus.CloseBefore} {
		onQueue(t, nil, func(f *fixture) {
			f.must(f.b.CreateQueue("other", nil), "create")
			f.client = f.dial(noRetries)
			f.b.Fail(devbus.Fault{Kind: kind, Entity: "Q"})
			f.send("other", text("x"))
			if err := f.sender("q").SendMessage(f.within(time.Second), text("x"), nil); err == nil {
				t.Errorf("fault %v did not happen", kind)
			}
			f.b.Heal()
		})
	}
	onQueue(t, nil, func(f *fixture) {
		s := f.sender("q")
		f.b.Fail(devbus.Fault{Kind: devbus.Reject, Condition: "amqp:not-allowed", Times: 2})
		equal(f, "sends", f.sendEvery(s, 3, time.Second), "--+")
		equal(f, "faults", f.b.Stats().Faults, 2)
		defer func() {
			if recover() == nil {
				t.Error("a fault without a kind was accepted")
			}
		}()
		f.b.Fail(devbus.Fault{Entity: "q"})
	})
}

// TestHeal checks that each fault can be healed alone.
func TestHeal(t *testing.T) {
	onQueue(t, nil, func(f *fixture) {
		f.client = f.dial(noRetries)
		s := f.connected()
		busy := f.b.Fail(devbus.Fault{Kind: devbus.Reject, Condition: "com.microsoft:server-busy"})
		frozen := f.b.Fail(devbus.Fault{Kind: devbus.Freeze})
		f.b.Fail(devbus.Fault{Kind: devbus.Freeze}) // of connections that are not frozen yet
		full := f.b.Fail(devbus.Fault{Kind: devbus.Full})
		equal(f, "frozen", isDeadline(s.SendMessage(f.within(time.Second), text("x"), nil)), true)
		f.b.Heal(frozen)
		equal(f, "condition", conditionOf(s.SendMessage(f.Context(), text("x"), nil)), "com.microsoft:server-busy")
		f.b.Heal(busy, frozen)
		equal(f, "condition", conditionOf(s.SendMessage(f.Context(), text("x"), nil)), amqp.ErrCondResourceLimitExceeded)
		f.b.Heal(full)
		f.must(s.SendMessage(f.Context(), text("x"), nil), "send after all faults were healed")
	})
}

// TestDisconnect checks that only connections with a link to the entity end.
func TestDisconnect(t *testing.T) {
	onTopic(t, nil, nil, func(f *fixture) {
		f.client = f.dial(noRetries)
		one := f.subscriber("one", nil)
		f.receiveNone(one, time.Second)
		f.client = f.dial(noRetries)
		f.send("t", text("x"))
		equal(f, "connections", f.b.Connections(), 2)
		f.b.Fail(devbus.Fault{Kind: devbus.Disconnect, Entity: "T/subscriptions/One"})
		equal(f, "connections", f.b.Connections(), 1)
		f.b.Fail(devbus.Fault{Kind: devbus.Disconnect, Entity: "t/Subscriptions/one"})
		equal(f, "connections", f.b.Connections(), 1)
		f.b.Fail(devbus.Fault{Kind: devbus.Disconnect})
		equal(f, "connections", f.b.Connections(), 0)
	})
}

// TestSettlingUnderFaults checks faults of settlements and requests.
func TestSettlingUnderFaults(t *testing.T) {
	for name, tt := range map[string]struct {
		fault devbus.Fault
		want  func(error) bool
		left  devbus.Counts
	}{
		"applied, no answer": {devbus.Fault{Kind: devbus.SilentAfter, On: devbus.OnSettle}, isDeadline, devbus.Counts{}},
		"no answer":          {devbus.Fault{Kind: devbus.Silent, On: devbus.OnSettle}, isDeadline, devbus.Counts{Locked: 1}},
		"lock lost":          {devbus.Fault{Kind: devbus.Reject, On: devbus.OnSettle, Condition: "com.microsoft:message-lock-lost"}, isCode(sb.CodeLockLost), devbus.Counts{Locked: 1}},
		"released":           {devbus.Fault{Kind: devbus.Release, On: devbus.OnSettle}, isNil, devbus.Counts{Locked: 1}},
		"not concerned":      {devbus.Fault{Kind: devbus.Silent}, isNil, devbus.Counts{}},
	} {
		onQueue(t, nil, func(f *fixture) {
			f.send("q", text("x"))
			r := f.receiver(nil)
			m := f.receiveOne(r)
			f.b.Fail(tt.fault)
			if err := r.CompleteMessage(f.within(4*time.Second), m, nil); !tt.want(err) {
				t.Errorf("%s: got %T %[2]v", name, err)
			}
			f.counts("q", tt.left)
			f.b.Heal()
		})
	}
	onQueue(t, nil, func(f *fixture) {
		f.b.Fail(devbus.Fault{Kind: devbus.Reject, On: devbus.OnRequest, Condition: "amqp:unauthorized-access"})
		_, err := f.receiver(nil).PeekMessages(f.Context(), 1, nil)
		f.fails("peeking", err, sb.CodeUnauthorizedAccess)
	})
}

// TestThawDeliversWhatWasFrozen checks that messages sent over a frozen
// connection arrive when it thaws, although the client's deadline is over.
func TestThawDeliversWhatWasFrozen(t *testing.T) {
	onQueue(t, nil, func(f *fixture) {
		s := f.connected()
		f.b.Fail(devbus.Fault{Kind: devbus.Freeze})
		equal(f, "sends", f.sendEvery(s, 1, 5*time.Second), "-")
		f.counts("q", devbus.Counts{Ready: 1})
		f.b.Heal()
		synctest.Wait()
		f.counts("q", devbus.Counts{Ready: 2})
		f.must(s.SendMessage(f.Context(), text("after"), nil), "send on the same connection")
		f.counts("q", devbus.Counts{Ready: 3})
	})
}

// TestHeartbeats checks that a client closes an idle connection only without
// heartbeats. Its timeout is 60 s.
func TestHeartbeats(t *testing.T) {
	onQueue(t, nil, func(f *fixture) {
		r := f.receiver(nil)
		f.receiveNone(r, 4*time.Minute)
		f.b.Fail(devbus.Fault{Kind: devbus.DropHeartbeats})
		start := time.Now()
		ms, err := r.ReceiveMessages(f.within(4*time.Minute), 1, nil) // returns nothing if the connection is lost
		if len(ms) > 0 || err != nil || time.Since(start) > 2*time.Minute {
			t.Errorf("got %d messages and error %v after %v", len(ms), err, time.Since(start))
		}
	})
}

func TestClockSkew(t *testing.T) {
	onQueue(t, nil, func(f *fixture) {
		f.b.Fail(devbus.Fault{Kind: devbus.ClockSkew, Delay: 10 * time.Minute})
		s, r := f.sender("q"), f.receiver(nil)
		f.must(s.SendMessage(f.Context(), text("x"), nil), "send")
		m := f.receiveOne(r)
		equal(f, "locked for", time.Until(*m.LockedUntil), 11*time.Minute)
		equal(f, "enqueued in", time.Until(*m.EnqueuedTime), 10*time.Minute)
		time.Sleep(61 * time.Second) // the lock lasts one minute of real time
		f.counts("q", devbus.Counts{Ready: 1})
		f.complete(r, f.receiveOne(r))
		start := time.Now()
		_, err := s.ScheduleMessages(f.Context(), []*sb.Message{text("y")}, start.Add(time.Hour), nil)
		f.must(err, "schedule")
		f.receiveOne(r)
		equal(f, "delay of a message that was scheduled in an hour", time.Since(start), 50*time.Minute)
	})
}

// TestAdministrationUnderFaults checks that faults of connections also affect
// the administration endpoint.
func TestAdministrationUnderFaults(t *testing.T) {
	for kind, want := range map[devbus.Kind]func(error) bool{devbus.RefuseDial: isOther("refused"), devbus.BlackHole: isDeadline} {
		inBubble(t, func(f *fixture) {
			f.b.Fail(devbus.Fault{Kind: kind})
			if _, err := f.administer().GetQueue(f.within(time.Minute), "q", nil); !want(err) {
				t.Errorf("fault %v: got error %v", kind, err)
			}
		})
	}
	onQueue(t, nil, func(f *fixture) {
		adm := f.administer()
		for _, status := range []int{401, 403} {
			f.b.Fail(devbus.Fault{Kind: devbus.Admin, Status: status, Times: 1})
			_, err := adm.GetQueue(f.Context(), "q", nil)
			if e, ok := errors.AsType[*azcore.ResponseError](err); !ok || e.StatusCode != status {
				t.Errorf("got error %v, want status %d", err, status)
			}
		}
		for _, status := range []int{429, 503} { // the SDK waits and retries
			f.b.Fail(devbus.Fault{Kind: devbus.Admin, Entity: "q", Status: status, Delay: 7 * time.Second, Times: 1})
			start := time.Now()
			_, err := adm.GetQueue(f.Context(), "other", nil)
			f.must(err, "get another queue")
			equal(f, "time taken", time.Since(start), 0)
			_, err = adm.GetQueue(f.Context(), "q", nil)
			f.must(err, "get after a retry")
			equal(f, "time taken", time.Since(start), 7*time.Second)
		}
	})
}
