package storetest

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"kennel/gate"
)

// Gates is a store under test, together with the hands of an outsider who
// reaches past it.
type Gates struct {
	gate.Store
	Set    func(t *testing.T, name, text string)
	Delete func(t *testing.T, name string)
}

// TestGates checks everything that [gate.Store] promises. Each call of
// newStore returns an empty store of which not even a container exists.
func TestGates(t *testing.T, newStore func(t *testing.T) Gates) {
	for _, test := range []struct {
		name string
		run  func(*gateTest)
	}{
		{"Absent", gateAbsent},
		{"Replace", gateReplace},
		{"Create", gateCreate},
		{"CreateTogether", gateCreateTogether},
		{"SeenBefore", gateSeenBefore},
		{"Texts", gateTexts},
		{"LongText", gateLongText},
		{"Names", gateNames},
		{"Outsider", gateOutsider},
		{"DeletedUnderHolder", gateDeletedUnderHolder},
		{"Cancelled", gateCancelled},
		{"Administrators", gateAdministrators},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			test.run(&gateTest{T: t, ctx: ctx, store: newStore(t)})
		})
	}
}

// gateTest is one test with its store.
type gateTest struct {
	*testing.T
	ctx   context.Context
	store Gates
}

func (t *gateTest) load(name string) gate.Flag {
	t.Helper()
	flag, err := t.store.Load(t.ctx, name, "")
	if err != nil {
		t.Fatal(err)
	}
	return flag
}

// replace must succeed, and return what was written under a new version.
func (t *gateTest) replace(name string, old gate.Flag, text string) gate.Flag {
	t.Helper()
	got, err := t.store.Replace(t.ctx, name, old, gate.Flag{Text: text})
	if err != nil {
		t.Fatal(err)
	}
	if got.Text != text || got.Version == "" || got.Version == old.Version {
		t.Fatalf("replace returned %.80q under version %q after %q", got.Text, got.Version, old.Version)
	}
	t.holds(name, got)
	return got
}

func (t *gateTest) holds(name string, want gate.Flag) {
	t.Helper()
	if got := t.load(name); got != want {
		t.Errorf("stored %.80q under %q, want %.80q under %q", got.Text, got.Version, want.Text, want.Version)
	}
}

// unchanged says that replacing old fails with ErrChanged and changes nothing.
func (t *gateTest) unchanged(name string, old gate.Flag) {
	t.Helper()
	before := t.load(name)
	if _, err := t.store.Replace(t.ctx, name, old, gate.Flag{Text: "other"}); !errors.Is(err, gate.ErrChanged) {
		t.Errorf("replace version %q: %v, want %v", old.Version, err, gate.ErrChanged)
	}
	t.holds(name, before)
}

func (t *gateTest) missing(name, seen string) {
	t.Helper()
	if flag, err := t.store.Load(t.ctx, name, seen); !errors.Is(err, gate.ErrNotFound) {
		t.Errorf("load %.80q: %+v, %v, want %v", name, flag, err, gate.ErrNotFound)
	}
}

func gateAbsent(t *gateTest) {
	t.missing("start", "") // without a container
	other := t.replace("other", gate.Flag{}, "{}")
	t.missing("start", "") // with one
	t.missing("start", other.Version)
	if _, err := t.store.Replace(t.ctx, "start", other, gate.Flag{Text: "{}"}); !errors.Is(err, gate.ErrChanged) {
		t.Errorf("replace what is absent: %v, want %v", err, gate.ErrChanged)
	}
	t.missing("start", "")
}

func gateReplace(t *gateTest) {
	first := t.replace("start", gate.Flag{}, "one")
	second := t.replace("start", first, "two")
	t.unchanged("start", first)
	third := t.replace("start", second, "one") // what was there once, under a version of its own
	t.unchanged("start", first)
	t.unchanged("start", second)
	fourth := t.replace("start", third, "one") // the same text is another state
	t.unchanged("start", third)
	if fourth.Version == first.Version || third.Version == first.Version {
		t.Error("a version came twice")
	}
}

