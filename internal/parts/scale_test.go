package parts

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kennel/internal/api"
	"kennel/internal/apptest"
	"kennel/internal/config"
	"kennel/internal/cost"
	"kennel/internal/customhandler"
	"kennel/internal/edge"
	"kennel/internal/instances"
	"kennel/internal/memory"
	"kennel/internal/names"
	"kennel/internal/observe"
	scalecheck "kennel/internal/scale/check"
	"kennel/internal/worker"
	"kennel/queue"
)

// TestScale: a check samples the queues of all jobs once, for the status as
// well, signals the waiting ones, and the routes return what it found.
func TestScale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rows := memory.NewTable(nil)
		log := slog.New(slog.DiscardHandler)
		var woken []string
		var down error
		jobs := []job{
			{
				facts: func(r *instances.Report) {
					instances.RunningSection.Add(r, map[string]int64{"work-0": 4})
					instances.WorkSection.Add(r, map[string]instances.Work{"work-0": {Done: int64(time.Now().Second())}})
				},
				sample: func(context.Context) (map[string]instances.QueueSample, error) {
					return map[string]instances.QueueSample{"work-0": {At: time.Now(), Ready: 3000, OldestSeconds: 30}, "work-1": {At: time.Now(), Ready: 5, Held: true}}, nil
				},
				wake: func(queue string) { woken = append(woken, queue) },
			},
			{
				sample: func(context.Context) (map[string]instances.QueueSample, error) {
					return map[string]instances.QueueSample{"cleanup": {At: time.Now()}}, down
				},
			},
		}
		m := membersOf(rows, instances.Functions, log, jobs...)
		s, err1 := newScalingOn(config.Config{}, scaleStores{memory.NewTable(nil), memory.NewContainer(nil)}, m, log)
		host, err2 := customhandler.New(&customhandler.Options{Log: log})
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		edge.ServeRoutes(host, s.Routes())
		call := func(method, path, body string, status int) string {
			t.Helper()
			r := httptest.NewRequestWithContext(t.Context(), method, "/api/scale"+path, strings.NewReader(body))
			if body != "" {
				r.Header.Set("Content-Type", "application/json")
			}
			w := apptest.ServeDescribed(t, host, r, body)
			if w.Code != status {
				t.Errorf("%s %s %s: %d %s, want %d", method, path, body, w.Code, w.Body, status)
			}
			return w.Body.String()
		}
		call("GET", "", "", 404)
		if got := call("GET", "/history", "", 200); got != "{\"items\":[]}\n" {
			t.Errorf("history before the first check: %s", got)
		}
		for range 3 {
			if ran, err := s.Check.Run(t.Context()); !ran || err != nil {
				t.Fatalf("ran %t, %v", ran, err)
			}
			time.Sleep(time.Minute)
		}
		var latest scalecheck.Record
		if err := json.Unmarshal([]byte(call("GET", "", "", 200)), &latest); err != nil {
			t.Fatal(err)
		}
		if latest.Running != 1 || len(latest.Samples) != 3 || latest.Samples[1].Queue != "work-0" || latest.Samples[1].Working != 4 || !latest.Samples[2].Held || *latest.Advice[0].Instances < 1 {
			t.Errorf("%+v", latest)
		}
		if got := strings.Join(woken, " "); got != "work-0 work-0 work-0" {
			t.Errorf("signalled %q, want the queue that waits and is not held, each time", got)
		}
		if len(m.Samples()) != 3 {
			t.Errorf("samples %v, want those of the check", m.Samples())
		}
		from := latest.At.Format(time.RFC3339)
		if got := call("GET", "/history?from="+from, "", 200); strings.Count(got, `"at"`) != 1 || strings.Contains(got, "continuation") {
			t.Errorf("history from %s: %s", from, got)
		}
		if got := call("GET", "/history?top=2&to="+from, "", 200); strings.Count(got, `"at"`) != 2 {
			t.Errorf("history to %s: %s", from, got)
		}
		call("GET", "/history?from=today", "", 400)
		call("GET", "/history?continuation=x", "", 400)

		const valid, hole = `{"version":1,"depth":[{"from":0,"below":50,"hands":8},{"from":50,"hands":16}]}`, `{"version":1,"depth":[{"from":0,"below":50,"hands":8},{"from":100,"hands":16}]}`
		before := call("GET", "/rules", "", 200)
		if got := call("PUT", "/rules", hole, 400); !strings.Contains(got, `"bad_rules"`) || !strings.Contains(got, `"items":[{"row":2,"member":"depth","message":"from is 100, which leaves a hole after row 1, which ends at 50"}]`) {
			t.Errorf("rules with a hole: %s", got)
		}
		call("PUT", "/rules", "{", 400)
		if got := call("GET", "/rules", "", 200); got != before {
			t.Errorf("rules %s after invalid ones, want %s", got, before)
		}
		checked := call("PUT", "/rules?dryRun=true", valid, 200)
		if got := call("GET", "/rules", "", 200); got != before {
			t.Errorf("rules %s after a dry run, want %s", got, before)
		}
		call("PUT", "/rules?dryRun=true", hole, 400)
		call("PUT", "/rules?dryRun=1", valid, 400)
		stored := call("PUT", "/rules?dryRun=false", valid, 200)
		if checked != stored {
			t.Errorf("rules %s of a dry run, and %s when they were stored", checked, stored)
		}
		if got := call("GET", "/rules", "", 200); got != stored || !strings.Contains(got, `"below":50`) || !strings.Contains(got, `"coolDown":"4m"`) {
			t.Errorf("rules %s, want those that were stored, %s", got, stored)
		}

		down = errors.New("queues are down")
		if ran, err := s.Check.Run(t.Context()); ran || err == nil {
			t.Errorf("ran %t, %v without the queues", ran, err)
		}
	})
}

