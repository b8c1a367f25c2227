package parts

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kennel/channels"
	"kennel/internal/app"
	"kennel/internal/apptest"
	"kennel/internal/config"
	"kennel/internal/instances"
	"kennel/internal/memory"
	"kennel/internal/names"
	"kennel/internal/observe"
	"kennel/internal/storetest"
	"kennel/internal/worker"
	"kennel/queue"
)

// fakeWorker is a worker on stores in memory.
type fakeWorker struct {
	probes   *app.Probes
	channels *channels.Channels
	batches  *memoryBatches
	queues   *memory.Queues
	rows     *memory.Table // of instances
	log      apptest.Buffer
	stop     context.CancelFunc
	ended    chan error
}

// newFakeWorker starts a worker in the bubble of a test.
func newFakeWorker(t *testing.T, queues *memory.Queues, blogs *memory.Table, signals queue.Signals, env ...string) *fakeWorker {
	t.Helper()
	// Without this table, the worker never samples for a check of scaling.
	noScale := memory.NewTable(&memory.TableOptions{Options: memory.Options{Fault: func(memory.Call) memory.Fault { return memory.Fault{Lost: true, Err: errors.New("none")} }}})
	return newFakeWorkerOn(t, queues, blogs, signals, newMemoryBatches(t, queues, nil), scaleStores{noScale, memory.NewContainer(nil)}, env...)
}

// newFakeWorkerOn starts a worker on stores of batches and of scaling.
func newFakeWorkerOn(t *testing.T, queues *memory.Queues, blogs *memory.Table, signals queue.Signals, batches *memoryBatches, scale scaleStores, env ...string) *fakeWorker {
	t.Helper()
	settings := map[string]string{"AzureWebJobsStorage": "UseDevelopmentStorage=true"}
	for _, setting := range env {
		name, value, _ := strings.Cut(setting, "=")
		settings[name] = value
	}
	cfg, err := config.Load(settings)
	if err != nil {
		t.Fatal(err)
	}
	f := &fakeWorker{queues: queues, batches: batches, rows: memory.NewTable(nil), ended: make(chan error, 1)}
	log := slog.New(slog.NewJSONHandler(&f.log, nil))
	publisher, err := queue.NewPublisher(queues, &queue.PublisherOptions{Signals: signals})
	if err != nil {
		t.Fatal(err)
	}
	f.channels, err = channels.New(memory.NewTable(nil), blogs, announced{memory.NewOutbox(queues, names.CleanupQueue), publisher, names.CleanupQueue}, &channels.Options{AcceptFor: -1})
	if err != nil {
		t.Fatal(err)
	}
	c := &channelWork{channels: f.channels, signals: publisher, meter: batches.meter, queues: queues, letters: &observe.LetterCount{Queue: names.CleanupQueue}, log: log}
	f.probes = &app.Probes{}
	l := worker.NewListening(cfg, signals, f.probes.Received, log)
	members := observe.NewMembers(f.rows, instances.Worker, time.Now(), log)
	scaling, err1 := newScalingOn(cfg, scale, members, log)
	if err1 == nil {
		scaling.follow(l)
	}
	ofChannels, err2 := newChannelPart(c, nil, l)
	if err := errors.Join(err1, err2, batches.listen(l)); err != nil {
		t.Fatal(err)
	}
	f.probes.Metrics = members.Metrics
	program, err := app.New(cfg, members, batches.meter, []app.Part{
		{Serves: scaling, Knows: scaling, Runs: scaling}, ofChannels,
		{Serves: batches.batchPart, Knows: batches.batchPart, Runs: batches.batchPart},
		{Knows: observe.MeterSource{Meter: batches.meter}}, {Runs: reportMembers(members), Closes: app.Leaves},
	}, log)
	if err != nil {
		t.Fatal(err)
	}
	var ctx context.Context
	ctx, f.stop = context.WithCancel(t.Context())
	t.Cleanup(f.stop)
	go func() {
		err := program.Work(ctx, f.probes.Stop)
		f.ended <- errors.Join(err, program.Close(context.WithoutCancel(ctx)))
	}()
	return f
}

// end stops the worker and returns how long that took.
func (f *fakeWorker) end(t *testing.T) time.Duration {
	t.Helper()
	began := time.Now()
	f.stop()
	if err := <-f.ended; err != nil {
		t.Error(err)
	}
	return time.Since(began)
}

