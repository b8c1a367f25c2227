package memory

import (
	"context"
	"testing"
	"time"

	"kennel/gate"
	"kennel/internal/storetest"
)

func TestGates(t *testing.T) {
	storetest.TestGates(t, func(t *testing.T) storetest.Gates {
		store := NewGates(nil)
		return storetest.Gates{
			Store:  store,
			Set:    func(_ *testing.T, name, text string) { store.Set(name, text) },
			Delete: func(_ *testing.T, name string) { store.Delete(name) },
		}
	})
}

func TestGateMisuse(t *testing.T) {
	for _, test := range []struct {
		name string
		do   func(ctx context.Context, store *Gates, held gate.Flag)
		want int
	}{
		{"correct", func(ctx context.Context, store *Gates, held gate.Flag) {
			store.Load(ctx, "start", held.Version)
			store.Replace(ctx, "start", held, gate.Flag{Text: "{}"})
			store.Replace(ctx, "start", held, gate.Flag{Text: "{}"}) // the same request again
		}, 0},
		{"no deadline", func(_ context.Context, store *Gates, _ gate.Flag) {
			store.Load(context.Background(), "start", "")
		}, 1},
		{"invented version", func(ctx context.Context, store *Gates, _ gate.Flag) {
			store.Replace(ctx, "start", gate.Flag{Version: "77"}, gate.Flag{Text: "{}"})
			store.Load(ctx, "start", "abc")
		}, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			var problems []string
			store := NewGates(&Options{OnMisuse: func(p string) { problems = append(problems, p) }})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			held, err := store.Replace(ctx, "start", gate.Flag{}, gate.Flag{Text: "{}"})
			if err != nil {
				t.Fatal(err)
			}
			test.do(ctx, store, held)
			if len(problems) != test.want {
				t.Errorf("reported %q, want %d problems", problems, test.want)
			}
		})
	}
}

// TestGatesPast checks that Past returns every state in order, including
// deletions.
func TestGatesPast(t *testing.T) {
	store := NewGates(nil)
	store.Set("start", "one")
	store.Set("other", "x")
	store.Set("start", "two")
	store.Delete("start")
	past := store.Past("start")
	if len(past) != 3 || past[0].Text != "one" || past[1].Text != "two" || past[2].Version != "" {
		t.Errorf("past is %+v, want one, two and its deletion", past)
	}
}
