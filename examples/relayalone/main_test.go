package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"kennel/internal/dev/devbus"
	"kennel/relay"
)

func listen(t *testing.T) *devbus.Local {
	t.Helper()
	bus, err := devbus.Listen(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(bus.Close)
	return bus
}

// TestOutage sends before, during and after an outage of the primary namespace,
// whose messages wait in the secondary and are moved back.
func TestOutage(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	primary, secondary := listen(t), listen(t)
	if err := primary.CreateQueue("orders", nil); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := run(ctx, primary.ConnectionString(), secondary.ConnectionString(), "orders", strings.NewReader("one\ntwo\n"), &out); err != nil {
		t.Fatal(err)
	}
	if want := "sent: one\nsent: two\n"; out.String() != want {
		t.Errorf("output %q, want %q", &out, want)
	}

	p, err := open(ctx, primary.ConnectionString(), secondary.ConnectionString(), &relay.Options{Interval: new(time.Duration)})
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	outage := primary.Fail(devbus.Fault{Kind: devbus.RefuseDial})
	primary.DropConnections()
	for _, text := range []string{"three", "four"} {
		if kept, err := p.send(ctx, "orders", text); err != nil || !kept {
			t.Errorf("send %s during the outage: in the backlog %v, %v", text, kept, err)
		}
	}
	if n := ready(t, primary); n != 2 {
		t.Errorf("%d messages are in the primary during the outage, want 2", n)
	}
	primary.Heal(outage)
	out.Reset()
	if err := p.moveHome(ctx, &out); err != nil || out.String() != "moved: 2\n" {
		t.Errorf("move home: %q, %v", &out, err)
	}
	if n := ready(t, primary); n != 4 {
		t.Errorf("%d messages are in the primary after the outage, want 4", n)
	}
}

// TestRejected: a message that the namespace rejects is reported, and the others
// are sent.
func TestRejected(t *testing.T) {
	primary, secondary := listen(t), listen(t)
	if err := primary.CreateQueue("orders", nil); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	large := strings.Repeat("x", 60_000)
	primary.Fail(devbus.Fault{Kind: devbus.Reject, Condition: "amqp:link:message-size-exceeded", Times: 1})
	err := run(t.Context(), primary.ConnectionString(), secondary.ConnectionString(), "orders", strings.NewReader(large+"\nsmall\n"), &out)
	if err == nil || err.Error() != "1 messages were not sent" {
		t.Errorf("error %v", err)
	}
	if !strings.HasPrefix(out.String(), "failed: xxx") || !strings.HasSuffix(out.String(), "sent: small\n") {
		t.Errorf("output %.40q … %q", out.String(), out.String()[len(out.String())-20:])
	}
}

func ready(t *testing.T, bus *devbus.Local) int {
	t.Helper()
	counts, err := bus.Counts("orders")
	if err != nil {
		t.Fatal(err)
	}
	return counts.Ready
}
