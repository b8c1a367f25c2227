package parts

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kennel/gate"
	"kennel/internal/api"
	"kennel/internal/apptest"
	"kennel/internal/customhandler"
	"kennel/internal/edge"
	"kennel/internal/instances"
	"kennel/internal/memory"
)

// TestGateWaiters: the list has the waiters of all live instances, and those of
// its own if the others are not known.
func TestGateWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fails atomic.Bool
		rows := memory.NewTable(&memory.TableOptions{Options: memory.Options{Fault: func(memory.Call) memory.Fault {
			if fails.Load() {
				return memory.Fault{Err: errors.New("connection reset")}
			}
			return memory.Fault{}
		}}})
		flags := memory.NewValues(nil)
		gates, err1 := gate.New(flags, nil)
		log := slog.New(slog.DiscardHandler)
		host, err2 := customhandler.New(&customhandler.Options{Log: log})
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		self := membersOf(rows, instances.Functions, log)
		edge.ServeRoutes(host, api.GateResource{Gates: gates, Store: listable{flags}, Members: self}.Routes())
		ctx, stop := contextOf(t)
		defer stop()
		go gates.Run(ctx)
		if _, err := gates.Release(ctx, "hounds", gate.Change{By: "ann"}); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			go gates.Wait(ctx, "hounds", gate.MaxGeneration, gate.MaxWait)
		}
		other := func(waiters int) (kill func()) {
			jobs := []job{{facts: func(r *instances.Report) {
				instances.GateSection.Add(r, []instances.Gate{{Name: "hounds", Waiters: waiters}, {Name: "others", Waiters: 1000}})
			}}}
			m := membersOf(rows, instances.Functions, log, jobs...)
			ctx, kill := contextOf(t)
			go instances.NewReporter(m.Self, rows, log).Run(ctx)
			return kill
		}
		kill := other(30)
		defer other(500)()
		expect := func(step string, waiters int, partial bool) {
			t.Helper()
			w := apptest.ServeDescribed(t, host, httptest.NewRequestWithContext(t.Context(), "GET", "/api/gates", nil), "")
			var list api.GateList
			err := json.Unmarshal(w.Body.Bytes(), &list)
			if err != nil || w.Code != 200 || list.Partial != partial || len(list.Items) != 1 || list.Items[0].Gate != "hounds" || list.Items[0].Waiters != waiters {
				t.Errorf("%s: %d %s, want %d waiters, partial: %t", step, w.Code, w.Body, waiters, partial)
			}
		}
		// expectAt checks who waits where: the waiters of the instances, without
		// their names.
		expectAt := func(step, gate string, partial bool, waiters ...int) {
			t.Helper()
			w := apptest.ServeDescribed(t, host, httptest.NewRequestWithContext(t.Context(), "GET", "/api/gates/"+gate+"/waiters", nil), "")
			var list api.WaiterList
			err := json.Unmarshal(w.Body.Bytes(), &list)
			got := []int{}
			for _, item := range list.Items {
				got = append(got, item.Waiters)
				if own := item.Instance == self.Name(); item.Instance == "" || own != (item.Waiters == 2) {
					t.Errorf("%s: %s: an instance without a name, or %s with the waiters of another one", step, w.Body, self.Name())
				}
			}
			if err != nil || w.Code != 200 || list.Partial != partial || !slices.Equal(got, append([]int{}, waiters...)) {
				t.Errorf("%s: %d %s, want %d waiters, partial: %t", step, w.Code, w.Body, waiters, partial)
			}
		}
		time.Sleep(10 * time.Second)
		expect("three instances", 532, false)
		expectAt("three instances", "hounds", false, 500, 30, 2)
		expectAt("a gate without a state", "others", false, 1000, 1000)
		expectAt("a gate without waiters", "cats", false)
		kill()
		time.Sleep(instances.LiveFor + time.Minute)
		expect("one was killed", 502, false)
		expectAt("one was killed", "hounds", false, 500, 2)
		fails.Store(true)
		expect("no table", 2, true)
		expectAt("no table", "hounds", true, 2)
		flags.Delete("hounds")
		for query, want := range map[string]string{"": `{"items":[],`, "?continuation=invalid": `{"error":{"code":"bad_continuation"`} {
			w := apptest.ServeDescribed(t, host, httptest.NewRequestWithContext(t.Context(), "GET", "/api/gates"+query, nil), "")
			if !strings.HasPrefix(w.Body.String(), want) {
				t.Errorf("no gate, %q: %d %s, want %s", query, w.Code, w.Body, want)
			}
		}
		synctest.Wait()
	})
}
