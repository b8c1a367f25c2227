package parts

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kennel/ids"
	"kennel/internal/api"
	"kennel/internal/apptest"
	"kennel/internal/customhandler"
	"kennel/internal/edge"
	"kennel/internal/instances"
	"kennel/internal/memory"
	"kennel/internal/observe"
	"kennel/internal/table"
)

// sequenceApp serves sequences of a store in memory, as a process of an app
// whose instance table can fail.
type sequenceApp struct {
	*observe.Members
	host      *customhandler.App
	sequences *ids.Set
	rows      *memory.Table
	fails     atomic.Bool // the table
}

func newSequenceApp(t *testing.T, stored *memory.Sequences, withTable bool) *sequenceApp {
	t.Helper()
	a := &sequenceApp{}
	a.rows = memory.NewTable(&memory.TableOptions{Options: memory.Options{Fault: func(memory.Call) memory.Fault {
		if a.fails.Load() {
			return memory.Fault{Err: errors.New("connection reset")}
		}
		return memory.Fault{}
	}}})
	options := &ids.Options{}
	if withTable {
		options.Reported = func(ctx context.Context) (map[string][]ids.Reported, error) {
			return reportedSequences(a.Members, a.Log)(ctx)
		}
	}
	sequences, err1 := ids.NewSet(stored, options)
	host, err2 := customhandler.New(&customhandler.Options{Log: slog.New(slog.DiscardHandler)})
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	a.sequences, a.host = sequences, host
	log := slog.New(slog.DiscardHandler)
	a.Members = membersOf(a.rows, instances.Functions, log)
	if !withTable {
		a.Members.Rows = nil
	}
	edge.ServeRoutes(host, api.SequenceResource{Store: readable{stored}, Sequences: sequences, Members: a.Members, Allowed: []string{"*"}, Log: log}.Routes())
	t.Cleanup(func() { sequences.Close(t.Context()) })
	return a
}

// other reports another process of the app, until the function that it returns
// kills it.
func (a *sequenceApp) other(t *testing.T, used ...instances.Sequence) (name string, kill func()) {
	t.Helper()
	jobs := []job{{facts: func(r *instances.Report) { instances.SequenceSection.Add(r, used) }}}
	m := membersOf(a.rows, instances.Functions, a.Log, jobs...)
	reporter := instances.NewReporter(m.Self, a.rows, a.Log)
	ctx, kill := contextOf(t)
	go reporter.Run(ctx)
	return m.Name(), kill
}

func (a *sequenceApp) call(t *testing.T, method, path, body string, answer any) (status int, text string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, "/api/sequences"+path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	w := apptest.ServeDescribed(t, a.host, r, body)
	text = w.Body.String()
	if err := json.Unmarshal(w.Body.Bytes(), answer); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return w.Code, text
}

// TestExactNumbers: a sequence without numbers left shows a number that every
// JSON reader keeps, also one whose number was written by hand.
func TestExactNumbers(t *testing.T) {
	stored := memory.NewSequences(nil)
	a := newSequenceApp(t, stored, true)
	for sequence, text := range map[string]string{"exhausted": "9007199254740992", "by-hand": "9223372036854775807"} {
		if _, err := stored.Replace(t.Context(), sequence, ids.Value{}, ids.Value{Text: text}); err != nil {
			t.Fatal(err)
		}
		const want = `"next":9007199254740992,`
		if status, text := a.call(t, "GET", "/"+sequence, "", &api.SequenceState{}); status != 200 || !strings.Contains(text, want) {
			t.Errorf("%d %s, want %s", status, text, want)
		}
	}
}