func gateCreate(t *gateTest) {
	t.replace("start", gate.Flag{}, "one")
	t.unchanged("start", gate.Flag{})
}

func gateCreateTogether(t *gateTest) {
	const nodes = 16
	var mu sync.Mutex
	var winners []gate.Flag
	var wg sync.WaitGroup
	for i := range nodes {
		wg.Go(func() {
			flag, err := t.store.Replace(t.ctx, "start", gate.Flag{}, gate.Flag{Text: strconv.Itoa(i)})
			if err == nil {
				mu.Lock()
				defer mu.Unlock()
				winners = append(winners, flag)
			} else if !errors.Is(err, gate.ErrChanged) {
				t.Errorf("create: %v, want success or %v", err, gate.ErrChanged)
			}
		})
	}
	wg.Wait()
	if len(winners) != 1 {
		t.Fatalf("%d of %d created the gate, want 1", len(winners), nodes)
	}
	t.holds("start", winners[0])
}

func gateSeenBefore(t *gateTest) {
	first := t.replace("start", gate.Flag{}, "one")
	if _, err := t.store.Load(t.ctx, "start", first.Version); !errors.Is(err, gate.ErrUnchanged) {
		t.Errorf("load what was seen: %v, want %v", err, gate.ErrUnchanged)
	}
	second := t.replace("start", first, "two")
	if got, err := t.store.Load(t.ctx, "start", first.Version); err != nil || got != second {
		t.Errorf("load with a version of before = %+v, %v, want %+v", got, err, second)
	}
	t.store.Set(t.T, "start", "two") // the same text, and yet something has happened
	if got, err := t.store.Load(t.ctx, "start", second.Version); err != nil || got.Text != "two" {
		t.Errorf("load after an outsider = %+v, %v, want what is there", got, err)
	}
	t.store.Delete(t.T, "start")
	t.missing("start", second.Version)
}

func gateTexts(t *gateTest) {
	var flag gate.Flag
	for _, text := range []string{
		"{}",
		"",
		"\ufeff{\n  \"version\": 1\n}\n",
		`{"reason":"ümlaut, 日本, 🐕, \"quotes\" & <tags>"}`,
		"{}\r\n\x00",
		strings.Repeat("a", gate.MaxText),
	} {
		flag = t.replace("start", flag, text)
		t.store.Set(t.T, "start", text)
		if flag = t.load("start"); flag.Text != text {
			t.Errorf("loaded %.80q, want %.80q", flag.Text, text)
		}
	}
	for _, text := range []string{strings.Repeat("a", gate.MaxText+1), "\xff"} {
		_, err := t.store.Replace(t.ctx, "start", flag, gate.Flag{Text: text})
		if err == nil || errors.Is(err, gate.ErrChanged) || errors.Is(err, gate.ErrNotFound) {
			t.Errorf("replace by %d bytes of %.10q: %v, want a refusal of its own", len(text), text, err)
		}
		t.holds("start", flag)
	}
}

func gateLongText(t *gateTest) {
	t.store.Set(t.T, "start", strings.Repeat("\x00", 3*gate.MaxText))
	flag := t.load("start")
	if len(flag.Text) > gate.MaxText {
		t.Errorf("loaded %d bytes, want at most %d", len(flag.Text), gate.MaxText)
	}
	t.replace("start", flag, "{}") // it can be repaired
}

