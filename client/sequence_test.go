package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kennel/client"
	"kennel/internal/storetest"
	"kennel/internal/table"
)

// dispenser plays an app that gives out numbers, without a network.
type dispenser struct {
	takes func() time.Duration // the way there and back
	fail  func() string        // "": answers; busy, refused or lost

	mu      sync.Mutex
	next    int64
	counts  []int64 // of the pieces, in order
	given   map[int64]bool
	ready   []int64             // came back; in order
	leases  map[string][2]int64 // first and last
	returns int
	atOnce  int
	maximum int // requests at once
}

func newDispenser() *dispenser {
	return &dispenser{takes: func() time.Duration { return 50 * time.Millisecond }, fail: func() string { return "" },
		next: 1, given: make(map[int64]bool), leases: make(map[string][2]int64)}
}

func (d *dispenser) RoundTrip(r *http.Request) (*http.Response, error) {
	d.mu.Lock()
	takes, fail := d.takes(), d.fail()
	d.atOnce++
	d.maximum = max(d.maximum, d.atOnce)
	d.mu.Unlock()
	defer func() {
		d.mu.Lock()
		d.atOnce--
		d.mu.Unlock()
	}()
	if r.URL.Path == "/api/sequences/orders/next/return" {
		return d.takeBack(r, takes, fail)
	}
	count, err := strconv.ParseInt(r.URL.Query().Get("count"), 10, 64)
	if err != nil || count < 1 || count > 10_000 || r.Method != "POST" || r.URL.Path != "/api/sequences/orders/next" {
		return nil, fmt.Errorf("unexpected request %s %s", r.Method, r.URL)
	}
	if err := table.Pause(r.Context(), takes/2); err != nil {
		return nil, err
	}
	status, body, header := 200, "", http.Header{"Content-Type": {"application/json"}}
	leases := r.URL.Query().Has("lease")
	switch fail {
	case "busy":
		status, body = 503, `{"error":{"code":"storage_unavailable","message":"try again"}}`
		header.Set("Retry-After", "1")
	case "refused":
		status, body = 409, `{"error":{"code":"sequence_exhausted","message":"no numbers are left"}}`
	default:
		d.mu.Lock()
		first := d.next
		if len(d.ready) > 0 && count == 1 {
			first, d.ready = d.ready[0], d.ready[1:]
		} else {
			d.next += count
		}
		for n := range count {
			d.given[first+n] = true
		}
		d.counts = append(d.counts, count)
		body = fmt.Sprintf(`{"sequence":"orders","first":%d,"last":%d,"count":%d}`, first, first+count-1, count)
		if leases {
			lease := fmt.Sprintf("LEASE%d", first)
			d.leases[lease] = [2]int64{first, first + count - 1}
			body = strings.Replace(body, "}", fmt.Sprintf(`,"lease":%q}`, lease), 1)
		}
		d.mu.Unlock()
	}
	if err := table.Pause(r.Context(), takes/2); err != nil {
		return nil, err
	}
	if fail == "lost" {
		return nil, errors.New("connection reset by peer")
	}
	return &http.Response{StatusCode: status, Header: header, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

// takeBack plays the return of numbers.
func (d *dispenser) takeBack(r *http.Request, takes time.Duration, fail string) (*http.Response, error) {
	if err := table.Pause(r.Context(), takes); err != nil {
		return nil, err
	}
	var body struct {
		Lease string
		First int64
	}
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.returns++
	lease, ok := d.leases[body.Lease]
	delete(d.leases, body.Lease)
	for n := body.First; ok && n <= lease[1]; n++ {
		d.ready = append(d.ready, n)
	}
	if fail == "lost" {
		return nil, errors.New("connection reset by peer")
	}
	text := `{"sequence":"orders","returned":0}`
	return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(text)), Request: r}, nil
}