// TestScaleWithoutTables: an app without tables does not check.
func TestScaleWithoutTables(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	host, err := customhandler.New(&customhandler.Options{Log: log})
	if err != nil {
		t.Fatal(err)
	}
	s := api.ScaleResource{Off: errors.New("no tables")}
	edge.ServeRoutes(host, s.Routes())
	w := apptest.ServeDescribed(t, host, httptest.NewRequestWithContext(t.Context(), "GET", "/api/scale", nil), "")
	if w.Code != 501 || !strings.Contains(w.Body.String(), "scale_off") {
		t.Errorf("%d %s, want 501", w.Code, w.Body)
	}
}

// TestWake: a check signals work whose signal was lost.
func TestWake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		signals := memory.NewQueueSignals(nil)
		queues := memory.NewQueues(nil)
		f := newFakeWorker(t, queues, memory.NewTable(nil), signals)
		time.Sleep(10 * time.Minute) // it sleeps now
		deleted := f.channel(t, "news")
		f.put(t, worker.InBase64(apptest.DeletionOf(deleted))) // without a signal
		publisher, err := queue.NewPublisher(queues, &queue.PublisherOptions{Signals: signals})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go publisher.Run(ctx)
		c := &channelWork{signals: publisher, queues: queues, letters: &observe.LetterCount{Queue: names.CleanupQueue}}
		s, err := newScalingOn(config.Config{}, scaleStores{memory.NewTable(nil), memory.NewContainer(nil)},
			membersOf(f.rows, instances.Functions, slog.New(slog.DiscardHandler), job{sample: c.Sample, wake: c.Wake}), slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		if ran, err := s.Check.Run(t.Context()); !ran || err != nil {
			t.Fatalf("ran %t, %v", ran, err)
		}
		time.Sleep(20 * time.Second)
		if n := len(queues.All(names.CleanupQueue)); n != 0 {
			t.Errorf("%d messages are left 20 s after the check", n)
		}
		f.end(t)
	})
}