func gateNames(t *gateTest) {
	names := []string{"start", "start-order-processing", "0", strings.Repeat("n", 63)}
	for i, name := range names {
		t.replace(name, gate.Flag{}, strconv.Itoa(i))
	}
	for i, name := range names {
		if got := t.load(name).Text; got != strconv.Itoa(i) {
			t.Errorf("gate %q holds %q, want %d: names are mixed up", name, got, i)
		}
	}
	for _, name := range []string{"", strings.Repeat("n", 1025), "start.", "start/", "\x00", "\xff"} {
		_, err := t.store.Load(t.ctx, name, "")
		if err == nil || errors.Is(err, gate.ErrNotFound) {
			t.Errorf("load %.80q: %v, want a refusal", name, err)
		}
		_, err = t.store.Replace(t.ctx, name, gate.Flag{}, gate.Flag{Text: "{}"})
		if err == nil || errors.Is(err, gate.ErrChanged) {
			t.Errorf("create %.80q: %v, want a refusal", name, err)
		}
	}
}

func gateOutsider(t *gateTest) {
	held := t.replace("start", gate.Flag{}, "one")
	t.store.Set(t.T, "start", "by hand")
	t.unchanged("start", held)
	seen := t.load("start")
	if seen.Text != "by hand" {
		t.Errorf("loaded %q, want what the outsider wrote", seen.Text)
	}
	t.replace("start", seen, "two")
}

func gateDeletedUnderHolder(t *gateTest) {
	held := t.replace("start", gate.Flag{}, "one")
	t.store.Delete(t.T, "start")
	if _, err := t.store.Replace(t.ctx, "start", held, gate.Flag{Text: "two"}); !errors.Is(err, gate.ErrChanged) {
		t.Errorf("replace what was deleted: %v, want %v", err, gate.ErrChanged)
	}
	t.missing("start", held.Version)
	if again := t.replace("start", gate.Flag{}, "one"); again.Version == held.Version {
		t.Errorf("version %q came again", held.Version)
	}
	t.unchanged("start", held)
}

func gateCancelled(t *gateTest) {
	held := t.replace("start", gate.Flag{}, "one")
	ctx, cancel := context.WithCancel(t.ctx)
	cancel()
	if _, err := t.store.Load(ctx, "start", ""); !errors.Is(err, context.Canceled) {
		t.Errorf("load: %v, want %v", err, context.Canceled)
	}
	if _, err := t.store.Replace(ctx, "start", held, gate.Flag{Text: "two"}); !errors.Is(err, context.Canceled) {
		t.Errorf("replace: %v, want %v", err, context.Canceled)
	}
	t.holds("start", held)
}

// Two administrators at once: each release has one winner, and nobody's change
// is forgotten.
func gateAdministrators(t *gateTest) {
	const rounds = 10
	for round := range int64(rounds) {
		for _, release := range []bool{true, false} {
			var mu sync.Mutex
			var winners int
			var wg sync.WaitGroup
			for _, by := range []string{"ann", "bob"} {
				gates, err := gate.New(t.store, nil)
				if err != nil {
					t.Fatal(err)
				}
				wg.Go(func() {
					do := gates.Close
					if release {
						do = gates.Release
					}
					done, err := do(t.ctx, "start", gate.Change{By: by, Reason: "round " + strconv.FormatInt(round, 10)})
					if err != nil || done.State.Generation != round+1 || done.State.Released != release {
						t.Errorf("round %d: %+v, %v", round, done, err)
					}
					mu.Lock()
					defer mu.Unlock()
					if done.Changed {
						winners++
					}
				})
			}
			wg.Wait()
			if winners != 1 {
				t.Errorf("round %d, release %t: %d winners, want 1", round, release, winners)
			}
		}
	}
	gates, err := gate.New(t.store, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := gates.State(t.ctx, "start")
	if err != nil || s.Generation != rounds || s.Released || len(s.History) != 2*rounds {
		t.Errorf("in the end: %+v, %v, want %d releases and closings in the history", s, err, rounds)
	}
	for i, entry := range s.History {
		if want := "round " + strconv.Itoa(i/2); entry.Reason != want {
			t.Errorf("entry %d is for %q, want %q", i, entry.Reason, want)
		}
	}
}
