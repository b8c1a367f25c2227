package queues

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kennel/internal/program"
	"kennel/internal/storetest"
)

// TestHandlerKillsItsProcess: a message whose handler ends the process each time
// becomes a dead letter by our count, never by that of the host, and after its
// last word; also if Dead ends the process too.
func TestHandlerKillsItsProcess(t *testing.T) {
	for _, hosted := range []bool{true, false} {
		for _, deadKills := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(nil)
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Hour)
				defer cancel()
				if _, err := w.open(t, storetest.NewProcess(nil), hosted, nil).Send(ctx, "orders", order{N: 1}.text(), 0); err != nil {
					t.Fatal(err)
				}
				calls, words := 0, 0
				for life := 0; life < 60 && len(w.letters(t)) == 0; life++ {
					p := storetest.NewProcess(nil)
					q := w.open(t, p, hosted, nil)
					o := q.declared["orders"]
					o.Work = func(context.Context, []byte) error { calls++; p.Die(); return errBroken }
					o.Dead = func(context.Context, []byte, program.Dead) error {
						if p.Dead() {
							return nil
						}
						words++
						if deadKills {
							p.Die()
						}
						return nil
					}
					until, stop := context.WithTimeout(p.Context(), 3*time.Minute)
					w.live(until, t, p, q)
					stop()
				}
				want, letters := 20, w.letters(t)[1]
				if !hosted {
					want += unrecorded
				}
				if calls != want || words != map[bool]int{false: 1, true: lastWords}[deadKills] || len(letters) != 1 {
					t.Fatalf("hosted %v, Dead kills %v: %d calls, %d last words, dead letters %v", hosted, deadKills, calls, words, letters)
				}
				if r := letters[0].Reason; !strings.Contains(r, "killed") || strings.Contains(r, "Dead did not end") != deadKills || letters[0].Attempts != 20 {
					t.Errorf("hosted %v, Dead kills %v: after %d attempts: %s", hosted, deadKills, letters[0].Attempts, r)
				}
			})
		}
	}
}

// TestLastWordInterrupted: a stop in the last word of a message brings it back to
// its last word, not to another attempt.
func TestLastWordInterrupted(t *testing.T) {
	for _, hosted := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(nil)
			p := storetest.NewProcess(nil)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Hour)
			defer cancel()
			words := 0
			for life := range 4 {
				q := w.open(t, p, hosted, nil)
				if life == 0 {
					if _, err := q.Send(ctx, "orders", order{Kind: "rejected", N: 1}.text(), 0); err != nil {
						t.Fatal(err)
					}
				}
				q.declared["orders"].Dead = func(ctx context.Context, _ []byte, dead program.Dead) error {
					if words++; dead.Reason != "broken" || dead.Attempts != 1 {
						t.Errorf("hosted %v: the last word %d has %+v", hosted, words, dead)
					}
					if life < 3 {
						<-ctx.Done()
					}
					return ctx.Err()
				}
				short, stop := context.WithTimeout(ctx, 30*time.Second)
				w.live(short, t, p, q)
				stop()
			}
			letters := w.letters(t)[1]
			if w.calls[1] != 1 || words != 4 || len(letters) != 1 || letters[0].Reason != "broken" || letters[0].Attempts != 1 {
				t.Errorf("hosted %v: %d calls, %d last words, dead letters %+v", hosted, w.calls[1], words, letters)
			}
		})
	}
}

// TestNewerEnvelope: a message in a form that a later version of this package
// writes waits for a build that reads it, as it is.
func TestNewerEnvelope(t *testing.T) {
	for _, hosted := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(nil)
			p := storetest.NewProcess(nil)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Hour)
			defer cancel()
			q := w.open(t, p, hosted, nil)
			body := fmt.Sprintf(`{"v":2,"id":"a","size":2,"sha256":"%s=","text":"{}"}`, strings.Repeat("a", 43))
			if _, err := w.queues.Put(ctx, "orders", inBase64(body), 0); err != nil {
				t.Fatal(err)
			}
			before := w.queues.Calls()
			hours, stop := context.WithTimeout(ctx, 3*time.Hour)
			defer stop()
			w.live(hours, t, p, q)
			all := w.queues.All("orders")
			if len(all) != 1 || all[0].Body != inBase64(body) || w.calls[0] != 0 || len(q.Problems()) != 1 {
				t.Errorf("hosted %v: %+v, called %d times, problems %v", hosted, all, w.calls[0], q.Problems())
			}
			polls := w.queues.CallsOf("Receive") + w.queues.CallsOf("Count")
			if n := w.queues.Calls() - before - polls; n > 200 {
				t.Errorf("hosted %v: %d requests in 3 hours", hosted, n)
			}
		})
	}
}
