package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"testing"
	"time"

	"kennel/azurestore"
	"kennel/client"
	"kennel/internal/apptest"
	"kennel/internal/names"
	"kennel/internal/storetest"
	"kennel/internal/worker"
	"kennel/queue"
)

// TestClient checks that package client understands the answers of the app, for
// each of its calls.
func TestClient(t *testing.T) {
	p := shared(t)
	app, err := client.New(p.url, &client.Options{HTTP: &http.Client{Transport: apptest.NewChecked(t)}})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	name := storetest.Name()
	check := func(what string, ok bool, got any, err error) {
		t.Helper()
		if err != nil || !ok {
			t.Errorf("%s: %+v, %v", what, got, err)
		}
		if answer, ok := got.(interface{ JSON() json.RawMessage }); ok && err == nil {
			// The client has a field for each member of the answer.
			decoder := json.NewDecoder(bytes.NewReader(answer.JSON()))
			decoder.DisallowUnknownFields()
			if err := decoder.Decode(reflect.New(reflect.TypeOf(got)).Interface()); err != nil {
				t.Errorf("%s: %s: %v", what, answer.JSON(), err)
			}
		}
	}
	refused := func(what string, err error, code string) {
		t.Helper()
		if e, ok := errors.AsType[*client.Error](err); !ok || e.Code != code {
			t.Errorf("%s: %v, want %s", what, err, code)
		}
	}

	n, err := app.Next(ctx, name, 3)
	check("numbers", n.First == 1 && n.Last == 3, n, err)
	_, err = app.Next(ctx, name, 100_000)
	refused("too many numbers", err, "bad_count")

	sequence, err := app.SequenceState(ctx, name)
	check("a sequence", sequence.Next > 3 && len(sequence.Instances) == 1 && sequence.Instances[0].Highest == sequence.Next-1, sequence, err)
	_, err = app.SequenceState(ctx, name+"-new")
	refused("a sequence that was never used", err, "sequence_not_found")
	raised, err := app.RaiseSequence(ctx, name, client.Raise{AtLeast: 5000, Reason: "a test"})
	check("a raise", raised.Next == 5000 && raised.Changed, raised, err)
	raised, err = app.RaiseSequence(ctx, name, client.Raise{AtLeast: 4000})
	check("a raise that changes nothing", raised.Next == 5000 && !raised.Changed, raised, err)
	found := false
	for item, err := range app.Sequences(ctx) {
		check("an item of the list", item.Sequence != "", item, err)
		found = found || item.Sequence == name && *item.Next == 5000
	}
	if !found {
		t.Errorf("the list has no %s at 5000", name)
	}

	w, err := app.Wait(ctx, name, client.Now, time.Second)
	check("wait at a closed gate", !w.Passed && w.Generation == 0, w.Gate, err)
	watching, stop := context.WithCancel(ctx)
	defer stop()
	states := make(chan client.Gate, 10)
	go func() {
		defer close(states)
		for g, err := range app.Watch(watching, name) {
			if err == nil {
				states <- g
			}
		}
	}()
	first := <-states
	waited := make(chan client.Waited, 1)
	go func() {
		w, err := app.Wait(ctx, name, w.Generation, 0)
		check("wait", w.Passed, w, err)
		waited <- w
	}()
	p.holds(t, name, 2) // the wait and the watch
	waiters, err := app.Waiters(ctx, name)
	check("waiters", len(waiters.Items) == 1 && waiters.Items[0].Waiters == 2 && waiters.Items[0].Instance != "", waiters, err)
	change, err := app.Release(ctx, name, client.Change{By: "ann", Reason: "warm"})
	check("release", change.Changed && change.Released && change.By == "ann" && change.Signalled == nil, change, err)
	<-waited
	second := <-states
	stop()
	check("watch", !first.Released && second.Released && second.Generation == change.Generation && second.By == "ann", second, nil)
	change, err = app.Close(ctx, name, client.Change{})
	check("close", change.Changed && !change.Released && change.By == "unknown", change, err)
	g, err := app.Gate(ctx, name)
	check("gate", len(g.History) == 2 && g.History[0].By == "ann" && g.History[1].Change == "close", g, err)
	listed := client.GateItem{}
	for item, err := range app.Gates(ctx) {
		check("an item of the list", item.Name != "", item, err)
		if item.Name == name {
			listed = item
		}
	}
	check("gates", listed.Generation != nil && *listed.Generation == g.Generation && listed.ChangedAt.Equal(g.ChangedAt), listed, nil)
	_, err = app.Gate(ctx, "Not/a gate!")
	refused("bad gate", err, "bad_gate")

	_, _, err = app.CreateChannel(ctx, "ä/ b"+name, "ann")
	refused("bad channel", err, "bad_channel")
	title := "ü b %G " + name
	ch, created, err := app.CreateChannel(ctx, title, "ann")
	check("create", created && ch.Owner == "ann", ch, err)
	ch, created, err = app.CreateChannel(ctx, title, "ann")
	check("create again", !created && ch.ETag != "", ch, err)
	read, err := app.Channel(ctx, title)
	check("channel", read.ETag == ch.ETag && read.Incarnation == ch.Incarnation, read, err)
	found = false
	for listed, err := range app.Channels(ctx) {
		check("channels", true, listed, err)
		found = found || listed.Name == title
	}
	check("channels", found, title, nil)

	blog, err := app.AddBlog(ctx, title, client.Draft{Title: "Hello", Text: "<&>\u2028", UserID: "ann"})
	check("add", blog.Text == "<&>\u2028", blog, err)
	updated, err := app.UpdateBlog(ctx, title, blog.ID, blog.ETag, client.Draft{Title: "Again", UserID: "ann"})
	check("update", updated.Title == "Again" && updated.ETag != blog.ETag, updated, err)
	_, err = app.UpdateBlog(ctx, title, blog.ID, blog.ETag, client.Draft{Title: "Late", UserID: "bob"})
	refused("late update", err, "blog_changed")
	one, err := app.Blog(ctx, title, blog.ID)
	check("blog", one.ETag == updated.ETag, one, err)
	count, all, err := app.CountBlogs(ctx, title)
	check("count", count == 1 && all, count, err)
	other, err := app.AddBlog(ctx, title, client.Draft{Title: "Next", UserID: "ann"})
	check("add another", other.ID > blog.ID, other, err)
	once, err := app.AddBlogOnce(ctx, title, "k", client.Draft{Title: "Once", UserID: "ann"})
	check("add with a key", once.ID > other.ID, once, err)
	same, err := app.AddBlogOnce(ctx, title, "k", client.Draft{Title: "Once", UserID: "ann"})
	check("add again", same.ID == once.ID && same.ETag == once.ETag, same, err)
	_, err = app.AddBlogOnce(ctx, title, "k", client.Draft{Title: "Twice", UserID: "ann"})
	refused("add another with the key", err, "key_reused")
	err = app.DeleteBlog(ctx, title, once.ID, once.ETag)
	check("delete the blog with a key", true, nil, err)
	var after []string
	for b, err := range app.BlogsAfter(ctx, title, blog.ID) {
		check("an item of the list", b.Title == "Next", b, err)
		after = append(after, b.ID)
	}
	if !slices.Equal(after, []string{other.ID}) {
		t.Errorf("after the first blog: %q, want the second", after)
	}
	var newest []string
	for b, err := range app.NewestBlogs(ctx, title) {
		check("an item of the newest", true, b, err)
		newest = append(newest, b.ID)
	}
	if !slices.Equal(newest, []string{other.ID, blog.ID}) {
		t.Errorf("newest: %q, want the second, then the first", newest)
	}
	for _, err := range app.BlogsAfter(ctx, title, "no blog") {
		refused("bad after", err, "bad_after")
	}
	err = app.DeleteBlog(ctx, title, other.ID, "")
	check("delete the other blog", true, nil, err)
	err = app.DeleteBlog(ctx, title, blog.ID, updated.ETag)
	check("delete blog", true, nil, err)
	for b, err := range app.Blogs(ctx, title) {
		t.Errorf("deleted blog %+v, %v", b, err)
	}

	d, err := app.DeleteChannel(ctx, title, ch.ETag)
	check("delete", d.Incarnation == ch.Incarnation, d, err)
	for d, err = range app.WatchDeletion(ctx, d) {
		check("watch deletion", true, d, err)
	}
	check("deletion", d.State == client.Done && !d.FinishedAt.IsZero(), d, nil)
	again, err := app.DeleteChannel(ctx, title, ch.ETag)
	check("delete again", again.State == client.Done, again, err)
	record, err := app.Deletion(ctx, title, ch.Incarnation)
	check("record", string(record.JSON()) == string(d.JSON()), record, err)
	_, err = app.Channel(ctx, title)
	refused("deleted channel", err, "channel_not_found")

	checkLetters(t, app, name, check, refused)
	checkScale(t, p, app, check, refused)

	s, err := app.Status(ctx)
	check("status", s.Status != "" && s.Version != "" && s.Storage.Reachable && s.Storage.Tables.Reachable && s.Sequences[name].Issued == 3 && s.Requests["blob"]["get"] > 0 && s.Bill != nil && s.Bill.Currency == "USD", s, err)
	diagnosis, err := app.Doctor(ctx)
	check("doctor", len(diagnosis.Checks) > 10 && !slices.ContainsFunc(diagnosis.Checks, func(c client.Check) bool { return c.Name == "" || c.Detail == "" }), diagnosis, err)
	check("health", true, nil, app.Health(ctx))
}

