package parts

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"kennel/ids"
	"kennel/internal/api"
	"kennel/internal/apptest"
	"kennel/internal/customhandler"
	"kennel/internal/edge"
	"kennel/internal/memory"
)

// numberHosts returns two hosts of the route of numbers: the app's, and one that
// knows nothing of traces.
func numberHosts(t testing.TB) (traces, plain *customhandler.App) {
	t.Helper()
	stored := memory.NewSequences(nil)
	sequences, err := ids.NewSet(stored, &ids.Options{RangeSize: 1_000_000})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sequences.Close(context.Background()) })
	log := slog.New(slog.DiscardHandler)
	rt := api.SequenceResource{Store: readable{stored}, Sequences: sequences, Allowed: []string{"*"}, Log: log}.Routes()[0]
	plain, err = customhandler.New(&customhandler.Options{Log: log})
	if err != nil {
		t.Fatal(err)
	}
	plain.HTTP(rt.Function, "req", &rt, rt.Pattern)
	traces, err = customhandler.New(&customhandler.Options{Log: log})
	if err != nil {
		t.Fatal(err)
	}
	edge.ServeRoutes(traces, []edge.Route{rt})
	return traces, plain
}

// TestTracesThatAreOff: while traces are off, a number allocates as much as
// without the code for them.
func TestTracesThatAreOff(t *testing.T) {
	traces, plain := numberHosts(t)
	const calls = 500 // over which the emptying of pools is spread
	allocations := func(host http.Handler) float64 {
		return testing.AllocsPerRun(1, func() {
			for range calls {
				w := httptest.NewRecorder()
				r := httptest.NewRequest(http.MethodPost, "/api/sequences/orders/next", nil)
				r.Header.Set("Traceparent", apptest.SomeParent)
				if host.ServeHTTP(w, r); w.Code != 200 {
					t.Errorf("%d %s", w.Code, w.Body)
				}
			}
		}) / calls
	}
	allocations(traces) // the first range
	with, without := allocations(traces), allocations(plain)
	for range 4 { // the end of an earlier test may allocate, too
		with, without = min(with, allocations(traces)), min(without, allocations(plain))
	}
	if with > without+0.5 {
		t.Errorf("%.2f allocations, %.2f without the code for traces", with, without)
	}
}

// BenchmarkTracesOff measures the same in time. The difference is too small for
// a measurement with a network, so it is compared with the time of a number
// through a connection as the Functions host has one.
func BenchmarkTracesOff(b *testing.B) {
	const rounds, calls = 401, 500
	traces, plain := numberHosts(b)
	for b.Loop() {
		ctx, stop := context.WithCancel(b.Context())
		number := connect(b, ctx, plain)
		measure := func(call func()) time.Duration {
			began := time.Now()
			for range calls {
				call()
			}
			return time.Since(began)
		}
		serve := func(host http.Handler) func() {
			r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/api/sequences/orders/next", nil)
			return func() { host.ServeHTTP(discarded{http.Header{}}, r) }
		}
		with, without := serve(traces), serve(plain)
		var costs, wholes []time.Duration
		for i := range rounds {
			first, second := with, without
			if i%2 == 0 {
				first, second = without, with
			}
			cost := measure(first) - measure(second)
			if i%2 == 0 {
				cost = -cost
			}
			costs = append(costs, cost/calls)
			if i%10 == 0 {
				wholes = append(wholes, measure(number)/calls)
			}
		}
		stop()
		cost, whole := apptest.Median(costs), apptest.Median(wholes)
		b.Logf("figure: time of a number that traces take while they are off (%v of %v) | %.2f %% | ≤ 1 %%", cost, whole, 100*float64(cost)/float64(whole))
	}
}

// discarded is the writer of an answer that is not read.
type discarded struct{ header http.Header }

func (d discarded) Header() http.Header { return d.header }

func (discarded) Write(p []byte) (int, error) { return len(p), nil }

func (discarded) WriteHeader(int) {}

// connect serves a host and returns a function that makes one call.
func connect(b *testing.B, ctx context.Context, host *customhandler.App) (call func()) {
	b.Helper()
	l, err := customhandler.Listen(0)
	if err != nil {
		b.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- host.Serve(ctx, l) }()
	conn, err := net.Dial("tcp4", l.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { conn.Close(); <-ended })
	answers := bufio.NewReader(conn)
	const request = "POST /api/sequences/orders/next HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\nX-Azure-Functions-InvocationId: 5a1c2a52-7d0f-4f3c-9a8e-1d2f3a4b5c6d\r\n\r\n"
	return func() {
		if _, err := io.WriteString(conn, request); err != nil {
			b.Fatal(err)
		}
		if err := apptest.SkipAnswer(answers); err != nil {
			b.Fatal(err)
		}
	}
}
