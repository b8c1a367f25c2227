package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"kennel/client"
	"kennel/internal/apptest"
	"kennel/internal/clients"
	"kennel/internal/config"
	"kennel/internal/dev/devbus"
	"kennel/internal/dev/localhost"
	"kennel/internal/memory"
	"kennel/internal/storetest"
)

// withBuses starts two buses, and returns the settings for them. The first one
// has the queue orders.
func withBuses(t testing.TB) (primary, secondary *devbus.Local, settings []string) {
	t.Helper()
	primary, first := apptest.WithBus(t)
	secondary, second := apptest.WithBus(t)
	if err := primary.CreateQueue("sales/orders", nil); err != nil {
		t.Fatal(err)
	}
	return primary, secondary, []string{first, strings.Replace(second, "ServiceBus=", "ServiceBusSecondary=", 1), "KENNEL_FAILOVER_INTERVAL=0", "KENNEL_BACKLOG_QUEUES=2"}
}

// copiesAt returns how often an entity of a bus has the messages, by message ID.
func copiesAt(t testing.TB, bus *devbus.Local, entity string) map[string]int {
	t.Helper()
	namespace, err := clients.Relay(config.ServiceBus{ConnectionString: bus.ConnectionString()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := namespace.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(t.Context())
	copies := make(map[string]int)
	for from := int64(0); ; {
		page, err := c.Peek(t.Context(), entity, from, 100)
		if err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			return copies
		}
		for _, d := range page {
			copies[fmt.Sprint(d.Message.Properties.MessageID)]++
			from = d.Sequence + 1
		}
	}
}

// TestClientMessages checks that package client understands the answers of the
// app about messages, that the app makes its backlog queues, and what the doctor
// and the metrics say of them.
func TestClientMessages(t *testing.T) {
	t.Parallel()
	primary, secondary, settings := withBuses(t)
	p := start(t, built.handler, append(settings, withStorage(t))...)
	app, err := client.New(p.url, &client.Options{HTTP: &http.Client{Transport: apptest.NewChecked(t)}})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	for deadline := time.Now().Add(30 * time.Second); len(secondary.Entities()) < 3; time.Sleep(5 * time.Millisecond) { // the topic, and the queues
		if time.Now().After(deadline) {
			t.Fatalf("the secondary namespace has %q, want the backlog queues", secondary.Entities())
		}
	}
	if connections := secondary.Connections(); connections > 0 {
		t.Errorf("%d connections to the secondary namespace before the first message", connections)
	}
	sent, err := app.SendMessage(ctx, "sales/orders", client.Message{Body: []byte("\x00\xff"), ContentType: "application/octet-stream", ID: "first", Subject: "né", TimeToLive: time.Hour,
		Properties: map[string]any{"n": 1, "x": 1.0}})
	if err != nil || sent.MessageID != "first" || sent.SentTo != client.SentToPrimary {
		t.Errorf("sent %+v, %v", sent, err)
	}
	_, err = app.SendMessage(ctx, "missing", client.Message{})
	if refused, ok := errors.AsType[*client.Error](err); !ok || refused.Code != "entity_not_found" {
		t.Errorf("a queue that does not exist: %v", err)
	}
	primary.Fail(devbus.Fault{Kind: devbus.RefuseDial})
	primary.DropConnections()
	sent, err = app.SendMessage(ctx, "sales/orders", client.Message{Body: []byte("x"), ID: "second"})
	if err != nil || sent.SentTo != client.SentToBacklog {
		t.Errorf("sent %+v, %v, want it in the backlog", sent, err)
	}
	entities, err := app.Relay(ctx)
	if i := slices.IndexFunc(entities, func(e client.RelayEntity) bool { return e.Entity == "sales/orders" }); err != nil || i < 0 ||
		entities[i].State != client.RelayFailedOver || entities[i].LastError == "" || strings.Contains(entities[i].LastError, "SharedAccess") {
		t.Errorf("%+v, %v, want it failed over", entities, err)
	}
	primary.Heal()
	run, err := app.Syphon(ctx)
	if err != nil || run.Moved != 1 || run.More {
		t.Errorf("%+v, %v, want one message moved", run, err)
	}
	if got := copiesAt(t, primary, "sales/orders"); got["first"] != 1 || got["second"] != 1 || len(got) != 2 {
		t.Errorf("the queue has %v", got)
	}
	if err := secondary.Delete("127/x-servicebus-transfer/0"); err != nil {
		t.Error(err)
	}
	diagnosis, err := app.Doctor(ctx)
	found := 0
	for _, c := range diagnosis.Checks {
		if strings.HasPrefix(c.Name, "backlog ") && c.OK && strings.Contains(c.Detail, "127/x-servicebus-transfer/0") {
			found++
		}
	}
	if err != nil || found != 2 {
		t.Errorf("%+v, %v, want two checks of the backlog", diagnosis.Checks, err)
	}
}

// underHost starts the app behind a local host, which kills it with SIGKILL when
// it is stopped.
func underHost(t *testing.T, settings []string) (app *client.Client, stop func()) {
	t.Helper()
	program, err := built.handler()
	if err != nil {
		t.Fatal(err)
	}
	// Nothing listens there: messages need no storage.
	env := map[string]string{"AzureWebJobsStorage": "BlobEndpoint=http://127.0.0.1:1/x;TableEndpoint=http://127.0.0.1:1/x;QueueEndpoint=http://127.0.0.1:1/x;SharedAccessSignature=sig=x", "GORACE": "atexit_sleep_ms=0"}
	for _, setting := range settings {
		name, value, _ := strings.Cut(setting, "=")
		env[name] = value
	}
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	output := &apptest.Buffer{}
	host, err := localhost.New(stageApp(t), listener, &localhost.Options{
		Env: env, Executable: program, Queues: memory.NewQueues(nil), Console: output, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- host.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil || t.Failed() {
			t.Logf("the host ended: %v\n%s", err, output)
		}
	})
	t.Cleanup(stop)
	<-host.Ready()
	if err := host.HandlerError(); err != nil {
		t.Fatal(err)
	}
	app, err = client.New("http://"+listener.Addr().String(), &client.Options{HTTP: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 8}}})
	if err != nil {
		t.Fatal(err)
	}
	return app, stop
}

