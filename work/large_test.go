package work

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kennel/internal/storetest"
	"kennel/work/internal/model"
)

// sized is scripted with large parcels.
type sized struct{ *scripted }

func (sized) ParcelItems() int { return LargeParcel }

// TestLargeParcels checks which batches have large parcels: those of a processor
// that allows it, after LargeFrom items, unless a process cannot read them.
func TestLargeParcels(t *testing.T) {
	storetest.OnlyInProve(t)
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, test := range []struct {
			name    string
			is      bool
			read    func(context.Context) bool
			items   int
			parcels int
		}{
			{"below the limit", true, nil, LargeFrom - 1, 200},
			{"above it", true, nil, LargeFrom + 1000, 202},
			{"a processor that does not allow it", false, nil, LargeFrom + 1000, 210},
			{"an older process", true, func(context.Context) bool { return false }, LargeFrom + 1000, 210},
		} {
			s := newSite(t, nil, 0)
			in := s.start(nil, &Options{ReadLarge: test.read})
			if test.is {
				in.base.Processors["scripted"] = sized{s.processor}
			}
			body, items := someLines(test.items)
			b, _, err := in.send("", body)
			if err != nil || b.Parcels != test.parcels {
				t.Errorf("%s: %+v, %v, want %d parcels", test.name, b, err, test.parcels)
			}
			in.drain()
			s.settled([]string{b.ID}, true, items)
		}
	})
}

// adverse is a processor whose results and errors are as long as they can be.
type adverse struct {
	kind  string
	mu    sync.Mutex
	calls map[string]int
}

func (*adverse) Validate(json.RawMessage) error { return nil }
func (*adverse) NewReport(string) Report        { return new(adverseReport) }

// Process returns text that no compression makes shorter.
func (a *adverse) Process(_ context.Context, i Item) (json.RawMessage, error) {
	a.mu.Lock()
	a.calls[i.ID]++
	a.mu.Unlock()
	switch a.kind {
	case "rejected":
		return nil, fmt.Errorf("%w: %s", ErrRejected, noise(model.MaxError, 32))
	case "failed":
		return nil, errors.New(noise(model.MaxError, 32))
	case "mixed":
		if rand.N(2) == 0 {
			return nil, errors.New(noise(model.MaxError, 32))
		}
	}
	return json.RawMessage(`"` + strings.NewReplacer(`"`, "-", `\`, "_").Replace(noise(MaxResult-2, 127)) + `"`), nil
}

// noise returns random ASCII below a limit: control characters if it is 32, which
// JSON escapes.
func noise(n, below int) string {
	b := make([]byte, n)
	for i := range b {
		if b[i] = byte(rand.N(below)); below > 32 {
			b[i] = byte(32 + rand.N(below-32))
		}
	}
	return string(b)
}

type adverseReport struct{ items int }

func (r *adverseReport) Add(Result) error { r.items++; return nil }
func (r *adverseReport) JSON() ([]byte, error) {
	return fmt.Append(nil, r.items), nil
}
func (r *adverseReport) CSV() ([]byte, error) { return r.JSON() }

// TestRowsFit processes large parcels whose results are as long as they can be.
// Each row must fit, each item is processed, and none that is done again.
func TestRowsFit(t *testing.T) {
	storetest.OnlyInProve(t)
	t.Parallel()
	for _, kind := range []string{"done", "rejected", "failed", "mixed"} {
		for _, parallel := range []int{100, 1} {
			synctest.Test(t, func(t *testing.T) {
				s := newSite(t, nil, 0)
				in := s.start(nil, &Options{Parallel: parallel})
				a := &adverse{kind: kind, calls: make(map[string]int)}
				in.base.Processors["scripted"] = a
				var items []string
				for range 2 * LargeParcel {
					id := "é" + strings.Map(func(r rune) rune { return rune("<>&"[r%3]) }, noise(MaxItemID-2, 32)) // which results escape
					items = append(items, `{"id":"`+id+`"}`)
				}
				d, err := in.submit(t.Context(), items, LargeParcel)
				if err != nil {
					t.Fatal(err)
				}
				ctx, stop := context.WithTimeout(t.Context(), time.Hour)
				defer stop()
				var running sync.WaitGroup
				running.Go(func() { in.work(ctx) })
				in.finished(ctx, d.ID)
				stop()
				running.Wait()
				b, err := in.Get(timed(t, time.Minute), d.ID)
				if err != nil || b.State != Done || b.Done+b.Rejected+b.Failed != len(items) {
					t.Fatalf("%s: batch %+v, %v", kind, b, err)
				}
				if len(a.calls) != len(items) {
					t.Errorf("%s: %d of %d items were processed", kind, len(a.calls), len(items))
				}
				for id, n := range a.calls {
					if most := map[string]int{"done": 1, "rejected": 1}[kind]; most > 0 && n > most {
						t.Fatalf("%s: item %q was processed %d times", kind, id, n)
					}
				}
				if report, err := in.Report(timed(t, time.Minute), d.ID, false); err != nil || string(report) != fmt.Sprint(len(items)) {
					t.Errorf("%s: report %s, %v", kind, report, err)
				}
			})
		}
	}
}