// channel creates a channel with one blog.
func (f *fakeWorker) channel(t *testing.T, name string) channels.Channel {
	t.Helper()
	channel, _, err := f.channels.Create(t.Context(), name, "ann")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.channels.Post(t.Context(), name, channels.Draft{Title: "Hello", Text: "Hello", UserID: "ann"}); err != nil {
		t.Fatal(err)
	}
	return channel
}

func (f *fakeWorker) put(t *testing.T, body string) queue.Message {
	t.Helper()
	m, err := f.queues.Put(t.Context(), names.CleanupQueue, body, 0)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestWorkerMessages: a worker accepts what the Functions host accepts for the
// queue. What can never be carried out is among the dead letters, whole, with
// the reason where it is text.
func TestWorkerMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queues := memory.NewQueues(nil)
		f := newFakeWorker(t, queues, memory.NewTable(nil), nil)
		var created []channels.Channel
		for i := range 20 {
			c := f.channel(t, fmt.Sprint("news-", i))
			created = append(created, c)
			body := worker.InBase64(apptest.DeletionOf(c))
			f.put(t, body[:10]+" \n"+body[10:]) // the host ignores white space
		}
		const absent = `{"v":1,"channel":"news","incarnation":"0123456789abcdef-0123456789abcdef"}`
		long := `{"v":1,"channel":"` + strings.Repeat("a", 48<<10-60) + `"}`
		letters := map[string]string{"not JSON": "decode JSON", "": "decode JSON", `{"v":2}`: "version 2 is unknown", absent: "the incarnation does not exist", "\u2028 \ufffd <ü>": "decode JSON"}
		ids := make(map[string]string)
		for body, reason := range map[string]string{"!!": "decode base64", worker.InBase64("\xff\xfe"): "not UTF-8", worker.InBase64(apptest.DeletionOf(created[0]))[1:]: "decode base64"} {
			ids[body], letters[body] = f.put(t, body).ID, reason
		}
		whole := []string{worker.InBase64(long)}
		for text := range letters {
			if ids[text] == "" {
				ids[text] = f.put(t, worker.InBase64(text)).ID
			}
		}
		for _, body := range whole {
			f.put(t, body)
		}
		time.Sleep(5 * time.Second) // less than five attempts take
		for _, c := range created {
			if d, err := f.channels.Deletion(t.Context(), c.Name, c.Incarnation); err != nil || d.State != channels.Done || d.Deleted != 1 {
				t.Errorf("%s: %+v, %v, want it deleted with its blog", c.Name, d, err)
			}
		}
		dead := queues.All(names.CleanupQueue + queue.PoisonSuffix)
		if n := len(queues.All(names.CleanupQueue)); n != 0 || len(dead) != len(letters)+len(whole) {
			t.Errorf("%d messages and %d dead letters, want 0 and %d", n, len(dead), len(letters)+len(whole))
		}
		for _, m := range dead {
			text, err := worker.TextOf(m.Body)
			if err != nil {
				text = m.Body // as its message was
			}
			l, err := queue.ReadDeadLetter(text)
			if reason, ok := letters[l.Text]; err == nil && l.Queue != "" {
				if !ok || l.Queue != names.CleanupQueue || l.Message != ids[l.Text] || !strings.Contains(l.Reason, reason) || l.At.IsZero() {
					t.Errorf("dead letter %+.200v, want it with %q", l, reason)
				}
				delete(letters, l.Text)
				continue
			}
			found := false
			for i, body := range whole {
				if body == m.Body {
					whole, found = append(whole[:i:i], whole[i+1:]...), true
					break
				}
			}
			if !found {
				t.Errorf("dead letter %.100q", m.Body)
			}
		}
		if len(letters)+len(whole) > 0 {
			t.Errorf("not among the dead letters: %.100q %.100q", letters, whole)
		}
		f.end(t)
	})
}