// sequence returns a sequence of the dispenser. The test closes it.
func (d *dispenser) sequence(t testing.TB) *client.Sequence {
	c, err := client.New("http://app", &client.Options{HTTP: &http.Client{Transport: d}})
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.Sequence("orders", nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestSequenceNeverRepeats runs callers that come, wait and give up, over an
// app that is slow, busy, refuses and loses answers. No number comes twice, and
// none that the app did not give.
func TestSequenceNeverRepeats(t *testing.T) {
	storetest.Simulate(t, 60, func(t *storetest.Simulation) {
		d := newDispenser()
		random := t.Chance("app", 0)
		d.takes = func() time.Duration { return random.UpTo(300 * time.Millisecond) }
		d.fail = func() string {
			return []string{"busy", "refused", "lost", "", "", "", "", "", "", "", "", ""}[random.Below(12)]
		}
		s := d.sequence(t.T)
		var mu sync.Mutex
		issued := make(map[int64]bool)
		var callers sync.WaitGroup
		for caller := range 8 {
			callers.Go(func() {
				random := t.Chance("caller", caller)
				for range 150 {
					ctx, cancel := context.WithTimeout(t.Context(), random.UpTo(2*time.Second))
					n, err := s.Next(ctx)
					cancel()
					mu.Lock()
					if err == nil && issued[n] {
						t.Errorf("%d twice", n)
					}
					if err == nil {
						issued[n] = true
					}
					mu.Unlock()
					_, refused := errors.AsType[*client.Error](err)
					if err != nil && !refused && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, client.ErrUnclear) {
						t.Errorf("%v", err)
					}
					time.Sleep(random.UpTo(40 * time.Millisecond))
				}
			})
		}
		callers.Wait()
		s.Close()
		for n := range issued {
			if !d.given[n] {
				t.Errorf("%d, which the app did not give", n)
			}
		}
		if d.maximum != 1 || len(issued) < 100 {
			t.Errorf("%d requests at once, %d numbers; want 1 and some", d.maximum, len(issued))
		}
	})
}

// TestSequenceFollowsDemand proves what a program pays: one number if it needs
// one; at a steady demand no wait and a request a second; and little again when
// the demand has ended.
func TestSequenceFollowsDemand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDispenser()
		s := d.sequence(t)
		next := func() (waited time.Duration) {
			t.Helper()
			began := time.Now()
			if _, err := s.Next(t.Context()); err != nil {
				t.Fatal(err)
			}
			return time.Since(began)
		}
		next()
		time.Sleep(time.Minute)
		if !slices.Equal(d.counts, []int64{1}) {
			t.Errorf("the first number: pieces of %d, want one number", d.counts)
		}
		for range 3000 {
			next()
			time.Sleep(time.Millisecond)
		}
		requests := len(d.counts)
		for range 10_000 {
			if waited := next(); waited != 0 {
				t.Errorf("a call waited for %v at a steady demand", waited)
			}
			time.Sleep(time.Millisecond)
		}
		if got := len(d.counts) - requests; got < 9 || got > 11 {
			t.Errorf("%d requests for 10,000 numbers at 1,000 a second, want 10", got)
		}
		if lost := d.next - 1 - 13_001; lost > 1500 {
			t.Errorf("%d numbers would be lost, want at most 1.5 s of the demand", lost)
		}
		last := len(d.counts)
		for range 2000 { // a number each ten seconds
			next()
			time.Sleep(10 * time.Second)
		}
		for _, count := range d.counts[last+2:] {
			if count != 1 {
				t.Errorf("pieces of %d after the end of the demand, want 1", d.counts[last:])
				break
			}
		}
		s.Close()
	})
}

