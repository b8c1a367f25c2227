package servicebus

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/google/go-cmp/cmp"

	"kennel/gate"
	"kennel/internal/dev/devbus"
	"kennel/queue"
)

func TestEveryProcessReceivesEverySignal(t *testing.T) {
	withBus(t, func(t *testing.T, b *devbus.Broker) {
		one, two := openSignals(t, inProcess(b)), openSignals(t, inProcess(b))
		first, stopFirst := listenUp(t, one)
		second, stopSecond := listenUp(t, two)
		mustPublish(t, one)
		mustPublish(t, one)
		for _, r := range []*recorder{first, second} {
			await(t, time.Second, "received", r.hasReceived(2))
			if diff := cmp.Diff([]gate.Signal{release, release}, r.read().received); diff != "" {
				t.Errorf("received signals (-want +got):\n%s", diff)
			}
		}
		stopFirst()
		stopSecond()
		if names := subscriptions(b); len(names) != 0 {
			t.Errorf("subscriptions %q remain after the stop", names)
		}
	})
}

// Publish recovers from every fault of its cached connection.
func TestPublishingRecovers(t *testing.T) {
	for _, tt := range []struct {
		name  string
		fault devbus.Fault // none: the connection is dropped
	}{
		{"connection lost", devbus.Fault{}},
		{"frozen", devbus.Fault{Kind: devbus.Freeze}},
		{"detached", devbus.Fault{Kind: devbus.Detach, Times: 1}},
		{"detached permanently", devbus.Fault{Kind: devbus.Detach, Condition: "amqp:resource-limit-exceeded", Times: 1}},
		{"closed before", devbus.Fault{Kind: devbus.CloseBefore, Times: 1}},
		{"closed after", devbus.Fault{Kind: devbus.CloseAfter, Times: 1}},
		{"no answer", devbus.Fault{Kind: devbus.Silent, Times: 1}},
		{"rejected", devbus.Fault{Kind: devbus.Reject, Times: 1}},
		{"busy", devbus.Fault{Kind: devbus.Reject, Condition: "com.microsoft:server-busy", Times: 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			withBus(t, func(t *testing.T, b *devbus.Broker) {
				s, other := openSignals(t, inProcess(b)), openSignals(t, inProcess(b))
				mustPublish(t, s)
				if tt.fault.Kind == 0 {
					b.DropConnections()
				} else {
					b.Fail(tt.fault)
				}
				time.Sleep(time.Second)
				r, _ := listenUp(t, other)
				mustPublish(t, s)
				await(t, time.Second, "received", r.hasReceived(1))
			})
		})
	}
}

// Publish returns an error without secrets before its deadline.
func TestPublishingFails(t *testing.T) {
	for _, tt := range []struct {
		name   string
		fault  devbus.Fault
		denied bool
	}{
		{"refused", devbus.Fault{Kind: devbus.RefuseDial}, false},
		{"black hole", devbus.Fault{Kind: devbus.BlackHole}, false},
		{"no answer", devbus.Fault{Kind: devbus.Silent}, false},
		{"no right", devbus.Fault{Kind: devbus.CBS, Status: 401}, true},
		{"no topic", devbus.Fault{Kind: devbus.DeleteEntity, Entity: topic}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			withBus(t, func(t *testing.T, b *devbus.Broker) {
				s := openSignals(t, inProcess(b))
				b.Fail(tt.fault)
				began := time.Now()
				err := publish(t, s)
				if err == nil || errors.Is(err, ErrDenied) != tt.denied {
					t.Errorf("got %v, want an error; denied: %v", err, tt.denied)
				}
				if took := time.Since(began); took > 5*time.Second {
					t.Errorf("it took %v", took)
				}
				if text := fmt.Sprint(err); strings.Contains(text, key) || strings.Contains(text, "\n") {
					t.Errorf("the error is %q", text)
				}
				s.Close()
				if err := publish(t, s); !errors.Is(err, errClosed) {
					t.Errorf("after Close: got %v, want errClosed", err)
				}
			})
		})
	}
}

// A sender is kept for the next signal, but closed when it is idle.
func TestIdleSenderIsClosed(t *testing.T) {
	withBus(t, func(t *testing.T, b *devbus.Broker) {
		s := openSignals(t, inProcess(b))
		for range 5 {
			mustPublish(t, s)
			time.Sleep(senderLifetime / 2)
		}
		if made := b.Stats().Connections; made != 1 {
			t.Errorf("%d connections for five signals, one every half minute", made)
		}
		time.Sleep(senderLifetime)
		if left := b.Connections(); left != 0 {
			t.Errorf("%d connections remain", left)
		}
	})
}

// unreadable are bodies that count as a signal of any gate.
var unreadable = []string{
	"", "wake up", "null", "[]", `"hounds"`, `{"v":1}`,
	`{"gate":"hounds","generation":7}`, `{"v":2,"gate":"hounds","generation":7}`,
	`{"v":1,"gate":"../hounds","generation":7}`, `{"v":1,"gate":7,"generation":7}`,
	`{"v":1,"gate":"hounds","generation":-1}`, `{"v":1,"gate":"hounds","generation":7.5}`,
	`{"v":1,"gate":"hounds","generation":9007199254740992}`,
	`{"v":1,"gate":"hounds","generation":7} and more`, `{"v":1,"queue":"A/B"}`, `{"v":1,"gate":"hounds","queue":"work-0"}`,
	`{"v":1,"gate":"hounds","generation":7,"padding":"` + strings.Repeat("x", maxMessage) + `"}`,
	"kennel 1\nhttps://contoso.blob.core.windows.net\nhounds\n7\nreleased\nLIFE\n2026-11-21T09:00:00Z\nann\nready",
}