// checkLetters puts messages into a queue and its dead letters on storage, and
// checks the calls for dead letters.
func checkLetters(t *testing.T, app *client.Client, name string, check func(what string, ok bool, got any, err error), refused func(what string, err error, code string)) {
	t.Helper()
	ctx := t.Context()
	poison := name + queue.PoisonSuffix
	_, queues := apptest.OpenStorage(t)
	put := func(name, text string) {
		t.Helper()
		if _, err := queues.Put(ctx, name, text, 0); err != nil {
			t.Fatal(err)
		}
	}
	put(poison, worker.InBase64("raw"))
	_, err := app.RedriveDeadLetters(ctx, poison, client.DeadLetterSelection{All: true})
	refused("no source", err, "source_missing")
	put(name, "x")
	put(poison, queue.DeadLetter{Queue: name, Message: "m", Reason: "too late", Attempts: 5, At: time.Now(), Text: "written"}.Encode())

	listed, err := app.DeadLetterQueues(ctx)
	check("queues of dead letters", slices.ContainsFunc(listed, func(q client.DeadLetterQueue) bool {
		check("a queue of dead letters", q.Queue == q.Source+queue.PoisonSuffix && q.Messages > 0, q, nil)
		return q.Queue == poison && q.Messages == 2
	}), listed, err)
	letters, more, err := app.DeadLetters(ctx, poison)
	if err != nil || len(letters) != 2 || more {
		t.Fatalf("dead letters: %+v, %t, %v", letters, more, err)
	}
	if letters[0].Body != "raw" {
		slices.Reverse(letters)
	}
	raw, written := letters[0], letters[1]
	check("a message that was moved as it is", raw.Body == "raw" && raw.MovedBy == client.MovedByHost && raw.Attempts == nil && raw.ExpiresAt.After(raw.InsertedAt), raw, nil)
	check("a dead letter", written.Body == "written" && written.MovedBy == client.MovedByKennel && *written.Attempts == 5 && written.Reason == "too late" && written.Encoding == "text" && written.Size == 7, written, nil)
	m, err := app.DeleteDeadLetters(ctx, poison, client.DeadLetterSelection{All: true, DryRun: true})
	check("dry run", m.Matched == 2 && m.Deleted == 0, m, err)
	m, err = app.DeleteDeadLetters(ctx, poison, client.DeadLetterSelection{IDs: []string{written.ID, "other"}})
	check("delete", m.Matched == 1 && m.Deleted == 1, m, err)
	for m, err = range app.RepeatRedrive(ctx, poison, client.DeadLetterSelection{All: true}) {
		check("redrive", m.Matched == 1 && m.Moved == 1 && !m.More && !m.Before.IsZero(), m, err)
	}
	messages, err := queues.Peek(ctx, name, queue.MaxReceive)
	if i := slices.IndexFunc(messages, func(m queue.Message) bool { return m.Body == worker.InBase64("raw") }); i < 0 || len(messages) != 2 || err != nil {
		t.Errorf("the queue has %+v, %v, want the message as it was", messages, err)
	}
	if letters, more, err := app.DeadLetters(ctx, poison); err != nil || len(letters) != 0 || more {
		t.Errorf("dead letters at the end: %+v, %t, %v", letters, more, err)
	}
	_, err = app.DeleteDeadLetters(ctx, name, client.DeadLetterSelection{All: true})
	refused("no dead-letter queue", err, "bad_queue")
}