// TestSequenceEnds proves that a call ends with its context, without loss of
// the number, and with Close.
func TestSequenceEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDispenser()
		d.takes = func() time.Duration { return 10 * time.Second }
		s := d.sequence(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if _, err := s.Next(ctx); err != context.DeadlineExceeded || time.Since(began) != time.Second {
			t.Errorf("Next = %v after %v, want the end of its context after 1s", err, time.Since(began))
		}
		time.Sleep(time.Minute)
		if _, err := s.Next(ctx); err != context.DeadlineExceeded {
			t.Errorf("Next with an ended context = %v", err)
		}
		if n, err := s.Next(t.Context()); n != 1 || err != nil {
			t.Errorf("Next = %d, %v, want the number that arrived late", n, err)
		}
		ended := make(chan error)
		go func() {
			_, err := s.Next(t.Context())
			ended <- err
		}()
		time.Sleep(time.Second)
		began = time.Now()
		s.Close()
		s.Close()
		if err := <-ended; err != client.ErrClosed || time.Since(began) != 0 {
			t.Errorf("a call that waited at Close = %v after %v, want ErrClosed at once", err, time.Since(began))
		}
		if _, err := s.Next(t.Context()); err != client.ErrClosed {
			t.Errorf("Next after Close = %v, want ErrClosed", err)
		}
	})
}

// TestSequenceFails proves that callers get the error of the app only when no
// number is left, that they do not repeat requests that fail, and that the next
// call goes on.
func TestSequenceFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDispenser()
		s := d.sequence(t)
		defer s.Close()
		draw := func(n int) (failed int, last error) {
			for range n {
				if _, err := s.Next(t.Context()); err != nil {
					failed, last = failed+1, err
				}
				time.Sleep(10 * time.Millisecond)
			}
			return failed, last
		}
		if failed, err := draw(500); failed > 0 {
			t.Fatal(err)
		}
		var requests int
		d.fail = func() string { requests++; return "refused" }
		failed, err := draw(200)
		left := 200 - failed
		if e, ok := errors.AsType[*client.Error](err); !ok || e.Code != "sequence_exhausted" || left < 20 || requests != failed+1 {
			t.Errorf("%d of 200 calls failed after %d requests (%v), want those without a number, and a request each", failed, requests, err)
		}
		d.fail = func() string { return "" }
		if failed, err := draw(500); failed > 0 {
			t.Errorf("%d calls failed when the app serves again: %v", failed, err)
		}
	})
}

// TestSequenceGoesBack proves that Close returns each number that was not used
// and none that was, once, so that the next caller gets them; and that it ends
// in time if the app does not answer.
func TestSequenceGoesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDispenser()
		s := d.sequence(t)
		used := make(map[int64]bool)
		for range 1000 {
			n, err := s.Next(t.Context())
			if err != nil || used[n] {
				t.Fatalf("Next = %d, %v, used before: %t", n, err, used[n])
			}
			used[n] = true
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Second) // the next piece arrives
		first := true
		d.fail = func() string {
			if first {
				first = false
				return "lost"
			}
			return ""
		}
		s.Close()
		back := d.ready
		for n := int64(1); n < d.next; n++ {
			if used[n] == slices.Contains(back, n) {
				t.Errorf("%d: used: %t, returned: %t", n, used[n], !used[n])
			}
		}
		if returns := d.returns; len(back) < 100 || returns < 2 {
			t.Errorf("%d numbers came back in %d returns, want some, and a repeat of the one without an answer", len(back), returns)
		}
		s.Close()
		if len(d.ready) != len(back) {
			t.Errorf("%d numbers came back in the second Close", len(d.ready)-len(back))
		}
		next := d.sequence(t)
		if n, err := next.Next(t.Context()); n != back[0] || err != nil {
			t.Errorf("the next caller got %d, %v, want %d, which came back", n, err, back[0])
		}
		for range 100 {
			if _, err := next.Next(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		d.mu.Lock()
		d.takes = func() time.Duration { return time.Hour }
		d.mu.Unlock()
		began := time.Now()
		next.Close()
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("Close took %v although the app does not answer, want at most 5s", took)
		}
	})
}

func TestSequenceArguments(t *testing.T) {
	c, err := client.New("http://app", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Sequence("", nil); !errors.Is(err, client.ErrInvalid) {
		t.Errorf("Sequence without a name: %v", err)
	}
	if _, err := c.Sequence("orders", &client.SequenceOptions{Lasts: -1}); !errors.Is(err, client.ErrInvalid) || !strings.Contains(err.Error(), "client.SequenceOptions.Lasts") {
		t.Errorf("Sequence with a negative Lasts: %v", err)
	}
}