func TestMessage(t *testing.T) {
	maxSignal := gate.Signal{Gate: strings.Repeat("h", 63), Generation: gate.MaxGeneration}
	for _, s := range []gate.Signal{release, maxSignal, {Gate: "closed-before-any-release"}} {
		if got := decode(newMessage(messageOf(s)).Body); got != messageOf(s) {
			t.Errorf("got %+v, want %+v", got, s)
		}
	}
	if body := string(newMessage(messageOf(release)).Body); body != `{"v":1,"gate":"hounds","generation":1763715600123}` {
		t.Errorf("the format has changed: %s", body)
	}
	if got := decode([]byte(`{"v":1,"gate":"hounds","generation":7,"new":[1]}`)); got != (message{Version: 1, Gate: "hounds", Generation: 7}) {
		t.Errorf("with an unknown field: got %+v", got)
	}
	for _, body := range unreadable {
		if got := decode([]byte(body)); got != (message{}) {
			t.Errorf("%q: got %+v, want a signal of any gate", body, got)
		}
	}
}

func FuzzMessage(f *testing.F) {
	f.Add(newMessage(messageOf(release)).Body)
	for _, body := range unreadable {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		s := decode(body)
		if s == (message{}) {
			return
		}
		if err := gate.CheckName(s.Gate); err != nil || s.Generation < 0 || s.Queue != "" && queue.CheckName(s.Queue) != nil {
			t.Errorf("%q became %+v: %v", body, s, err)
		}
		if again := decode(newMessage(s).Body); again != s {
			t.Errorf("%+v became %+v", s, again)
		}
	})
}

// Connection strings have many forms. The SDK and this package must agree on
// the host and on whether it is an emulator, which has no TLS.
func TestOpenSignals(t *testing.T) {
	const host, keys = "contoso.servicebus.windows.net", ";SharedAccessKeyName=k;SharedAccessKey=" + key
	for _, tt := range []struct {
		namespace Namespace
		host      string // "": malformed
		emulator  bool
	}{
		{Namespace{ConnectionString: contoso}, host, false},
		{Namespace{ConnectionString: " Endpoint = SB://" + host + "/ " + keys + ";;"}, host, false},
		{Namespace{ConnectionString: "Endpoint=sb://127.0.0.1:5001" + keys + ";UseDevelopmentEmulator=true"}, "127.0.0.1:5001", true},
		{Namespace{ConnectionString: "Endpoint=sb://localhost" + keys + "; usedevelopmentemulator = TRUE ;"}, "localhost", true},
		{Namespace{ConnectionString: "Endpoint=sb://" + host + keys + ";UseDevelopmentEmulator=false"}, host, false},
		{Namespace{ConnectionString: "Endpoint=sb://" + host + keys + ";UseDevelopmentEmulator=yes"}, "", false},
		{Namespace{ConnectionString: "Endpoint=sb://" + keys}, "", false},
		{Namespace{ConnectionString: "Endpoint=sb://" + host + ";SharedAccessKey=" + key}, "", false},
		{Namespace{ConnectionString: key}, "", false},
		{Namespace{}, "", false},
		{Namespace{Host: host}, host, false},
		{Namespace{Host: host, ManagedIdentity: true}, host, false},
		{Namespace{Host: host, ManagedIdentity: true, ClientID: "an id"}, host, false},
	} {
		s, err := tt.namespace.OpenSignals(topic, nil)
		if tt.host == "" {
			if text := fmt.Sprint(err); !strings.Contains(text, "malformed") || strings.Contains(text, key) {
				t.Errorf("%+v: got %v, want an error without the key", tt.namespace, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%+v: %v", tt.namespace, err)
			continue
		}
		if _, emulator := endpoint(s.connector.connection); s.connector.host != tt.host || emulator != tt.emulator {
			t.Errorf("%+v: host %q, emulator %v, want %q, %v", tt.namespace, s.connector.host, emulator, tt.host, tt.emulator)
		}
		if _, err := s.connector.newClient(sendRetry); err != nil {
			t.Errorf("%+v: the SDK returned %v", tt.namespace, err)
		}
	}
	for host, want := range map[string]string{"localhost": "localhost:5300", "[::1]": "[::1]:5300", "localhost:1": "localhost:1"} {
		if got := withPort(host, emulatorAdminPort); got != want {
			t.Errorf("%s: got %s, want %s", host, got, want)
		}
	}
}

// stuckCredential answers no token request before its context ends.
type stuckCredential struct{}

func (stuckCredential) GetToken(ctx context.Context, _ policy.TokenRequestOptions) (azcore.AccessToken, error) {
	<-ctx.Done()
	return azcore.AccessToken{}, ctx.Err()
}

// A token request ends after requestTimeout, and at once when its client is cut
// off.
func TestStuckTokenRequests(t *testing.T) {
	for _, cutAfter := range []time.Duration{time.Second, time.Hour} {
		withBus(t, func(t *testing.T, b *devbus.Broker) {
			signals := openSignals(t, inProcess(b))
			signals.connector = &connector{host: "contoso.servicebus.windows.net", credential: stuckCredential{}, dial: signals.connector.dial}
			s, _, err := signals.takeSender()
			if err != nil {
				t.Fatal(err)
			}
			time.AfterFunc(cutAfter, s.client.cut)
			began := time.Now()
			err = s.SendMessage(context.Background(), newMessage(messageOf(release)), nil)
			if took := time.Since(began); err == nil || took > min(cutAfter, 3*requestTimeout) {
				t.Errorf("cut after %v: got %v after %v", cutAfter, err, took)
			}
		})
	}
}
