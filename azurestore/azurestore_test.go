package azurestore_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"kennel/azurestore"
	"kennel/gate"
	"kennel/internal/dev/devbus"
	"kennel/internal/memory"
	"kennel/queue"
)

// The stores of ids and gate are tested by examples/numbers, on storage.

// TestSignals releases a gate as another process does. A waiter that receives
// signals polls once an hour, so the signal admits it.
func TestSignals(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	bus, err := devbus.Listen(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer bus.Close()
	if err := bus.CreateTopic(azurestore.SignalsTopic, nil); err != nil {
		t.Fatal(err)
	}
	store := memory.NewValues(nil)
	open := func() (*gate.Gates, *azurestore.Signals) {
		t.Helper()
		signals, err := azurestore.NewSignalsFromConnectionString(bus.ConnectionString(), azurestore.SignalsTopic)
		if err != nil {
			t.Fatal(err)
		}
		gates, err := gate.New(store, &gate.Options{Signals: signals, PollOften: 20 * time.Millisecond, PollRarely: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		return gates, signals
	}
	waiters, signals := open()
	operator, others := open()
	defer others.Close()
	life, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { waiters.Run(life) })
	passed := make(chan error, 1)
	go func() {
		_, err := waiters.Wait(ctx, "hounds", gate.Now, time.Minute)
		passed <- err
	}()
	for !waiters.Watched()["hounds"].Signals && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	if done, err := operator.Release(ctx, "hounds", gate.Change{By: "ann"}); err != nil || !done.Signalled {
		t.Errorf("release: %+v, %v", done, err)
	}
	if err := <-passed; err != nil {
		t.Error(err)
	}
	stop()
	running.Wait()
	signals.Close()
	if err := signals.Publish(ctx, gate.Signal{}); err == nil {
		t.Error("a signal was published after Close")
	}
}

// credential records for which services a token was requested, and has none.
type credential struct{ scopes chan string }

var errNoToken = errors.New("no token")

func (c credential) GetToken(_ context.Context, o policy.TokenRequestOptions) (azcore.AccessToken, error) {
	select {
	case c.scopes <- strings.Join(o.Scopes, " "):
	default:
	}
	return azcore.AccessToken{}, errNoToken
}

// expect waits until a token for a service is requested.
func (c credential) expect(t *testing.T, service string) {
	t.Helper()
	select {
	case scope := <-c.scopes:
		if !strings.HasPrefix(scope, service) {
			t.Errorf("token for %s, want one for %s", scope, service)
		}
	case <-time.After(10 * time.Second):
		t.Errorf("no token for %s was requested", service)
	}
}

func TestCredential(t *testing.T) {
	c := credential{make(chan string, 1)}
	blobs, err := azurestore.NewBlobs("https://kennel.blob.core.windows.net", c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := azurestore.NewSequences(blobs, "numbers").Load(t.Context(), "orders", ""); err == nil || !strings.Contains(err.Error(), "no token") {
		t.Errorf("load without a token: %v", err)
	}
	c.expect(t, "https://storage.azure.com/")

	queues, err := azurestore.NewQueues("https://kennel.queue.core.windows.net", c, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := queues.Put(t.Context(), "orders", "order 7", 0); err == nil || !strings.Contains(err.Error(), "no token") {
		t.Errorf("put without a token: %v", err)
	}
	c.expect(t, "https://storage.azure.com/")
	tables, err := azurestore.NewTables("https://kennel.table.core.windows.net", c)
	if err != nil {
		t.Fatal(err)
	}
	claims, err := azurestore.NewClaims(tables, blobs, nil)
	if err != nil {
		t.Fatal(err)
	}
	ending, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := claims.Pack(ending, queue.Envelope{ID: "long", Time: time.Now()}, random(1<<20)); err == nil {
		t.Error("a long body was stored without a token")
	}
	c.expect(t, "https://storage.azure.com/")

	namespace, err := azurestore.NewRelay("kennel.servicebus.windows.net", c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := namespace.Depth(t.Context(), "backlog"); err == nil {
		t.Error("the depth of a queue was read without a token")
	}
	c.expect(t, "https://servicebus.azure.net/")

	signals, err := azurestore.NewSignals("kennel.servicebus.windows.net", "signals", c)
	if err != nil {
		t.Fatal(err)
	}
	defer signals.Close()
	ctx, stop := context.WithCancel(t.Context())
	var listening sync.WaitGroup
	listening.Go(func() { signals.Listen(ctx, deaf{}) })
	c.expect(t, "https://servicebus.azure.net/")
	stop()
	listening.Wait()
}

// deaf is a listener that receives nothing.
type deaf struct{}

func (deaf) Up()                  {}
func (deaf) Down(error)           {}
func (deaf) Received(gate.Signal) {}

func TestInvalid(t *testing.T) {
	const key = "c2VjcmV0a2V5"
	var none azcore.TokenCredential
	_, noCredential := azurestore.NewBlobs("https://kennel.blob.core.windows.net", none)
	_, noHTTPS := azurestore.NewBlobs("http://kennel.blob.core.windows.net", credential{})
	_, signed := azurestore.NewBlobs("https://kennel.blob.core.windows.net?sig="+key, credential{})
	_, malformed := azurestore.NewBlobsFromConnectionString("AccountKey=" + key)
	_, noBusCredential := azurestore.NewSignals("kennel.servicebus.windows.net", "signals", none)
	_, noHost := azurestore.NewSignals("", "signals", credential{})
	_, malformedBus := azurestore.NewSignalsFromConnectionString("SharedAccessKey="+key, "signals")
	_, noQueueCredential := azurestore.NewQueues("https://kennel.queue.core.windows.net", none, nil)
	_, malformedQueues := azurestore.NewQueuesFromConnectionString("AccountKey="+key, nil)
	_, noTableCredential := azurestore.NewTables("https://kennel.table.core.windows.net", none)
	_, malformedTables := azurestore.NewTablesFromConnectionString("AccountKey=" + key)
	_, noRelayCredential := azurestore.NewRelay("kennel.servicebus.windows.net", none)
	_, malformedRelay := azurestore.NewRelayFromConnectionString("SharedAccessKey=" + key)
	for i, err := range []error{noCredential, noHTTPS, signed, malformed, noBusCredential, noHost, malformedBus,
		noQueueCredential, malformedQueues, noTableCredential, malformedTables, noRelayCredential, malformedRelay} {
		if err == nil || strings.Contains(err.Error(), key) {
			t.Errorf("error %d: %v, want one without the key", i, err)
		}
	}
}
