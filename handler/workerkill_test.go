package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"kennel/channels"
	"kennel/internal/apptest"
	"kennel/internal/azure"
	"kennel/internal/clients"
	"kennel/internal/config"
	"kennel/internal/customhandler"
	"kennel/internal/faultproxy"
	"kennel/internal/names"
	"kennel/internal/observe"
	"kennel/internal/storetest"
	"kennel/internal/table"
	"kennel/internal/worker"
	"kennel/queue"
)

// TestWorkerKilled kills the real worker with SIGKILL 300 ms after each start,
// while it works on 2,000 messages, four for each of 500 channels, beside the
// Functions app on the same queue. Each channel is deleted, and exactly the
// messages that cannot be carried out are among the dead letters.
func TestWorkerKilled(t *testing.T) {
	storetest.OnlyInProve(t)
	t.Parallel()
	const deletions, copies, bad, lease = 500, 4, 60, 4 * time.Second
	connection := storetest.OwnStorage(t).ConnectionString()
	storage := "AzureWebJobsStorage=" + connection
	account := azure.Account{ConnectionString: connection}
	queues, err := account.OpenQueues(nil)
	if err != nil {
		t.Fatal(err)
	}
	c, rows, blogs := channelsAt(t, account, queues)

	// Every tenth channel has a blog.
	created := make([]channels.Channel, deletions)
	each(t, deletions, func(i int) error {
		name := fmt.Sprintf("news-%d", i)
		channel, _, err := c.Create(t.Context(), name, "ann")
		created[i] = channel
		if err == nil && i%10 == 0 {
			_, err = c.Post(t.Context(), name, channels.Draft{Title: "Hello", Text: "Hello", UserID: "ann"})
		}
		return err
	})
	want := make(map[string]int) // dead letters: a text with its reason, or a body
	each(t, deletions*copies, func(i int) error {
		_, err := queues.Put(t.Context(), names.CleanupQueue, worker.InBase64(apptest.DeletionOf(created[i%deletions])), 0)
		return err
	})
	for i := range bad {
		body := worker.InBase64(fmt.Sprint("not JSON ", i))
		switch i % 3 {
		case 0:
			want[fmt.Sprint("not JSON ", i)] = 1
		case 1:
			body = fmt.Sprintf("!%d", i)
			want[body] = 1
		case 2:
			body = worker.InBase64(fmt.Sprintf("\xff%d", i))
			want[body] = 1
		}
		if _, err := queues.Put(t.Context(), names.CleanupQueue, body, 0); err != nil {
			t.Fatal(err)
		}
	}

	app := start(t, built.handler, storage)
	began, kills := time.Now(), 0
	var hosted atomic.Int64
	stopHost := beHost(t, app, queues, map[string]string{names.CleanupQueue: "ChannelCleanup"}, &hosted)
	count := func() int64 {
		for {
			left, err := queues.Count(t.Context(), names.CleanupQueue)
			if err == nil {
				return left
			}
			if time.Since(began) > 10*time.Minute {
				t.Fatalf("after %d kills: %v", kills, err)
			}
		}
	}
	for left := count(); left > 0; left = count() {
		w := launchWorker(t, storage, "KENNEL_WORKER_LEASE="+lease.String())
		time.Sleep(300 * time.Millisecond)
		// On a busy machine 300 ms may be less than a start takes, and a message
		// that no worker has time for is rightly a dead letter after 20
		// deliveries. So some messages are done between two kills.
		w.ready(t)
		for some := min(20, (left+1)/2); count() > left-some; time.Sleep(10 * time.Millisecond) {
			if time.Since(began) > 10*time.Minute {
				t.Fatalf("%d messages are left after %d kills", count(), kills)
			}
		}
		w.kill()
		kills++
	}
	took := time.Since(began)
	stopHost()

	done := 0
	for _, row := range all(t, rows) {
		if row.Values["state"] == string(channels.Done) {
			done++
		}
	}
	if remaining := len(all(t, blogs)); done != deletions || remaining != 0 {
		t.Errorf("%d of %d channels deleted, %d rows of blogs left", done, deletions, remaining)
	}
	got := make(map[string]int)
	twice := 0
	for {
		messages, err := queues.Receive(t.Context(), names.CleanupQueue+queue.PoisonSuffix, 32, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if len(messages) == 0 {
			break
		}
		for _, m := range messages {
			content := m.Body
			text, err := worker.TextOf(m.Body)
			if err != nil { // a letter has the form of its message
				text = m.Body
			}
			if l, notLetter := queue.ReadDeadLetter(text); notLetter == nil {
				content = l.Text
				if !slices.ContainsFunc([]string{"decode JSON", "decode base64", "not UTF-8"}, func(reason string) bool { return strings.Contains(l.Reason, reason) }) {
					t.Errorf("dead letter %.500s", text)
				}
			}
			if got[content] > 0 { // by a kill between the requests of a move; the other letter may be the host's, without an id
				twice++
				continue
			}
			got[content]++
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("dead letters %v, want %v", slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)))
	}
	t.Logf("figure: of 2,000 messages that delete 500 channels and 60 unreadable ones, deletions missing and wrong dead letters when the worker is killed -9 again and again | %d, %d | 0, 0", deletions-done, len(got)-len(want))
	t.Logf("%d kills in %v, %d messages by the app beside it, %d dead letters twice", kills, took.Round(time.Second), hosted.Load(), twice)
}