// TestWorkerIdlePoll: without signals, a message for a worker that is idle waits
// for as long as KENNEL_IDLE_POLL says.
func TestWorkerIdlePoll(t *testing.T) {
	const within = 1100 * time.Millisecond
	synctest.Test(t, func(t *testing.T) {
		line := &memory.Line{RoundTrip: 20 * time.Millisecond}
		queues := memory.NewQueues(&memory.Options{Fault: line.Fault})
		f := newFakeWorker(t, queues, memory.NewTable(nil), nil, "KENNEL_IDLE_POLL=1s")
		var worst time.Duration
		for range storetest.Scale(3, 25) {
			time.Sleep(3*time.Minute + time.Duration(rand.N(time.Second)))
			m := f.put(t, worker.InBase64("not JSON"))
			for put := time.Now(); ; time.Sleep(5 * time.Millisecond) {
				if all := queues.All(names.CleanupQueue); len(all) == 0 || all[0].ID != m.ID || all[0].DequeueCount > 0 {
					worst = max(worst, time.Since(put))
					break
				}
			}
		}
		t.Logf("figure: a message waits for an idle worker without signals, with KENNEL_IDLE_POLL=1s | %v | ≤ %v", worst, within)
		if worst > within {
			t.Errorf("a message waited %v, want at most %v", worst, within)
		}
		f.end(t)
	})
}

// TestWorkerFailures: a message whose deletion fails five times, and not because
// of storage, is among the dead letters with the reason. A sweep restarts it.
func TestWorkerFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fails atomic.Bool
		refused := fmt.Errorf("row news: %w", channels.ErrCorrupt)
		blogs := memory.NewTable(&memory.TableOptions{Options: memory.Options{Fault: func(memory.Call) memory.Fault {
			if fails.Load() {
				return memory.Fault{Err: refused, Lost: true}
			}
			return memory.Fault{}
		}}})
		f := newFakeWorker(t, memory.NewQueues(nil), blogs, nil)
		c := f.channel(t, "news")
		fails.Store(true)
		m := f.put(t, worker.InBase64(apptest.DeletionOf(c)))
		time.Sleep(10 * time.Minute) // before a sweep restarts the deletion
		dead := f.queues.All(names.CleanupQueue + queue.PoisonSuffix)
		if len(dead) != 1 || strings.Count(f.log.String(), "attempt failed; trying again later") < 4 {
			t.Fatalf("%d dead letters, want one after five attempts; log: %.2000s", len(dead), f.log.String())
		}
		text, err := worker.TextOf(dead[0].Body)
		l, err2 := queue.ReadDeadLetter(text)
		if err := errors.Join(err, err2); err != nil || l.Message != m.ID || l.Text != apptest.DeletionOf(c) || !strings.Contains(l.Reason, refused.Error()) {
			t.Errorf("dead letter %s, %v, want the message and why it failed", text, err)
		}
		fails.Store(false)
		time.Sleep(time.Hour) // the sweep of the worker restarts the deletion
		if d, err := f.channels.Deletion(t.Context(), "news", ""); err != nil || d.State != channels.Done {
			t.Errorf("%+v, %v, want the deletion restarted by a sweep", d, err)
		}
		f.end(t)
	})
}

// TestWorkerStops: on a stop the worker finishes what it began and is not ready
// meanwhile, and then removes its row.
func TestWorkerStops(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := memory.NewTable(&memory.TableOptions{Options: memory.Options{Fault: func(memory.Call) memory.Fault { return memory.Fault{Delay: 2 * time.Second} }}})
		f := newFakeWorker(t, memory.NewQueues(nil), slow, nil)
		c := f.channel(t, "news")
		f.put(t, worker.InBase64(apptest.DeletionOf(c)))
		time.Sleep(6 * time.Second) // the row is written, and the message begun
		if status, reason := apptest.ProbeOf(t, f.probes, "GET", "/readyz"); status != 200 {
			t.Errorf("readyz: %d %s, want 200", status, reason)
		}
		directory, err := new(instances.Reader).Read(t.Context(), f.rows)
		if err != nil || len(directory.Live) != 1 || directory.Live[0].Kind != instances.Worker {
			t.Fatalf("instances %+v, %v, want a worker", directory, err)
		}
		f.put(t, worker.InBase64(apptest.DeletionOf(c))) // begun after the stop, so not at all
		f.stop()
		synctest.Wait()
		status, reason := apptest.ProbeOf(t, f.probes, "GET", "/readyz")
		if live, _ := apptest.ProbeOf(t, f.probes, "GET", "/healthz"); live != 200 || status != 503 || !strings.Contains(reason, "stopping") {
			t.Errorf("while it stops: healthz %d, readyz %d %s, want 200 and 503", live, status, reason)
		}
		if took := f.end(t); took > 20*time.Second {
			t.Errorf("the stop took %v", took)
		}
		if d, err := f.channels.Deletion(t.Context(), "news", ""); err != nil || d.State != channels.Done {
			t.Errorf("%+v, %v, want the deletion that had begun finished", d, err)
		}
		if directory, err := new(instances.Reader).Read(t.Context(), f.rows); err != nil || len(directory.Live) != 0 {
			t.Errorf("instances %+v, %v, want none after the stop", directory, err)
		}
	})
}

