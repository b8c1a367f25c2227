package memory

import (
	"context"
	"testing"
	"time"

	"kennel/internal/cas"
	"kennel/internal/storetest"
)

func TestValues(t *testing.T) {
	storetest.TestValues(t, func(t *testing.T) storetest.Values {
		store := NewValues(nil)
		return storetest.Values{
			Store:  store,
			Set:    func(_ *testing.T, name, text string) { store.Set(name, text) },
			Delete: func(_ *testing.T, name string) { store.Delete(name) },
		}
	})
}

func TestValueMisuse(t *testing.T) {
	for _, test := range []struct {
		name string
		do   func(ctx context.Context, store *Values, held cas.Value)
		want int
	}{
		{"correct", func(ctx context.Context, store *Values, held cas.Value) {
			store.Load(ctx, "start", held.Version)
			store.Replace(ctx, "start", held, cas.Value{Text: "{}"})
			store.Replace(ctx, "start", held, cas.Value{Text: "{}"}) // the same request again
		}, 0},
		{"no deadline", func(_ context.Context, store *Values, _ cas.Value) {
			store.Load(context.Background(), "start", "")
		}, 1},
		{"invented version", func(ctx context.Context, store *Values, _ cas.Value) {
			store.Replace(ctx, "start", cas.Value{Version: "77"}, cas.Value{Text: "{}"})
			store.Load(ctx, "start", "abc")
		}, 2},
	} {
		t.Run(test.name, func(t *testing.T) {
			var problems []string
			store := NewValues(&Options{OnMisuse: func(p string) { problems = append(problems, p) }})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			held, err := store.Replace(ctx, "start", cas.Value{}, cas.Value{Text: "{}"})
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

// TestValuesPast checks that Past returns every state in order, including
// deletions.
func TestValuesPast(t *testing.T) {
	store := NewValues(nil)
	store.Set("start", "one")
	store.Set("other", "x")
	store.Set("start", "two")
	store.Delete("start")
	past := store.Past("start")
	if len(past) != 3 || past[0].Text != "one" || past[1].Text != "two" || past[2].Version != "" {
		t.Errorf("past is %+v, want one, two and its deletion", past)
	}
}