// TestSequencesOfOtherInstances: a sequence shows all instances that use it, and
// the list their sums.
func TestSequencesOfOtherInstances(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newSequenceApp(t, memory.NewSequences(nil), true)
		if _, err := a.sequences.Next(t.Context(), "orders"); err != nil {
			t.Fatal(err)
		}
		at := time.Now().UTC()
		b, killB := a.other(t, instances.Sequence{Name: "orders", Available: 90, Highest: 7000, PerSecond: 3, Lost: 4},
			instances.Sequence{Name: "bills", Highest: 9000, PerSecond: 100, Lost: 100})
		c, killC := a.other(t, instances.Sequence{Name: "orders", Highest: 8000, PerSecond: 1.5, Lost: 2, LastError: "reset", LastErrorAt: at})
		defer killC()
		time.Sleep(10 * time.Second)
		var state api.SequenceState
		status, text := a.call(t, "GET", "/orders", "", &state)
		found := make(map[string]api.SequenceInstance)
		for _, i := range state.Instances {
			found[i.Instance] = i
		}
		if status != 200 || state.Partial || len(found) != 3 || found[a.Name()].Highest != 10 || found[b].Available != 90 ||
			found[b].Seconds == nil || *found[b].Seconds != 30 || found[c].Highest != 8000 || found[c].LastError != "reset" || !found[c].LastErrorAt.Equal(at) {
			t.Errorf("%d %s, want what all three instances have", status, text)
		}
		var list api.SequenceList
		status, text = a.call(t, "GET", "", "", &list)
		if status != 200 || list.Partial || len(list.Items) != 1 || list.Items[0].Lost != 6 || list.Items[0].PerSecond < 4.5 || list.Items[0].PerSecond > 10 {
			t.Errorf("%d %s, want the sums", status, text)
		}

		killB()
		time.Sleep(instances.LiveFor + time.Minute)
		var fewer api.SequenceState
		if status, text = a.call(t, "GET", "/orders", "", &fewer); len(fewer.Instances) != 2 {
			t.Errorf("%d %s, want no killed instance", status, text)
		}

		a.fails.Store(true)
		var own api.SequenceState
		status, text = a.call(t, "GET", "/orders", "", &own)
		if status != 200 || !own.Partial || len(own.Instances) != 1 || own.Instances[0].Instance != a.Name() {
			t.Errorf("%d %s, want own values and partial", status, text)
		}
		var ownList api.SequenceList
		if status, text = a.call(t, "GET", "", "", &ownList); status != 200 || !ownList.Partial || ownList.Items[0].Lost != 0 {
			t.Errorf("%d %s, want own values and partial", status, text)
		}
		synctest.Wait()
	})
}

// TestRaiseBelowOtherInstances: a raise is rejected if another instance has
// reserved higher numbers, or if that is not known.
func TestRaiseBelowOtherInstances(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newSequenceApp(t, memory.NewSequences(nil), true)
		b, killB := a.other(t, instances.Sequence{Name: "orders", Highest: 7000}, instances.Sequence{Name: "bills", Highest: 90_000})
		time.Sleep(10 * time.Second)
		raise := func(body string, want int, text string) {
			t.Helper()
			var answer api.RaisedState
			if status, got := a.call(t, "POST", "/orders/raise", body, &answer); status != want || !strings.Contains(got, text) {
				t.Errorf("%s: %d %s, want %d with %s", body, status, got, want, text)
			}
		}
		_, killC := a.other(t, instances.Sequence{Name: "orders", Highest: 6999})
		time.Sleep(10 * time.Second)
		raise(`{"atLeast":7000}`, 409, b+" has reserved numbers up to 7000. Raise the sequence to at least 7001")
		raise(`{"atLeast":6000}`, 409, b) // the highest, not that of another
		killC()
		killB()
		time.Sleep(12 * time.Hour)
		raise(`{"atLeast":7000}`, 409, "raise_too_low") // it may have issued them before it was killed
		a.fails.Store(true)
		raise(`{"atLeast":7001}`, 503, "instances_unknown")
		raise(`{"atLeast":6000,"force":true}`, 200, `"partial":true`)
		raise(`{"atLeast":5000}`, 200, `"changed":false`) // there is nothing to check
		a.fails.Store(false)
		raise(`{"atLeast":6001}`, 409, "raise_too_low")
		row := table.Row{Partition: "instances", Key: "newer", Values: map[string]string{"format": "3"}}
		if _, err := a.rows.Submit(t.Context(), table.Write{Verb: table.Upsert, Row: row}); err != nil {
			t.Fatal(err)
		}
		raise(`{"atLeast":7001}`, 503, "instances_unknown") // a newer build may have reserved more
		raise(`{"atLeast":5000}`, 200, `"changed":false`)
		time.Sleep(instances.LiveFor + time.Second)
		raise(`{"atLeast":7001}`, 200, `"changed":true`)

		alone := newSequenceApp(t, memory.NewSequences(nil), false)
		var answer api.RaisedState
		if status, text := alone.call(t, "POST", "/orders/raise", `{"atLeast":7}`, &answer); status != 200 || !answer.Changed || !answer.Partial {
			t.Errorf("without tables: %d %s, want it raised", status, text)
		}
	})
}

