package memory

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"kennel/internal/storetest"
	"kennel/queue"
)

func TestQueues(t *testing.T) {
	for _, seed := range []uint64{0, 1} {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			queues := NewQueues(&Options{ShuffleSeed: seed})
			storetest.TestQueues(t, queues)
			storetest.TestOutbox(t, queues)
		})
	}
}

func TestQueuesInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewQueues(nil)
		put := func(body string, delay time.Duration) {
			if _, err := q.Put(t.Context(), "work", body, delay); err != nil {
				t.Fatal(err)
			}
		}
		received := func(visibility time.Duration) (bodies []string) {
			messages, err := q.Receive(t.Context(), "work", 32, visibility)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range messages {
				bodies = append(bodies, fmt.Sprint(m.Body, m.DequeueCount))
			}
			return bodies
		}
		put("a", 0)
		put("b", 1500*time.Millisecond) // rounded up to two seconds
		put("c", 0)
		for _, step := range []struct {
			at   time.Duration
			want []string
		}{
			{0, []string{"a1", "c1"}}, // for 10 s
			{2*time.Second - 1, nil},
			{2 * time.Second, []string{"b1"}}, // for 10 s
			{10*time.Second - 1, nil},
			{10 * time.Second, []string{"a2", "c2"}},
			{25 * time.Second, []string{"b2", "a3", "c3"}}, // b became visible first
			{7*24*time.Hour - 1, []string{"a4", "b3", "c4"}},
			{7*24*time.Hour + time.Minute, nil}, // expired
		} {
			time.Sleep(step.at - sinceBubble())
			if got := received(10 * time.Second); !slices.Equal(got, step.want) {
				t.Errorf("after %v received %v, want %v", step.at, got, step.want)
			}
		}
	})
}

// sinceBubble is the time since a synctest bubble began.
func sinceBubble() time.Duration {
	return time.Since(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC))
}

// TestReceiptAfterLease checks that a receipt is valid after its lease until
// another caller receives the message.
func TestReceiptAfterLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewQueues(nil)
		if _, err := q.Put(t.Context(), "work", "a", 0); err != nil {
			t.Fatal(err)
		}
		messages, err := q.Receive(t.Context(), "work", 1, time.Second)
		if err != nil || len(messages) != 1 {
			t.Fatalf("received %v, %v", messages, err)
		}
		time.Sleep(time.Hour)
		if err := q.Delete(t.Context(), "work", messages[0]); err != nil {
			t.Error(err)
		}
		if all := q.All("work"); len(all) != 0 {
			t.Errorf("left: %v", all)
		}
	})
}

func TestShuffle(t *testing.T) {
	order := func(seed uint64) (bodies []string) {
		q := NewQueues(&Options{ShuffleSeed: seed})
		for i := range 20 {
			if _, err := q.Put(t.Context(), "work", fmt.Sprint(i), 0); err != nil {
				t.Fatal(err)
			}
		}
		messages, err := q.Receive(t.Context(), "work", 20, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range messages {
			bodies = append(bodies, m.Body)
		}
		return bodies
	}
	if one, two := order(7), order(7); !slices.Equal(one, two) {
		t.Errorf("seed 7 gave %v, then %v", one, two)
	}
	if one, two := order(7), order(8); slices.Equal(one, two) {
		t.Errorf("seeds 7 and 8 both gave %v", one)
	}
}

// TestReceiptsOfOneReceive checks that messages received together have receipts
// of their own, unlike on Azurite.
func TestReceiptsOfOneReceive(t *testing.T) {
	q := NewQueues(nil)
	for range 2 {
		if _, err := q.Put(t.Context(), "work", "a", 0); err != nil {
			t.Fatal(err)
		}
	}
	messages, err := q.Receive(t.Context(), "work", 2, time.Minute)
	if err != nil || len(messages) != 2 {
		t.Fatalf("received %v, %v", messages, err)
	}
	mixed := messages[0]
	mixed.Receipt = messages[1].Receipt
	if err := q.Delete(t.Context(), "work", mixed); !errors.Is(err, queue.ErrLeaseLost) {
		t.Errorf("delete with the receipt of another message: %v, want %v", err, queue.ErrLeaseLost)
	}
}

func TestCountLags(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := NewQueues(&Options{CountLag: 5 * time.Second})
		counts := func(at time.Duration, want int64) {
			t.Helper()
			time.Sleep(at - sinceBubble())
			if n, err := q.Count(t.Context(), "work"); err != nil || n != want {
				t.Errorf("after %v counted %d, %v, want %d", at, n, err, want)
			}
		}
		var put []queue.Message
		for range 2 {
			m, err := q.Put(t.Context(), "work", "a", 0)
			if err != nil {
				t.Fatal(err)
			}
			put = append(put, m)
			time.Sleep(time.Second)
		}
		counts(5*time.Second-1, 0)
		counts(5*time.Second, 1)
		counts(6*time.Second, 2)
		if err := q.Delete(t.Context(), "work", put[0]); err != nil {
			t.Fatal(err)
		}
		counts(11*time.Second-1, 2)
		counts(11*time.Second, 1)
	})
}