// TestKilledWhileFailedOver cuts the primary bus off while messages are sent
// over HTTP, and kills the process while it is failed over. A process that is
// started later brings them home: each one that was answered, and as many copies
// as the bound allows.
func TestKilledWhileFailedOver(t *testing.T) {
	storetest.OnlyInProve(t)
	t.Parallel()
	const senders, each, killAfter, entity = 8, 50, 300, "sales/orders"
	primary, _, settings := withBuses(t)
	app, kill := underHost(t, settings)
	send := func(ctx context.Context, id string) (client.SentMessage, error) {
		return app.SendMessage(ctx, entity, client.Message{ID: id, Body: []byte(id), SessionID: id[:1]})
	}
	var mu sync.Mutex
	answered := make(map[string]bool)
	for i := range 10 {
		id := fmt.Sprint("healthy ", i)
		if sent, err := send(t.Context(), id); err != nil || sent.SentTo != client.SentToPrimary {
			t.Fatalf("%+v, %v", sent, err)
		}
		answered[id] = true
	}

	// The bus stores one message, and the answer is lost.
	primary.Fail(devbus.Fault{Kind: devbus.CloseAfter, On: devbus.OnSend, Times: 1})
	sent, err := send(t.Context(), "ambiguous")
	if err != nil || sent.SentTo != client.SentToBacklog {
		t.Fatalf("%+v, %v, want it in the backlog, too", sent, err)
	}
	answered["ambiguous"] = true
	const ambiguous = 1
	primary.Fail(devbus.Fault{Kind: devbus.RefuseDial})
	primary.DropConnections()

	ctx, cancel := context.WithCancel(t.Context())
	var sending sync.WaitGroup
	for i := range senders {
		sending.Go(func() {
			for n := range each {
				id := fmt.Sprint(i, " ", n)
				_, err := send(ctx, id)
				mu.Lock()
				if answered[id] = err == nil; err != nil && ctx.Err() == nil {
					t.Errorf("message %s: %v", id, err)
				}
				if len(answered) == killAfter {
					cancel()
					kill()
				}
				mu.Unlock()
				if ctx.Err() != nil {
					return
				}
			}
		})
	}
	sending.Wait()
	cancel()
	before, err := primary.Counts(entity)
	if err != nil {
		t.Fatal(err)
	}
	primary.Heal()

	app, _ = underHost(t, settings)
	moved := int64(0)
	for {
		run, err := app.Syphon(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if moved += run.Moved; !run.More {
			break
		}
	}
	copies, duplicates := copiesAt(t, primary, entity), 0
	for id, ok := range answered {
		if n := copies[id]; ok && n == 0 {
			t.Errorf("message %q was answered, and is lost", id)
		} else if n > 1 {
			duplicates += n - 1
		}
	}
	t.Logf("figure: messages answered by a process that is killed -9 while failed over (%d, of which %d in the backlog): lost | 0 | 0", len(answered), moved)
	t.Logf("figure: … duplicates of them, with %d attempt without an answer | %d | ≤ %[1]d", ambiguous, duplicates)
	if duplicates > ambiguous || before.Ready != 11 || moved < killAfter-20 {
		t.Errorf("%d duplicates, want at most %d; %d were moved; before, the queue had %+v", duplicates, ambiguous, moved, before)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if sent, err := send(t.Context(), "after"); err == nil && sent.SentTo == client.SentToPrimary {
			break
		} else if time.Now().After(deadline) {
			t.Fatalf("%+v, %v, want it in the primary namespace", sent, err)
		}
	}
}
