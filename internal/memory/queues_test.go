package memory

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"kennel/channels"
	"kennel/internal/storetest"
	"kennel/queue"
)

func TestQueues(t *testing.T) {
	for _, seed := range []uint64{0, 1} {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			queues := NewQueues(&Options{ShuffleSeed: seed})
			storetest.TestQueues(t, queues)
			storetest.TestOutbox(t, queues, func(name string) channels.Outbox { return NewOutbox(queues, name) })
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
		put("b", 1500*time.Millisecond) // in fact two seconds
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
			{25 * time.Second, []string{"b2", "a3", "c3"}}, // b came back first
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

// A receipt outlives its lease until somebody else receives the message.
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

// Each write, once refused and once done but reported as failed.
func TestQueueFaults(t *testing.T) {
	for _, test := range []struct {
		op             string
		refused, done  int // messages in the queue afterwards
		visibleRefused int
		visibleDone    int
	}{
		{"Put", 1, 2, 0, 1},
		{"Receive", 1, 1, 1, 0},
		{"Update", 1, 1, 0, 1},
		{"Delete", 1, 0, 0, 0},
	} {
		for _, lost := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s refused=%v", test.op, lost), func(t *testing.T) {
				armed := false
				q := NewQueues(&Options{Fate: func(c Call) Fate {
					if armed && c.Op == test.op {
						return Fate{Err: errWire, Lost: lost}
					}
					return Fate{}
				}})
				if _, err := q.Put(t.Context(), "work", "a", 0); err != nil {
					t.Fatal(err)
				}
				var m queue.Message
				if test.op != "Receive" {
					messages, err := q.Receive(t.Context(), "work", 1, time.Hour)
					if err != nil {
						t.Fatal(err)
					}
					m = messages[0]
				}
				armed = true
				var err error
				switch test.op {
				case "Put":
					_, err = q.Put(t.Context(), "work", "b", 0)
				case "Receive":
					_, err = q.Receive(t.Context(), "work", 1, time.Hour)
				case "Update":
					_, err = q.Update(t.Context(), "work", m, 0)
				case "Delete":
					err = q.Delete(t.Context(), "work", m)
				}
				if !errors.Is(err, errWire) {
					t.Errorf("%s: %v, want %v", test.op, err, errWire)
				}
				armed = false
				want, visible := test.done, test.visibleDone
				if lost {
					want, visible = test.refused, test.visibleRefused
				}
				if got := len(q.All("work")); got != want {
					t.Errorf("%d messages are there, want %d", got, want)
				}
				messages, err := q.Receive(t.Context(), "work", 32, time.Hour)
				if err != nil || len(messages) != visible {
					t.Errorf("received %v, %v, want %d", messages, err, visible)
				}
			})
		}
	}
}
