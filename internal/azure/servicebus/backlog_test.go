package servicebus

import (
	"strings"
	"testing"
	"time"

	"kennel/internal/dev/devbus"
	"kennel/relay"
)

const backlog = "contoso/x-servicebus-transfer/0"

// TestEnsure: a missing queue is created with the settings of a backlog queue, an
// existing one is left as it is, and errors have classes.
func TestEnsure(t *testing.T) {
	withBus(t, func(t *testing.T, b *devbus.Broker) {
		r := openRelay(t, inProcess(b))
		for range 2 {
			if err := r.Ensure(within(t, time.Second), backlog); err != nil {
				t.Fatal(err)
			}
		}
		got, err := r.connector.admin.GetQueue(within(t, time.Second), backlog, nil)
		if err != nil {
			t.Fatal(err)
		}
		if *got.LockDuration != "PT1M" || *got.MaxDeliveryCount != 1<<31-1 || *got.MaxSizeInMegabytes != 5120 || !*got.DeadLetteringOnMessageExpiration ||
			*got.DefaultMessageTimeToLive != neverISO || *got.AutoDeleteOnIdle != neverISO || *got.RequiresSession {
			t.Errorf("settings %+v", got.QueueProperties)
		}
		if err := connect(t, inProcess(b)).Send(within(t, time.Second), backlog, text("x")); err != nil {
			t.Fatal(err)
		}
		if err := r.Ensure(within(t, time.Second), backlog); err != nil {
			t.Error(err)
		}
		if n, err := r.Depth(within(t, time.Second), backlog); n != 1 || err != nil {
			t.Errorf("depth %d and error %v, want 1", n, err)
		}
		_, err = r.Depth(within(t, time.Second), "missing")
		wantClass(t, "depth", err, relay.NotFound)
	})
}

// TestAdministrationClasses checks the classes of refused requests, and that the
// errors have no secrets.
func TestAdministrationClasses(t *testing.T) {
	for _, tt := range []struct {
		fault devbus.Fault
		want  relay.Class
	}{
		{devbus.Fault{Kind: devbus.Admin, Status: 401}, relay.Denied},
		{devbus.Fault{Kind: devbus.Admin, Status: 403}, relay.Denied},
		{devbus.Fault{Kind: devbus.Admin, Status: 400}, relay.Invalid},
		{devbus.Fault{Kind: devbus.Admin, Status: 429}, relay.Throttled},
		{devbus.Fault{Kind: devbus.Admin, Status: 500}, relay.Unavailable},
		{devbus.Fault{Kind: devbus.Admin, Status: 503}, relay.Unavailable},
		{devbus.Fault{Kind: devbus.Admin, Status: 409, Description: "SubCode=40901. Another conflicting operation is in progress."}, relay.Unavailable},
		{devbus.Fault{Kind: devbus.RefuseDial}, relay.Unavailable},
		{devbus.Fault{Kind: devbus.BlackHole}, relay.Unavailable},
	} {
		withBus(t, func(t *testing.T, b *devbus.Broker) {
			r := openRelay(t, inProcess(b))
			b.Fail(tt.fault)
			began := time.Now()
			for _, err := range []error{
				r.Ensure(within(t, 5*time.Second), backlog),
				func() error { _, err := r.Depth(within(t, 5*time.Second), backlog); return err }(),
			} {
				wantClass(t, tt.fault.Description, err, tt.want)
				if strings.Contains(err.Error(), key) || strings.Contains(err.Error(), "\n") {
					t.Errorf("got %q", err)
				}
			}
			if took := time.Since(began); took > 10*time.Second+100*time.Millisecond {
				t.Errorf("status %d took %v", tt.fault.Status, took)
			}
		})
	}
}

// TestOpenRelay refuses a malformed connection string.
func TestOpenRelay(t *testing.T) {
	if _, err := (Namespace{ConnectionString: "Endpoint=" + key}).OpenRelay(nil); err == nil || strings.Contains(err.Error(), key) {
		t.Errorf("got %v, want an error without the key", err)
	}
	var _ relay.Namespace = (*Relay)(nil)
	var _ relay.Queues = (*Relay)(nil)
}