// channelsAt returns channels on an account, with their tables.
func channelsAt(t *testing.T, account azure.Account, queues *azure.Queues) (c *channels.Channels, rows, blogs *azure.Table) {
	t.Helper()
	tables, err := account.OpenTables(nil)
	if err != nil {
		t.Fatal(err)
	}
	rows, blogs = apptest.OpenTable(t, tables, names.ChannelsTable), apptest.OpenTable(t, tables, names.BlogsTable)
	outbox, err := queue.NewOutbox(queues, names.CleanupQueue)
	if err != nil {
		t.Fatal(err)
	}
	if c, err = channels.New(rows, blogs, outbox, nil); err != nil {
		t.Fatal(err)
	}
	return c, rows, blogs
}

// each calls do for each number below n, several at a time.
func each(t *testing.T, n int, do func(i int) error) {
	t.Helper()
	var next atomic.Int64
	var running sync.WaitGroup
	for range 16 {
		running.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				if err := do(i); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	running.Wait()
	if t.Failed() {
		t.FailNow()
	}
}

// all returns all rows of a table.
func all(t *testing.T, store *azure.Table) (rows []table.Row) {
	t.Helper()
	for q := (table.Query{Top: table.MaxPage}); ; {
		page, err := store.Query(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, page.Rows...)
		if q.After = page.Next; q.After == "" {
			return rows
		}
	}
}

// beHost delivers a few messages of queues to functions of the app, by the rules
// of the Functions host, until stop is called.
func beHost(t *testing.T, app *process, queues *azure.Queues, functions map[string]string, hosted *atomic.Int64) (stop func()) {
	ended := make(chan struct{})
	var running sync.WaitGroup
	client := customhandler.NewClient(app.url)
	for name, function := range functions {
		running.Go(func() {
			for {
				select {
				case <-ended:
					return
				case <-time.After(200 * time.Millisecond):
				}
				messages, err := queues.Receive(t.Context(), name, 1, time.Minute)
				if err != nil || len(messages) == 0 {
					continue
				}
				m := messages[0]
				text, err := worker.TextOf(m.Body)
				isLetter := err != nil || m.DequeueCount > observe.MaxDeliveries // the host does not pass it to the app
				if isLetter {
					_, err = queues.Put(t.Context(), name+queue.PoisonSuffix, m.Body, 0)
				} else {
					_, err = client.Invoke(t.Context(), function, customhandler.Trigger{Function: function, Binding: "message"}.Queue(customhandler.QueueMessage{Text: text, ID: m.ID, DequeueCount: m.DequeueCount}))
				}
				if err != nil {
					t.Errorf("message %s of the app: %v", m.ID, err)
					_, err = queues.Update(t.Context(), name, m, 0)
				} else {
					err = queues.Delete(t.Context(), name, m)
					hosted.Add(1)
				}
				if err != nil {
					t.Log(err) // the message is received again
				}
			}
		})
	}
	return sync.OnceFunc(func() {
		close(ended)
		running.Wait()
	})
}

// TestWorkerIdle measures what an idle worker costs and how soon it wakes, with
// and without signals, and that it removes its row.
func TestWorkerIdle(t *testing.T) {
	storetest.OnlyInProve(t)
	t.Parallel()
	connection := storetest.OwnStorage(t).ConnectionString()
	account := azure.Account{ConnectionString: connection}
	queues, err := account.OpenQueues(nil)
	if err != nil {
		t.Fatal(err)
	}
	c, _, _ := channelsAt(t, account, queues)
	bus, setting := apptest.WithBus(t)
	signals, err := clients.Signals(config.ServiceBus{ConnectionString: bus.ConnectionString()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(signals.Close)
	app := start(t, built.handler, "AzureWebJobsStorage="+connection)
	for i, tt := range []struct{ how, maxRequests, maxWait string }{{"with signals", "1", "1 s"}, {"without signals", "14, two for each of its queues", "33 s"}} {
		proxy, err := faultproxy.Start(connection)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(proxy.Close)
		env := []string{"AzureWebJobsStorage=" + proxy.ConnectionString(), "KENNEL_WORKER_LEASE=5s"}
		if i == 0 {
			env = append(env, setting)
		}
		w := launchWorker(t, env...)
		w.ready(t)
		app.statusUntil(t, "a worker", func(s observe.Status) bool { return workersOf(s) == 1 })
		time.Sleep(12 * time.Second) // its first check after it fell asleep is due after a lease
		proxy.Passed()
		const idle = 20 * time.Second
		time.Sleep(idle)
		receives := 0
		for _, request := range proxy.Passed() {
			if strings.HasPrefix(request, "queue receive") { // a check of scaling sends others
				receives++
			}
		}
		t.Logf("figure: requests to queues of an idle worker in %v, %s | %d | ≤ %s", idle, tt.how, receives, tt.maxRequests)

		t.Logf("figure: resident memory of an idle worker, %s | %.1f MB | ≤ 30 MB", tt.how, float64(resident(t, w.cmd.Process.Pid))/1e6)

		channel, _, err := c.Create(t.Context(), fmt.Sprint("wake-", i), "ann")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := queues.Put(t.Context(), names.CleanupQueue, worker.InBase64(apptest.DeletionOf(channel)), 0); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if i == 0 {
			if err := signals.Queues().Publish(t.Context(), queue.Signal{Queue: names.CleanupQueue}); err != nil {
				t.Fatal(err)
			}
		}
		for {
			if d, err := c.Deletion(t.Context(), channel.Name, channel.Incarnation); err == nil && d.State == channels.Done {
				break
			}
			time.Sleep(time.Millisecond)
		}
		t.Logf("figure: from a message until an idle worker has deleted the channel, %s, all on this machine | %v | ≤ %s", tt.how, time.Since(began).Round(time.Millisecond), tt.maxWait)
		w.terminate()
		if code := w.exitCode(t); code != 0 {
			t.Errorf("exit code %d", code)
		}
		if answer, body := app.status(t); workersOf(answer) != 0 {
			t.Errorf("status %s, want no worker after its stop", body)
		}
	}
}

// workersOf returns how many workers the app has.
func workersOf(s observe.Status) (n int) {
	for _, i := range s.Instances {
		if i.Kind == "worker" {
			n++
		}
	}
	return n
}