// TestProblemsAreLogged: a check logs each problem of the app once, with what an
// alert needs.
func TestProblemsAreLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dead := instances.Problem{Code: instances.DeadLetters, Subject: "work-0", What: "3 messages.", Since: time.Now(), Count: 3}
		late := instances.Problem{Code: instances.BatchLate, What: "2 batches.", Since: time.Now(), Count: 1}
		rows := memory.NewTable(nil)
		ofProcess := func(log *slog.Logger, problems ...instances.Problem) *observe.Members {
			return membersOf(rows, instances.Functions, log, job{problems: func() []instances.Problem { return problems }})
		}
		other := ofProcess(slog.New(slog.DiscardHandler), dead, late)
		ctx, stop := context.WithCancel(t.Context())
		var reporting sync.WaitGroup
		reporting.Go(func() { _ = reportMembers(other).Run(ctx) })
		time.Sleep(time.Minute)
		stop()
		reporting.Wait()
		var text bytes.Buffer
		log := slog.New(slog.NewJSONHandler(&text, nil))
		m := ofProcess(log, dead)
		s, err := newScalingOn(config.Config{}, scaleStores{memory.NewTable(nil), memory.NewContainer(nil)}, m, log)
		if err != nil {
			t.Fatal(err)
		}
		if ran, err := s.Check.Run(t.Context()); !ran || err != nil {
			t.Fatalf("ran %t, %v", ran, err)
		}
		var got []string
		for line := range strings.Lines(text.String()) {
			var l struct{ Level, Msg, Code, Subject string }
			if err := json.Unmarshal([]byte(line), &l); err != nil {
				t.Fatal(err)
			}
			got = append(got, strings.Join([]string{l.Level, l.Msg, l.Code, l.Subject}, " "))
		}
		slices.Sort(got)
		if want := []string{"WARN the app has a problem batch_late ", "WARN the app has a problem dead_letters work-0"}; !slices.Equal(got, want) {
			t.Errorf("logged %q, want %q", got, want)
		}
	})
}

// TestScaleRequests: a check of empty queues makes as many requests to them as
// the model of costs assumes.
func TestScaleRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queues := memory.NewQueues(nil)
		b := newMemoryBatches(t, queues, nil)
		all := WorkQueues(4)
		for _, name := range names.Queues(4) { // as in infra/
			m, err := queues.Put(t.Context(), name, "x", 0)
			if err == nil {
				err = queues.Delete(t.Context(), name, m)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		c := &channelWork{queues: queues, letters: &observe.LetterCount{Queue: names.CleanupQueue}}
		jobs := []job{{sample: c.Sample}, {sample: b.Sample}}
		log := slog.New(slog.DiscardHandler)
		s, err := newScalingOn(config.Config{}, scaleStores{memory.NewTable(nil), memory.NewContainer(nil)},
			membersOf(memory.NewTable(nil), instances.Functions, log, jobs...), log)
		if err != nil {
			t.Fatal(err)
		}
		before := queues.Calls()
		if ran, err := s.Check.Run(t.Context()); !ran || err != nil {
			t.Fatalf("ran %t, %v", ran, err)
		}
		if got, want := queues.Calls()-before, cost.Total(cost.Sample(float64(len(all)))); float64(got) != want {
			t.Errorf("%d requests to queues, the model has %v", got, want)
		}
	})
}

// TestScaleWithoutQueues: queues that do not exist, as those of a new app, are
// empty, and one that is created later is in the next check.
func TestScaleWithoutQueues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queues := memory.NewQueues(nil)
		b := newMemoryBatches(t, queues, nil)
		c := &channelWork{queues: queues, letters: &observe.LetterCount{Queue: names.CleanupQueue}}
		jobs := []job{{sample: c.Sample}, {sample: b.Sample}}
		log := slog.New(slog.DiscardHandler)
		s, err := newScalingOn(config.Config{}, scaleStores{memory.NewTable(nil), memory.NewContainer(nil)},
			membersOf(memory.NewTable(nil), instances.Functions, log, jobs...), log)
		if err != nil {
			t.Fatal(err)
		}
		for _, ready := range []int{0, 3, 0} {
			for range ready {
				if _, err := queues.Put(t.Context(), names.PartitionQueue(1), "x", 0); err != nil {
					t.Fatal(err)
				}
			}
			if ran, err := s.Check.Run(t.Context()); !ran || err != nil {
				t.Fatalf("ran %t, %v", ran, err)
			}
			r, err := s.Check.Latest(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			found := 0
			for _, sample := range r.Samples {
				found += int(sample.Ready)
			}
			if found != ready || *r.Advice[0].Instances != 1 {
				t.Errorf("%d messages: %+v, %s", ready, r.Samples, r.Advice[0].Reason)
			}
			time.Sleep(8 * 24 * time.Hour) // the messages have expired
		}
	})
}