// TestRaiseWhileNumbersAreReserved: a raise that comes too late to change
// anything is no error, although this instance reserves higher numbers while the
// raise is checked.
func TestRaiseWhileNumbersAreReserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var isSlow atomic.Bool // the next read of a stored number
		a := newSequenceApp(t, memory.NewSequences(&memory.Options{Fault: func(c memory.Call) memory.Fault {
			if c.Op == "Load" && isSlow.CompareAndSwap(true, false) {
				return memory.Fault{Back: time.Second}
			}
			return memory.Fault{}
		}}), true)
		draw := func(count int) {
			if _, err := a.sequences.Lease(t.Context(), "orders", count); err != nil {
				t.Error(err)
			}
		}
		draw(1)
		isSlow.Store(true)
		time.AfterFunc(time.Second/2, func() { draw(5000) })
		var answer api.RaisedState
		if status, text := a.call(t, "POST", "/orders/raise", `{"atLeast":3000}`, &answer); status != 200 || answer.Changed || answer.Next <= 5000 {
			t.Errorf("%d %s, want that nothing changed", status, text)
		}
	})
}

// A process that starts after an older copy was restored refuses below what the
// row of another one shows, and a raise above it repairs that.
func TestNumbersBelowARow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newSequenceApp(t, memory.NewSequences(nil), true)
		_, kill := a.other(t, instances.Sequence{Name: "orders", Highest: 7000, Writer: "OTHER", Serial: 9, End: 7001})
		defer kill()
		time.Sleep(10 * time.Second)
		if status, text := a.call(t, "POST", "/orders/next", "", new(any)); status != 500 || !strings.Contains(text, "sequence_corrupt") {
			t.Errorf("%d %s, want sequence_corrupt", status, text)
		}
		if status, text := a.call(t, "POST", "/orders/raise", `{"atLeast":7001}`, new(any)); status != 200 {
			t.Errorf("raise: %d %s", status, text)
		}
		if status, text := a.call(t, "POST", "/orders/next", "", new(any)); status != 200 || !strings.Contains(text, `"first":7001`) {
			t.Errorf("%d %s, want 7001", status, text)
		}
	})
}

// TestRepairInStatus: the status names, for an unusable sequence, a number above
// all that instances have reported, also one that was killed.
func TestRepairInStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rows := memory.NewTable(nil)
		m := newFakeApp(t, rows, false)
		start := func(name string, highest int64) (kill context.CancelFunc) {
			self := instances.NewSelf(instances.Process{Instance: name, Kind: instances.Functions, StartedAt: time.Now()}, func() []instances.Problem { return nil }, func(r *instances.Report) {
				instances.SequenceSection.Add(r, []instances.Sequence{{Name: "bills", Highest: 9999}, {Name: "orders", Highest: highest}})
			})
			ctx, kill := contextOf(t)
			go instances.NewReporter(self, rows, m.Log).Run(ctx)
			return kill
		}
		start("a", 2000)
		kill := start("b", 3000)
		start("c", 1000)
		time.Sleep(10 * time.Second)
		m.has(instances.Problem{Code: instances.SequenceMissing, Subject: "orders", Since: time.Now(), Count: 1},
			instances.Problem{Code: instances.SequenceCorrupt, Subject: "unknown", Since: time.Now(), Count: 1})
		check := func(want int64) {
			t.Helper()
			help := make(map[string]string)
			for _, p := range m.status(t).Problems {
				help[p.Subject] = p.Help
			}
			if want := instances.Help(instances.SequenceMissing) + " " + observe.RepairOf("orders", want); help["orders"] != want {
				t.Errorf("%q, want %q", help["orders"], want)
			}
			if want := instances.Help(instances.SequenceCorrupt); help["unknown"] != want {
				t.Errorf("%q, want %q", help["unknown"], want)
			}
		}
		check(3000)
		kill()
		time.Sleep(instances.LiveFor + time.Second)
		check(3000)
		start("d", 4000)
		time.Sleep(10 * time.Second)
		check(4000)
	})
}
