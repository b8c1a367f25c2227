package azure

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"

	"kennel/ids"
	"kennel/internal/storetest"
)

var errWire = errors.New("connection reset by peer")

// wire is a transport that counts what passes and on which a request or its
// answer can get lost.
type wire struct {
	mu   sync.Mutex
	seen []string // method and status of each request, 0 if lost
	lose func(r *http.Request) (request, answer bool)
}

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	var request, answer bool
	if w.lose != nil {
		request, answer = w.lose(r)
	}
	if request {
		w.note(r.Method, 0)
		return nil, errWire
	}
	response, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	w.note(r.Method, response.StatusCode)
	if answer {
		response.Body.Close()
		return nil, errWire
	}
	return response, nil
}

func (w *wire) note(method string, status int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.seen = append(w.seen, fmt.Sprint(method, " ", status))
}

// passed returns what was seen since the last call.
func (w *wire) passed() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	seen := w.seen
	w.seen = nil
	return seen
}

func (w *wire) client() *http.Client { return &http.Client{Transport: w} }

func TestSequenceRequests(t *testing.T) {
	w := &wire{}
	store := NewSequences(openBlobs(t, &Options{HTTP: w.client()}), storetest.Name())
	var mark ids.Mark
	for _, step := range []struct {
		name string
		do   func() error
		err  error
		want []string
	}{
		{"load without container", func() error { _, err := store.Load(t.Context(), "orders"); return err },
			ids.ErrNotFound, []string{"GET 404"}},
		{"create with container", func() (err error) {
			mark, err = store.Replace(t.Context(), "orders", ids.Mark{}, ids.Mark{Text: "1"})
			return err
		}, nil, []string{"PUT 404", "PUT 201", "PUT 201"}},
		{"load", func() error { _, err := store.Load(t.Context(), "orders"); return err },
			nil, []string{"GET 200"}},
		{"replace", func() error {
			_, err := store.Replace(t.Context(), "orders", mark, ids.Mark{Text: "2"})
			return err
		}, nil, []string{"PUT 201"}},
		{"replace a stale one", func() error {
			_, err := store.Replace(t.Context(), "orders", mark, ids.Mark{Text: "2"})
			return err
		}, ids.ErrChanged, []string{"PUT 412"}},
		{"create what is there", func() error {
			_, err := store.Replace(t.Context(), "orders", ids.Mark{}, ids.Mark{Text: "2"})
			return err
		}, ids.ErrChanged, []string{"PUT 409"}},
		{"create another", func() error {
			_, err := store.Replace(t.Context(), "others", ids.Mark{}, ids.Mark{Text: "1"})
			return err
		}, nil, []string{"PUT 201"}},
	} {
		if err := step.do(); !errors.Is(err, step.err) {
			t.Errorf("%s: %v, want %v", step.name, err, step.err)
		}
		if got := w.passed(); !slices.Equal(got, step.want) {
			t.Errorf("%s makes the requests %v, want %v", step.name, got, step.want)
		}
	}
}

