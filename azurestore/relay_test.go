package azurestore_test

import (
	"context"
	"testing"
	"time"

	"kennel/azurestore"
	"kennel/internal/dev/devbus"
	"kennel/relay"
)

// TestRelay sends to a queue, also during an outage of the namespace, and moves
// the backlog to it afterwards.
func TestRelay(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var buses [2]*devbus.Local
	var spaces [2]*azurestore.Relay
	for i := range buses {
		var err error
		if buses[i], err = devbus.Listen(nil); err != nil {
			t.Fatal(err)
		}
		defer buses[i].Close()
		if spaces[i], err = azurestore.NewRelayFromConnectionString(buses[i].ConnectionString()); err != nil {
			t.Fatal(err)
		}
	}
	primary, secondary := spaces[0], spaces[1]
	if err := buses[0].CreateQueue("orders", nil); err != nil {
		t.Fatal(err)
	}
	queues := relay.BacklogQueues("orders", 2)
	if found, err := relay.EnsureQueues(ctx, secondary, queues); err != nil || len(found) != 2 {
		t.Fatalf("backlog queues %q, %v", found, err)
	}
	options := &relay.Options{Interval: new(time.Duration)}
	sender, err := relay.NewSender(primary, secondary, queues, options)
	if err != nil {
		t.Fatal(err)
	}
	defer sender.Close(ctx)
	syphon, err := relay.NewSyphon(primary, secondary, queues, options)
	if err != nil {
		t.Fatal(err)
	}
	defer syphon.Close(ctx)

	send := func(text string, wantBacklog bool) {
		t.Helper()
		receipt, err := sender.Send(ctx, "orders", &relay.Message{Body: relay.Body{Data: [][]byte{[]byte(text)}}})
		if err != nil || receipt.Backlog != wantBacklog {
			t.Errorf("send %s: %+v, %v", text, receipt, err)
		}
	}
	ready := func(want int) {
		t.Helper()
		if counts, err := buses[0].Counts("orders"); err != nil || counts.Ready != want {
			t.Errorf("the queue has %+v, %v, want %d messages", counts, err, want)
		}
	}
	send("before", false)
	outage := buses[0].Fail(devbus.Fault{Kind: devbus.RefuseDial})
	buses[0].DropConnections()
	send("during", true)
	ready(1)
	sample, err := syphon.Backlog(ctx, secondary)
	if err != nil || len(sample.Entities) != 1 || sample.Entities[0].Entity != "orders" {
		t.Errorf("backlog %+v, %v", sample, err)
	}
	buses[0].Heal(outage)
	if result, err := syphon.PassAndPeek(ctx); err != nil || result.Moved != 1 || result.More {
		t.Errorf("pass: %+v, %v", result, err)
	}
	ready(2)
}