// TestWorkerHands: the row of a worker shows the messages that it works on.
func TestWorkerHands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := memory.NewTable(&memory.TableOptions{Options: memory.Options{Fault: func(memory.Call) memory.Fault { return memory.Fault{Delay: 5 * time.Second} }}})
		f := newFakeWorker(t, memory.NewQueues(nil), slow, nil)
		for i := range 3 {
			f.put(t, worker.InBase64(apptest.DeletionOf(f.channel(t, fmt.Sprint("news-", i)))))
		}
		var most int64
		for range 300 {
			time.Sleep(time.Second)
			directory, err := new(instances.Reader).Read(t.Context(), f.rows, instances.RunningSection)
			if err != nil {
				t.Fatal(err)
			}
			for _, i := range directory.Live {
				most = max(most, instances.HandsOf(i.Report))
			}
		}
		if most < 1 || most > 3 {
			t.Errorf("at most %d hands, want 1 to 3", most)
		}
		f.end(t)
	})
}

// TestWorkerProbes: a worker is not ready until storage has responded, and while
// it fails; it lives in any case.
func TestWorkerProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var fails atomic.Bool
		fails.Store(true)
		queues := memory.NewQueues(&memory.Options{Fault: func(memory.Call) memory.Fault {
			if fails.Load() {
				return memory.Fault{Delay: time.Second, Err: errors.New("reset by peer"), Lost: true}
			}
			return memory.Fault{}
		}})
		f := newFakeWorker(t, queues, memory.NewTable(nil), nil)
		synctest.Wait()
		expect := func(when string, want int, wantReason string) {
			t.Helper()
			if live, _ := apptest.ProbeOf(t, f.probes, "HEAD", "/healthz"); live != 200 {
				t.Errorf("%s: healthz %d", when, live)
			}
			if status, reason := apptest.ProbeOf(t, f.probes, "GET", "/readyz"); status != want || !strings.Contains(reason, wantReason) {
				t.Errorf("%s: readyz %d %q, want %d %q", when, status, reason, want, wantReason)
			}
		}
		expect("before the first answer", 503, "storage did not respond yet")
		time.Sleep(5 * time.Second)
		expect("while storage fails", 503, "reset by peer")
		fails.Store(false)
		time.Sleep(time.Minute)
		expect("afterwards", 200, "")
		if status, _ := apptest.ProbeOf(t, f.probes, "POST", "/readyz"); status != 405 {
			t.Errorf("POST: %d, want 405", status)
		}
		if status, _ := apptest.ProbeOf(t, f.probes, "GET", "/api/status"); status != 404 {
			t.Errorf("a route of the API: %d, want 404", status)
		}
		f.end(t)
	})
}

// TestWorkerSleeps: a worker with signals does not poll, and a signal wakes it.
func TestWorkerSleeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var receives atomic.Int64
		queues := memory.NewQueues(&memory.Options{Fault: func(c memory.Call) memory.Fault {
			if c.Op == "Receive" {
				receives.Add(1)
			}
			return memory.Fault{}
		}})
		f := newFakeWorker(t, queues, memory.NewTable(nil), memory.NewQueueSignals(nil))
		time.Sleep(10 * time.Minute)
		before := receives.Load()
		time.Sleep(time.Hour)
		if n := receives.Load() - before; n > 6*7 {
			t.Errorf("%d receives an hour of 7 queues without messages, want at most 6 of each", n)
		}
		f.channel(t, "news")
		began := time.Now()
		if _, err := f.channels.Delete(t.Context(), "news", ""); err != nil { // puts the message, and announces it
			t.Fatal(err)
		}
		for {
			if d, err := f.channels.Deletion(t.Context(), "news", ""); err == nil && d.State == channels.Done {
				break
			}
			time.Sleep(time.Millisecond)
		}
		// The message is delivered when the call would have finished by itself.
		if took := time.Since(began); took > 15*time.Second {
			t.Errorf("done %v after the call, want it at the delivery of the message", took)
		}
		f.end(t)
	})
}