// Each write, once refused and once done but reported as failed: its caller
// hears the same, and reading back tells which it was.
func TestSequenceWritesThatFail(t *testing.T) {
	for _, write := range []string{"create", "create with container", "replace"} {
		for _, done := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s done=%v", write, done), func(t *testing.T) {
				w := &wire{}
				store := NewSequences(openBlobs(t, &Options{HTTP: w.client()}), storetest.Name())
				var old ids.Mark
				var err error
				if write != "create with container" {
					if _, err = store.Replace(t.Context(), "others", ids.Mark{}, ids.Mark{Text: "1"}); err != nil {
						t.Fatal(err)
					}
				}
				if write == "replace" {
					old, err = store.Replace(t.Context(), "orders", ids.Mark{}, ids.Mark{Text: "1", Writer: "before"})
					if err != nil {
						t.Fatal(err)
					}
				}
				w.passed()
				w.lose = func(r *http.Request) (request, answer bool) {
					isWrite := r.Method == http.MethodPut && r.URL.Query().Get("restype") == ""
					if write == "create with container" && len(w.seen) == 0 {
						isWrite = false // the first one only finds the container missing
					}
					return isWrite && !done, isWrite && done
				}
				next := ids.Mark{Text: "2", Writer: "ours"}
				_, err = store.Replace(t.Context(), "orders", old, next)
				if !errors.Is(err, errWire) || errors.Is(err, ids.ErrChanged) {
					t.Errorf("replace: %v, want %v", err, errWire)
				}
				if got := w.passed(); len(got) != 1 && write != "create with container" {
					t.Errorf("requests %v, want one: nobody but the caller may try again", got)
				}
				w.lose = nil
				mark, err := store.Load(t.Context(), "orders")
				switch {
				case done && (err != nil || mark.Writer != "ours" || mark.Text != "2"):
					t.Errorf("read back %+v, %v, want our write", mark, err)
				case !done && write == "replace" && mark != old:
					t.Errorf("read back %+v, %v, want %+v", mark, err, old)
				case !done && write != "replace" && !errors.Is(err, ids.ErrNotFound):
					t.Errorf("read back %+v, %v, want %v", mark, err, ids.ErrNotFound)
				}
				if !done {
					return
				}
				// A caller that tries again all the same is told of the change.
				if _, err = store.Replace(t.Context(), "orders", old, next); !errors.Is(err, ids.ErrChanged) {
					t.Errorf("replace again: %v, want %v", err, ids.ErrChanged)
				}
			})
		}
	}
}

func TestQueueRequestsThatFail(t *testing.T) {
	for _, test := range []struct {
		op            string
		refused, done int // messages to be received afterwards
	}{
		{"put", 1, 2},
		{"receive", 1, 0},
		{"update", 0, 1},
		{"delete", 0, 0},
	} {
		for _, done := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s done=%v", test.op, done), func(t *testing.T) {
				w := &wire{}
				q := openQueues(t, &Options{HTTP: w.client()})
				queue := storetest.Name()
				if err := q.Put(t.Context(), queue, "a", 0); err != nil {
					t.Fatal(err)
				}
				var m QueueMessage
				if test.op == "update" || test.op == "delete" {
					messages, err := q.Receive(t.Context(), queue, 1, maxVisibility)
					if err != nil {
						t.Fatal(err)
					}
					m = messages[0]
				}
				w.passed()
				w.lose = func(*http.Request) (request, answer bool) { return !done, done }
				var err error
				switch test.op {
				case "put":
					err = q.Put(t.Context(), queue, "b", 0)
				case "receive":
					_, err = q.Receive(t.Context(), queue, 1, maxVisibility)
				case "update":
					_, err = q.Update(t.Context(), queue, m, 0)
				case "delete":
					err = q.Delete(t.Context(), queue, m)
				}
				if !errors.Is(err, errWire) {
					t.Errorf("%s: %v, want %v", test.op, err, errWire)
				}
				if got := w.passed(); len(got) != 1 {
					t.Errorf("requests %v, want one: nobody but the caller may try again", got)
				}
				w.lose = nil
				want := test.refused
				if done {
					want = test.done
				}
				messages, err := q.Receive(t.Context(), queue, 32, maxVisibility)
				if err != nil || len(messages) != want {
					t.Errorf("received %v, %v, want %d messages", messages, err, want)
				}
				if test.op == "delete" { // tried again, it is the echo that answers
					want := error(nil)
					if done {
						want = ErrLeaseLost
					}
					if err := q.Delete(t.Context(), queue, m); !errors.Is(err, want) {
						t.Errorf("delete again: %v, want %v", err, want)
					}
				}
			})
		}
	}
}

// A caller that goes away hears so, while the request may be under way.
func TestCallerGoesAway(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	w := &wire{lose: func(*http.Request) (bool, bool) { cancel(); return false, true }}
	store := NewSequences(openBlobs(t, &Options{HTTP: w.client()}), storetest.Name())
	if _, err := store.Load(ctx, "orders"); !errors.Is(err, context.Canceled) {
		t.Errorf("load: %v, want %v", err, context.Canceled)
	}
}