// BenchmarkClientSequence compares numbers of a client.Sequence with calls for
// one number each, by one caller of the real handler. The ratio is the median of
// alternating rounds.
func BenchmarkClientSequence(b *testing.B) {
	const rounds, calls, numbers = 9, 300, 100_000
	p := start(b, built.handler, withStorage(b))
	app, err := client.New(p.url, nil)
	if err != nil {
		b.Fatal(err)
	}
	name := storetest.Name()
	sequence, err := app.Sequence(name, nil)
	if err != nil {
		b.Fatal(err)
	}
	defer sequence.Close()
	timed := func(n int, draw func() error) float64 {
		began := time.Now()
		for range n {
			if err := draw(); err != nil {
				b.Fatal(err)
			}
		}
		return float64(n) / time.Since(began).Seconds()
	}
	single := func() error { _, err := app.Next(b.Context(), name, 1); return err }
	pieces := func() error { _, err := sequence.Next(b.Context()); return err }
	for b.Loop() {
		timed(calls, single)
		timed(numbers, pieces)
		var ratios, rates []float64
		for range rounds {
			one, many := timed(calls, single), timed(numbers, pieces)
			ratios, rates = append(ratios, many/one), append(rates, many)
		}
		b.Logf("figure: numbers of a client.Sequence (%.0f/s here), one caller | %.0f × the rate of single calls | ≥ 50 ×", apptest.Median(rates), apptest.Median(ratios))
	}
}

