package relay_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kennel/relay"
)

// administration creates queues in memory.
type administration struct {
	queues []string
	fail   map[string][]error // of the first attempts for a queue
	tries  map[string][]time.Duration
	began  time.Time
}

func (a *administration) Ensure(ctx context.Context, queue string) error {
	n := len(a.tries[queue])
	a.tries[queue] = append(a.tries[queue], time.Since(a.began))
	if n < len(a.fail[queue]) {
		return a.fail[queue][n]
	}
	if !slices.Contains(a.queues, queue) {
		a.queues = append(a.queues, queue)
	}
	return nil
}

func (a *administration) Depth(context.Context, string) (int64, error) {
	return 0, errors.ErrUnsupported
}

func TestEnsureQueues(t *testing.T) {
	down := fails(relay.Unavailable, true, "down")
	for _, tt := range []struct {
		name  string
		fail  map[string][]error
		want  []string // nil: an error with the text
		text  string
		tries map[string]int
		took  time.Duration
	}{
		{"all at once", nil, []string{"a", "b", "c"}, "", map[string]int{"a": 1, "b": 1, "c": 1}, 0},
		{"at the third try", map[string][]error{"b": {down, down}}, []string{"a", "b", "c"}, "", map[string]int{"a": 1, "b": 3, "c": 1}, time.Minute},
		{"without one", map[string][]error{"a": {down, down, down}}, []string{"b", "c"}, "", map[string]int{"a": 3, "b": 1, "c": 1}, time.Minute},
		{"none", map[string][]error{"a": {down, down, down}, "b": {down, down, down}, "c": {down, down, down}}, nil, `create backlog queue "c"`, map[string]int{"a": 3, "b": 3, "c": 3}, time.Minute},
		{"denied", map[string][]error{"b": {fails(relay.Denied, true, "unauthorized")}}, nil, "the right to manage", map[string]int{"a": 1, "b": 1, "c": 0}, 0},
		{"a bad name", map[string][]error{"b": {fails(relay.Invalid, true, "bad request")}}, []string{"a", "c"}, "", map[string]int{"a": 1, "b": 1, "c": 1}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := &administration{queues: []string{"a", "extra"}, fail: tt.fail, tries: make(map[string][]time.Duration), began: time.Now()}
				got, err := relay.EnsureQueues(t.Context(), a, []string{"a", "b", "c"})
				if !slices.Equal(got, tt.want) || (err == nil) != (tt.want != nil) || err != nil && !strings.Contains(err.Error(), tt.text) {
					t.Errorf("got %v, %v, want %v and an error with %q", got, err, tt.want, tt.text)
				}
				if took := time.Since(a.began); took != tt.took {
					t.Errorf("it took %v, want %v", took, tt.took)
				}
				for queue, n := range tt.tries {
					want := []time.Duration{0, 30 * time.Second, time.Minute}[:n]
					if !slices.Equal(a.tries[queue], want) {
						t.Errorf("queue %s was tried after %v, want %v", queue, a.tries[queue], want)
					}
				}
				if !slices.Contains(a.queues, "extra") {
					t.Error("another queue was deleted")
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 45*time.Second)
		defer cancel()
		a := &administration{fail: map[string][]error{"a": {down, down, down}}, tries: make(map[string][]time.Duration), began: time.Now()}
		if got, err := relay.EnsureQueues(ctx, a, []string{"a"}); got != nil || !errors.Is(err, context.DeadlineExceeded) || len(a.tries["a"]) != 2 {
			t.Errorf("got %v, %v after %v, want the context's error after two tries", got, err, a.tries["a"])
		}
	})
}

func TestBacklogQueues(t *testing.T) {
	want := "[contoso/x-servicebus-transfer/0 contoso/x-servicebus-transfer/1]"
	if got := fmt.Sprint(relay.BacklogQueues("contoso", 2)); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
