package deadletters_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"kennel/deadletters"
	"kennel/internal/azure"
	"kennel/internal/storetest"
	"kennel/internal/table"
	"kennel/queue"
)

// TestStorage redrives a letter of each form on storage.
func TestStorage(t *testing.T) {
	storetest.OnlyInProve(t)
	t.Parallel()
	account := azure.Account{ConnectionString: storetest.Storage(t).ConnectionString()}
	queues, err := account.OpenQueues(nil)
	if err != nil {
		t.Fatal(err)
	}
	tables, err := account.OpenTables(nil)
	if err != nil {
		t.Fatal(err)
	}
	blobs, err := account.OpenBlobs(nil)
	if err != nil {
		t.Fatal(err)
	}
	name := storetest.Name()
	rows, err := azure.NewTable(tables, strings.ReplaceAll(name, "-", ""))
	if err != nil {
		t.Fatal(err)
	}
	repeated, err := table.New(rows)
	if err != nil {
		t.Fatal(err)
	}
	claims, err := queue.NewClaims(repeated, azure.NewContainer(blobs, name))
	if err != nil {
		t.Fatal(err)
	}
	l, err := deadletters.New(queues, &deadletters.Options{Claims: func(string) (*queue.Claims, error) { return claims, nil }})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, packs: claims}
	put := func(name, body string) {
		if _, err := queues.Put(t.Context(), name, body, 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := queues.Clear(t.Context(), source); err != nil {
		t.Fatal(err)
	}
	put(source, "first")
	want := []string{"first"}
	for _, f := range w.forms(0) {
		put(poison, f.stored)
		want = append(want, f.original)
	}
	before, err := l.Front(t.Context(), poison)
	if err != nil || len(before.Items) != len(want)-1 || before.More {
		t.Errorf("listed %d, more %v, %v", len(before.Items), before.More, err)
	}
	for _, item := range before.Items {
		if item.Problem != "" || item.Body == "" || time.Since(item.InsertedAt).Abs() > time.Hour {
			t.Errorf("%+.300v", item)
		}
	}
	r, err := l.Redrive(t.Context(), poison, all)
	if err != nil || r.Moved != len(want)-1 || len(r.Left) > 0 || time.Since(r.Before).Abs() > time.Hour {
		t.Errorf("%+v, %v", r, err)
	}
	messages, err := queues.Receive(t.Context(), source, 32, time.Minute)
	var got []string
	for _, m := range messages {
		got = append(got, m.Body)
	}
	if err != nil || !slices.Equal(sorted(got...), sorted(want...)) {
		t.Errorf("received %d messages, %v, want %d as they were", len(got), err, len(want))
	}
}

// BenchmarkAzurite redrives 2,000 letters, and as many with a loop that receives
// 32, puts and deletes them, as many at the same time. They take turns on an
// Azurite of their own, which has 500 letters in each round: its time for a
// request grows with all messages of the account.
func BenchmarkAzurite(b *testing.B) {
	const portion, rounds = 250, 8
	queues, err := azure.Account{ConnectionString: storetest.OwnStorage(b).ConnectionString()}.OpenQueues(nil)
	if err != nil {
		b.Fatal(err)
	}
	store := &watched{account: account{queues, queues, queues}}
	l, err := deadletters.New(store, nil)
	if err != nil {
		b.Fatal(err)
	}
	ours := func() int {
		r, err := l.Redrive(b.Context(), poison, deadletters.Selection{All: true, Limit: portion})
		if err != nil {
			b.Fatal(err)
		}
		return r.Moved
	}
	bare := func() int { return redriveBare(b, queues, portion) }
	timed := func(redrive func() int) time.Duration {
		began := time.Now()
		if moved := redrive(); moved != portion {
			b.Fatalf("moved %d, want %d", moved, portion)
		}
		return time.Since(began)
	}
	for b.Loop() {
		var bodies []string
		for i := range 2 * portion {
			d := queue.DeadLetter{Queue: source, Message: fmt.Sprint(i), Reason: reason, At: time.Now(), Text: "text"}
			bodies = append(bodies, d.Encode())
		}
		var ratios, rates []float64
		for i := range rounds {
			putAll(b, queues, source, bodies[:1])
			putAll(b, queues, poison, bodies)
			time.Sleep(time.Second) // so that they are from an earlier second
			var a, c time.Duration
			if i%2 == 0 {
				a, c = timed(ours), timed(bare)
			} else {
				c, a = timed(bare), timed(ours)
			}
			if err := queues.Clear(b.Context(), source); err != nil {
				b.Fatal(err)
			}
			ratios = append(ratios, float64(c)/float64(a))
			rates = append(rates, portion/a.Seconds())
		}
		slices.Sort(ratios)
		slices.Sort(rates)
		b.Logf("figure: dead letters redriven on Azurite (%d, %.0f/s here) | %.2f × the rate of a bare loop | ≥ 0.8 ×", portion*rounds, rates[rounds/2], ratios[rounds/2])
		b.Logf("figure: dead letters received and not deleted on Azurite, at the same time | %d | ≤ 500", store.maxOut.Load())
	}
}

func putAll(b *testing.B, queues queue.Putter, name string, bodies []string) {
	b.Helper()
	var putting errgroup.Group
	putting.SetLimit(32)
	for _, body := range bodies {
		putting.Go(func() error {
			_, err := queues.Put(b.Context(), name, body, 0)
			return err
		})
	}
	if err := putting.Wait(); err != nil {
		b.Fatal(err)
	}
}

// redriveBare redrives so many letters without identities, retries and limits.
func redriveBare(b *testing.B, queues queue.Store, letters int) (moved int) {
	var moving errgroup.Group
	moving.SetLimit(32)
	for moved < letters {
		messages, err := queues.Receive(b.Context(), poison, min(queue.MaxReceive, letters-moved), time.Minute)
		if err != nil {
			b.Fatal(err)
		}
		moved += len(messages)
		for _, m := range messages {
			moving.Go(func() error {
				d, err := queue.ReadDeadLetter(m.Body)
				if err == nil {
					_, err = queues.Put(b.Context(), source, d.Text, 0)
				}
				if err == nil {
					err = queues.Delete(b.Context(), poison, m)
				}
				return err
			})
		}
	}
	if err := moving.Wait(); err != nil {
		b.Fatal(err)
	}
	return moved
}