// TestClientSurvivesKill checks that a wait continues when the app is killed and
// started again.
func TestClientSurvivesKill(t *testing.T) {
	storetest.OnlyInProve(t) // the client pauses for two seconds before it repeats a request
	t.Parallel()
	name := storetest.Name()
	p := start(t, built.handler, withStorage(t))
	app, err := client.New(p.url, &client.Options{HTTP: &http.Client{Transport: apptest.NewChecked(t)}})
	if err != nil {
		t.Fatal(err)
	}
	waited := make(chan error, 1)
	go func() {
		w, err := app.Wait(t.Context(), name, 0, 0)
		if err == nil && !w.Passed {
			err = errors.New("not passed")
		}
		waited <- err
	}()
	p.holds(t, name, 1)
	p.kill()
	next := launch(t, built.handler, withStorage(t), "FUNCTIONS_CUSTOMHANDLER_PORT="+strconv.Itoa(p.port))
	next.stopAfter(t)
	next.port, next.url = p.port, p.url
	next.ready(t)
	next.holds(t, name, 1)
	next.gate(t, "POST", name+"/release", "").expectGate(t, "release", 200, true, 1)
	if err := <-waited; err != nil {
		t.Error(err)
	}
}

// TestSharedNames checks that a program that uses azurestore shares the
// sequences, gates and signals of the app.
func TestSharedNames(t *testing.T) {
	app := []string{names.SequencesContainer, names.GatesContainer, names.SignalsTopic}
	if shared := []string{azurestore.SequencesContainer, azurestore.GatesContainer, azurestore.SignalsTopic}; !slices.Equal(app, shared) {
		t.Errorf("the app uses %q, azurestore %q", app, shared)
	}
}
