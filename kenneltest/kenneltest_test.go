package kenneltest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"kennel"
	"kennel/internal/storetest"
	"kennel/kenneltest"
)

// order is the message of the tests.
type order struct {
	To    string `json:"to"`
	Fails int    `json:"fails"`
}

// shop is a program with a fake outside.
type shop struct {
	mail   func(to string) error
	orders *kennel.Queue[order]
	start  *kennel.Setting
	began  bool
	stops  *int
}

func (s *shop) program(a *kennel.App) error {
	s.start = a.Setting("GREETING", nil)
	a.OnStart(func(context.Context) (func(context.Context) error, error) {
		s.began = s.start.Value() == "hello"
		return func(context.Context) error { *s.stops++; return nil }, nil
	})
	s.orders = kennel.NewQueue(a, "orders", &kennel.QueueOptions[order]{Validate: func(o order) error {
		if o.To == "" {
			return errors.New("to is missing")
		}
		return nil
	}})
	s.orders.Handle(s.handle, &kennel.HandleOptions[order]{MaxAttempts: 4, Retry: func(failed int, _ error) time.Duration { return time.Duration(failed) * time.Hour }})
	a.HandleFunc("POST /orders", func(w http.ResponseWriter, r *http.Request) {
		var o order
		if err := json.NewDecoder(r.Body).Decode(&o); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		sent, err := s.orders.Send(r.Context(), o, &kennel.SendOptions{Delay: time.Minute})
		if err != nil {
			kennel.Error(w, err)
			return
		}
		w.WriteHeader(http.StatusAccepted)
		io.WriteString(w, sent.ID)
	}, nil)
	numbers := a.Numbers("invoices", nil)
	a.HandleFunc("POST /invoices", func(w http.ResponseWriter, r *http.Request) {
		n, err := numbers.Next(r.Context())
		if err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		json.NewEncoder(w).Encode(n)
	}, nil)
	return nil
}

func (s *shop) handle(ctx context.Context, o order) error {
	a, _ := kennel.Current(ctx)
	if a.Number <= o.Fails {
		return errors.New("no route to host")
	}
	if !s.began {
		return errors.New("it has not begun")
	}
	return s.mail(o.To)
}

func runShop(t *testing.T, f func(*kenneltest.Kit)) {
	t.Helper()
	stops := 0
	kenneltest.Run(t, func(k *kenneltest.Kit) kennel.Program {
		s := &shop{mail: func(to string) error { return k.Effect("mail", to, nil) }, stops: &stops}
		return s.program
	}, f, &kenneltest.Options{Settings: map[string]string{"GREETING": "hello"}})
	if stops != 1 {
		t.Errorf("it was stopped %d times", stops)
	}
}

// TestSettle: attempts follow each other over the waits of Retry, by Kennel's
// clock, and the last one makes a dead letter.
func TestSettle(t *testing.T) {
	runShop(t, func(k *kenneltest.Kit) {
		began := k.Now()
		if sent := k.Send("orders", order{To: "ann"}, nil); sent.ID != "message-1" {
			t.Errorf("the id is %q", sent.ID)
		}
		k.Send("orders", order{To: "bob", Fails: 2}, nil)
		k.Send("orders", map[string]any{"to": "eve", "fails": 9}, nil)
		before := k.Requests()
		k.Settle()
		// Put again twice for bob and three times for eve, and her letter, whose
		// queue is made first. And one read of which queues are paused.
		if n := k.Requests() - before; n != 9 {
			t.Errorf("%d requests", n)
		}
		mails := k.Effects("mail")
		if len(mails) != 2 || mails[0].Key != "ann" || mails[0].At.Sub(began) > time.Minute || mails[1].Key != "bob" || mails[1].At.Sub(began) < 3*time.Hour {
			t.Errorf("mails %v", mails)
		}
		letters := k.DeadLetters("orders")
		if len(letters) != 1 || letters[0].ID != "message-3" || letters[0].Attempts != 4 || letters[0].Reason != "no route to host" || !strings.Contains(string(letters[0].Body), "eve") {
			t.Errorf("dead letters %+v", letters)
		}
	})
}

// TestEffects: an effect can fail before it happens, and although it happened.
func TestEffects(t *testing.T) {
	runShop(t, func(k *kenneltest.Kit) {
		k.FailEffect("mail", false)
		k.FailEffect("mail", true)
		k.Send("orders", order{To: "ann"}, nil)
		k.Settle()
		if mails := k.Effects("mail"); len(mails) != 2 || k.Now().Sub(mails[0].At) < time.Hour {
			t.Errorf("mails %v", mails)
		}
	})
}

// TestClient: routes of the program and of the API are called as through the
// host, and a delay passes by Advance.
func TestClient(t *testing.T) {
	runShop(t, func(k *kenneltest.Kit) {
		call := func(method, path, body string) (int, string) {
			t.Helper()
			r, err := http.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			answer, err := k.Client().Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			text, err := io.ReadAll(answer.Body)
			if err != nil {
				t.Fatal(err)
			}
			return answer.StatusCode, strings.TrimSpace(string(text))
		}
		if status, body := call("POST", "/api/orders", `{"to":"ann"}`); status != 202 || body != "message-1" {
			t.Errorf("%d %s", status, body)
		}
		if status, body := call("POST", "/api/orders", `{}`); status != 400 || !strings.Contains(body, "to is missing") {
			t.Errorf("%d %s", status, body)
		}
		for _, want := range []string{"1", "2"} {
			if status, body := call("POST", "/api/invoices", ""); status != 200 || body != want {
				t.Errorf("%d %s, want %s", status, body, want)
			}
		}
		if status, body := call("GET", "/api/health", ""); status != 200 {
			t.Errorf("%d %s", status, body)
		}
		k.Advance(50 * time.Second)
		if mails := k.Effects("mail"); len(mails) != 0 {
			t.Errorf("mails before the delay is over: %v", mails)
		}
		k.Advance(15 * time.Second)
		if mails := k.Effects("mail"); len(mails) != 1 {
			t.Errorf("mails after the delay: %v", mails)
		}
		if status, body := call("GET", "/api/queues/orders", ""); status != 200 || !strings.Contains(body, `"lastOkAt":"2026-01-01T00:01:0`) {
			t.Errorf("%d %s, want a lastOkAt by Kennel's clock", status, body)
		}
	})
}

// thumbnail is an item of a batch.
type thumbnail struct {
	ID  string `json:"id"`
	URL string `json:"url"`
}

// TestBatch: a batch of a declared processor ends in Settle, and its results are
// read with their type.
func TestBatch(t *testing.T) {
	var p *kennel.Processor[thumbnail, string]
	var submit func(context.Context) (kennel.Batch, error)
	build := func(k *kenneltest.Kit) kennel.Program {
		return func(a *kennel.App) error {
			p = kennel.NewProcessor(a, "thumbnails", func(ctx context.Context, image thumbnail) (string, error) {
				attempt, _ := kennel.Current(ctx)
				switch {
				case attempt.Processor != "thumbnails" || attempt.Batch == "" || attempt.Item != image.ID:
					return "", errors.New("the attempt is unknown")
				case image.ID == "2":
					return "", kennel.Reject(errors.New("no image"))
				case image.ID == "3" && attempt.Number == 1:
					return "", errors.New("try again")
				}
				return image.URL + "?small", k.Effect("made", image.ID, nil)
			}, nil)
			submit = func(ctx context.Context) (kennel.Batch, error) {
				return p.Submit(ctx, slices.Values([]thumbnail{{"1", "a"}, {"2", "b"}, {"3", "c"}}), nil)
			}
			return nil
		}
	}
	kenneltest.Run(t, build, func(k *kenneltest.Kit) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		batch, err := submit(ctx)
		if err != nil {
			t.Fatal(err)
		}
		k.Settle()
		if batch, err = p.Batch(ctx, batch.ID); err != nil || !batch.Ended() || batch.Done != 2 || batch.Rejected != 1 {
			t.Errorf("batch %+v, %v", batch, err)
		}
		got := make(map[string]kennel.Result[string])
		for result, err := range p.Results(ctx, batch.ID) {
			if err != nil {
				t.Fatal(err)
			}
			got[result.ID] = result
		}
		if len(got) != 3 || got["1"].Value != "a?small" || got["2"].State != kennel.Rejected || !strings.Contains(got["2"].Error, "no image") || got["3"].Value != "c?small" {
			t.Errorf("results %+v", got)
		}
	}, nil)
}

// TestItemsAsTheyAre: items whose field ID has no tag keep their ids, others get
// their place, and the result of an item whose function panics has no stack.
func TestItemsAsTheyAre(t *testing.T) {
	type named struct{ ID, Text string }
	type plain struct{ Text string }
	var names *kennel.Processor[named, string]
	var plains *kennel.Processor[plain, string]
	build := func(*kenneltest.Kit) kennel.Program {
		return func(a *kennel.App) error {
			names = kennel.NewProcessor(a, "names", func(_ context.Context, n named) (string, error) { return n.ID + n.Text, nil }, nil)
			plains = kennel.NewProcessor(a, "plains", func(_ context.Context, p plain) (string, error) { panic("boom") }, &kennel.ProcessorOptions[plain]{MaxAttempts: 1})
			return nil
		}
	}
	kenneltest.Run(t, build, func(k *kenneltest.Kit) {
		one, err1 := names.Submit(t.Context(), slices.Values([]named{{"aa", "x"}, {"bb", "y"}}), nil)
		two, err2 := plains.Submit(t.Context(), slices.Values([]plain{{"x"}}), nil)
		if err := errors.Join(err1, err2); err != nil {
			t.Fatal(err)
		}
		k.Settle()
		var got []string
		for result, err := range names.Results(t.Context(), one.ID) {
			got = append(got, fmt.Sprint(result.ID, " ", result.Value, err))
		}
		for result, err := range plains.Results(t.Context(), two.ID) {
			got = append(got, fmt.Sprint(result.ID, " ", result.Error, err))
		}
		if want := []string{"aa aax<nil>", "bb bby<nil>", "1 attempt 1 of 1: panic: boom<nil>"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}, nil)
}

// TestAttemptsOfItems: what a function returns for an item means what it means
// for a message, and the options of its processor hold.
func TestAttemptsOfItems(t *testing.T) {
	type seen struct {
		number, of int
		at         time.Duration
	}
	var mu sync.Mutex
	var p *kennel.Processor[thumbnail, string]
	calls := make(map[string][]seen)
	var waits []int
	build := func(k *kenneltest.Kit) kennel.Program {
		start := k.Now()
		return func(a *kennel.App) error {
			p = kennel.NewProcessor(a, "thumbnails", func(ctx context.Context, image thumbnail) (string, error) {
				attempt, _ := kennel.Current(ctx)
				mu.Lock()
				defer mu.Unlock()
				calls[image.ID] = append(calls[image.ID], seen{attempt.Number, attempt.MaxAttempts, kennel.Now(ctx).Sub(start)})
				switch n := len(calls[image.ID]); {
				case image.ID == "snoozed" && n <= 2:
					return "", kennel.Snooze(2 * time.Hour)
				case image.ID == "later" && n == 1:
					return "", kennel.RetryAfter(20*time.Minute, errors.New("too many requests"))
				case image.ID == "broken":
					return "", errors.New("broken")
				}
				return image.URL, nil
			}, &kennel.ProcessorOptions[thumbnail]{MaxAttempts: 3, Concurrency: 2, Retry: func(failed int, err error) time.Duration {
				mu.Lock()
				defer mu.Unlock()
				waits = append(waits, failed)
				return time.Duration(failed) * 5 * time.Minute
			}})
			return nil
		}
	}
	kenneltest.Run(t, build, func(k *kenneltest.Kit) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		batch, err := p.Submit(ctx, slices.Values([]thumbnail{{"done", "a"}, {"snoozed", "b"}, {"later", "c"}, {"broken", "d"}}), nil)
		if err != nil {
			t.Fatal(err)
		}
		k.Settle()
		if batch, err = p.Batch(ctx, batch.ID); err != nil || !batch.Ended() || batch.Done != 3 || batch.Failed != 1 {
			t.Errorf("batch %+v, %v", batch, err)
		}
		for result, err := range p.Results(ctx, batch.ID) {
			if err != nil || result.ID == "broken" && !strings.Contains(result.Error, "attempt 3 of 3: broken") {
				t.Errorf("result %+v, %v", result, err)
			}
		}
	}, nil)
	if !slices.Equal(waits, []int{1, 2}) {
		t.Errorf("Retry was asked after the attempts %v, want 1 and 2", waits)
	}
	for id, want := range map[string][]seen{
		"done":    {{1, 3, 0}},
		"snoozed": {{1, 3, 0}, {1, 3, 2 * time.Hour}, {1, 3, 4 * time.Hour}},
		"later":   {{1, 3, 0}, {2, 3, 20 * time.Minute}},
		"broken":  {{1, 3, 0}, {2, 3, 5 * time.Minute}, {3, 3, 15 * time.Minute}},
	} {
		got := calls[id]
		if len(got) != len(want) {
			t.Errorf("item %s: %v, want %v", id, got, want)
			continue
		}
		for i := range want { // an item waits up to an eighth longer, so that others share its message
			if got[i].number != want[i].number || got[i].of != want[i].of || got[i].at < want[i].at-time.Minute || got[i].at > want[i].at*5/4+time.Minute {
				t.Errorf("item %s: %v, want %v", id, got, want)
			}
		}
	}
}

// TestFailNow: a timer that calls FailNow of the test ends the test.
func TestFailNow(t *testing.T) {
	f := &failing{TB: t}
	done := make(chan struct{})
	calls, went := 0, false
	go func() {
		defer close(done)
		kenneltest.Run(f, func(*kenneltest.Kit) kennel.Program {
			return func(a *kennel.App) error {
				a.Timer("digest", "@every 10m", func(context.Context) error {
					calls++
					f.Fatalf("no mail")
					return nil
				}, nil)
				return nil
			}
		}, func(k *kenneltest.Kit) {
			k.Advance(time.Hour)
			went = true
		}, nil)
	}()
	<-done
	if f.text != "no mail" || calls != 1 || went {
		t.Errorf("the timer was called %d times, the test went on: %v, %q", calls, went, f.text)
	}
}

// TestSettleEnds: a handler that sends itself a message, again and again, ends the
// test and not its patience.
func TestSettleEnds(t *testing.T) {
	storetest.OnlyInProve(t)
	f := &failing{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		var q *kennel.Queue[order]
		kenneltest.Run(f, func(*kenneltest.Kit) kennel.Program {
			return func(a *kennel.App) error {
				q = kennel.NewQueue[order](a, "orders", nil)
				q.Handle(func(ctx context.Context, o order) error {
					_, err := q.Send(ctx, o, nil)
					return err
				}, nil)
				return nil
			}
		}, func(k *kenneltest.Kit) {
			if _, err := q.Send(t.Context(), order{}, nil); err != nil {
				t.Error(err)
			}
			k.Settle()
		}, nil)
	}()
	<-done
	if !strings.Contains(f.text, "without time between them") {
		t.Errorf("the test ended with %q", f.text)
	}
}

// TestRetryPanics: after a Retry of a timer that panics, the default wait is used,
// as it is outside of tests.
func TestRetryPanics(t *testing.T) {
	calls := 0
	kenneltest.Run(t, func(*kenneltest.Kit) kennel.Program {
		return func(a *kennel.App) error {
			a.Timer("digest", "@every 10m", func(context.Context) error {
				if calls++; calls == 1 {
					return errors.New("no mail")
				}
				return nil
			}, &kennel.TimerOptions{Retry: func(int, error) time.Duration { panic("oh") }})
			return nil
		}
	}, func(k *kenneltest.Kit) {
		k.Advance(10*time.Minute + 5*time.Second)
		if calls != 2 {
			t.Errorf("%d calls, want 2", calls)
		}
	}, nil)
}

// TestMistakes: a test that uses an undeclared queue, or a body that the queue
// does not take, ends with a reason.
func TestMistakes(t *testing.T) {
	for name, use := range map[string]func(*kenneltest.Kit){
		`queue "orderz"`:  func(k *kenneltest.Kit) { k.Send("orderz", order{To: "ann"}, nil) },
		"to is missing":   func(k *kenneltest.Kit) { k.Send("orders", order{}, nil) },
		"json: cannot":    func(k *kenneltest.Kit) { k.Send("orders", "ann", nil) },
		`queue "letters"`: func(k *kenneltest.Kit) { k.DeadLetters("letters") },
	} {
		f := &failing{TB: t}
		done := make(chan struct{})
		go func() {
			defer close(done)
			stops := 0
			kenneltest.Run(f, func(k *kenneltest.Kit) kennel.Program {
				return (&shop{mail: func(string) error { return nil }, stops: &stops}).program
			}, use, &kenneltest.Options{Settings: map[string]string{"GREETING": "hello"}})
		}()
		<-done
		if !strings.Contains(f.text, name) {
			t.Errorf("want %s, got %q", name, f.text)
		}
	}
}

// TestTimers: Advance runs the slots that come, and the attempts of one that
// failed, until the next slot begins.
func TestTimers(t *testing.T) {
	build := func(k *kenneltest.Kit) kennel.Program {
		return func(a *kennel.App) error {
			digests := kennel.NewQueue[order](a, "digests", nil)
			digests.Handle(func(ctx context.Context, o order) error { return k.Effect("digest", o.To, nil) }, nil)
			a.Timer("digest", "0 6 * * *", func(ctx context.Context) error {
				attempt, _ := kennel.Current(ctx)
				if err := k.Effect("slot", attempt.Slot.Format(time.DateTime), nil); err != nil {
					return err
				}
				if !kennel.Now(ctx).Equal(k.Now()) {
					return kennel.Reject(errors.New("the clocks differ"))
				}
				_, err := digests.Send(ctx, order{To: attempt.Slot.Format(time.DateOnly)}, nil)
				return err
			}, &kennel.TimerOptions{Zone: "Europe/Berlin", Retry: func(failed int, _ error) time.Duration { return time.Hour }})
			return nil
		}
	}
	kenneltest.Run(t, build, func(k *kenneltest.Kit) {
		k.Settle()
		if n := len(k.Effects("slot")); n != 0 {
			t.Errorf("%d slots without Advance", n)
		}
		k.Advance(5 * time.Hour) // 06:00 in Berlin
		k.FailEffect("slot", false)
		k.FailEffect("slot", false)
		k.Advance(24 * time.Hour)
		slots, digests := k.Effects("slot"), k.Effects("digest")
		if len(slots) != 1 || slots[0].Key != "2026-01-01 05:00:00" || len(digests) != 1 {
			t.Errorf("while the second slot fails: slots %v, digests %v", slots, digests)
		}
		k.Advance(2 * time.Hour)
		if slots, digests = k.Effects("slot"), k.Effects("digest"); len(slots) != 2 || slots[1].Key != "2026-01-02 05:00:00" || len(digests) != 2 || digests[1].Key != "2026-01-02" {
			t.Errorf("slots %v, digests %v", slots, digests)
		}
	}, &kenneltest.Options{Start: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)})
}

// TestMissedSlots: slots that Settle passes over are missed. The next Advance
// runs the newest one or, with CatchUp, each, the oldest first.
func TestMissedSlots(t *testing.T) {
	for _, tt := range []struct {
		catchUp bool
		fails   bool // the first attempt
		want    []string
	}{
		{false, false, []string{"03:00"}},
		{true, false, []string{"01:00", "02:00", "03:00"}},
		{false, true, []string{"03:00"}},
		{true, true, []string{"01:00", "02:00", "03:00"}},
	} {
		build := func(k *kenneltest.Kit) kennel.Program {
			return func(a *kennel.App) error {
				later := kennel.NewQueue[order](a, "later", nil)
				later.Handle(func(context.Context, order) error { return nil }, nil)
				a.Timer("hourly", "0 * * * *", func(ctx context.Context) error {
					attempt, _ := kennel.Current(ctx)
					return k.Effect("slot", attempt.Slot.Format("15:04"), nil)
				}, &kennel.TimerOptions{CatchUp: tt.catchUp, Retry: func(int, error) time.Duration { return 10 * time.Second }})
				return nil
			}
		}
		kenneltest.Run(t, build, func(k *kenneltest.Kit) {
			k.Send("later", order{}, &kennel.SendOptions{Delay: 3 * time.Hour})
			k.Settle()
			if n := len(k.Effects("slot")); n != 0 {
				t.Errorf("%d slots without Advance", n)
			}
			if tt.fails {
				k.FailEffect("slot", false)
			}
			k.Advance(time.Minute)
			var got []string
			for _, e := range k.Effects("slot") {
				got = append(got, e.Key)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("CatchUp %v, a failure %v: slots %v, want %v", tt.catchUp, tt.fails, got, tt.want)
			}
			k.Advance(20 * time.Minute)
			if n := len(k.Effects("slot")); n != len(tt.want) {
				t.Errorf("CatchUp %v, a failure %v: %d slots before the next one begins", tt.catchUp, tt.fails, n)
			}
			k.Advance(10 * time.Minute) // 04:01
			if n := len(k.Effects("slot")); n != len(tt.want)+1 {
				t.Errorf("CatchUp %v, a failure %v: %d slots after 04:00", tt.catchUp, tt.fails, n)
			}
		}, &kenneltest.Options{Start: time.Date(2026, 1, 1, 0, 30, 0, 0, time.UTC)})
	}
}

// TestLogHandler: a line of a handler has its attempt and the invocation at the
// top, also from a logger with a group.
func TestLogHandler(t *testing.T) {
	var lines bytes.Buffer
	log := slog.New(kennel.LogHandler(slog.NewJSONHandler(&lines, nil))).WithGroup("mail")
	build := func(*kenneltest.Kit) kennel.Program {
		return func(a *kennel.App) error {
			kennel.NewQueue[order](a, "orders", nil).Handle(func(ctx context.Context, o order) error {
				log.InfoContext(ctx, "sent", "to", o.To)
				return nil
			}, nil)
			return nil
		}
	}
	kenneltest.Run(t, build, func(k *kenneltest.Kit) {
		k.Send("orders", order{To: "ann"}, nil)
		k.Settle()
	}, nil)
	var line struct {
		Invocation, Function string
		Attempt              struct{ Queue string }
		Mail                 map[string]string
	}
	if err := json.Unmarshal(lines.Bytes(), &line); err != nil || line.Invocation == "" || line.Function != "Queue-orders" || line.Attempt.Queue != "orders" || len(line.Mail) != 1 {
		t.Errorf("%v: %s", err, &lines)
	}
}

// TestPrefix: a program with a prefix is called for its queues, too.
func TestPrefix(t *testing.T) {
	stops := 0
	kenneltest.Run(t, func(k *kenneltest.Kit) kennel.Program {
		s := &shop{mail: func(to string) error { return k.Effect("mail", to, nil) }, stops: &stops}
		return s.program
	}, func(k *kenneltest.Kit) {
		k.Send("orders", order{To: "ann", Fails: 1}, nil)
		k.Send("orders", order{To: "eve", Fails: 9}, nil)
		k.Settle()
		if mails, letters := k.Effects("mail"), k.DeadLetters("orders"); len(mails) != 1 || len(letters) != 1 {
			t.Errorf("mails %v, dead letters %+v", mails, letters)
		}
	}, &kenneltest.Options{Settings: map[string]string{"GREETING": "hello", "KENNEL_PREFIX": "test2"}})
}

// TestIDsInOrder: the ids of many messages follow their order, so that a test can
// name them.
func TestIDsInOrder(t *testing.T) {
	var q *kennel.Queue[order]
	kenneltest.Run(t, func(*kenneltest.Kit) kennel.Program {
		return func(a *kennel.App) error {
			q = kennel.NewQueue(a, "orders", &kennel.QueueOptions[order]{SendOnly: true})
			return nil
		}
	}, func(*kenneltest.Kit) {
		sent, err := q.SendAll(t.Context(), slices.Values(make([]kennel.Message[order], 50)))
		for i, s := range sent {
			if want := fmt.Sprintf("message-%d", i+1); s.ID != want {
				t.Errorf("message %d has the id %s", i+1, s.ID)
			}
		}
		if err != nil || len(sent) != 50 {
			t.Errorf("%d messages sent, %v", len(sent), err)
		}
	}, nil)
}

// TestSubmitEnds: the end of its context ends Submit while its sequence waits.
func TestSubmitEnds(t *testing.T) {
	var p *kennel.Processor[thumbnail, string]
	build := func(*kenneltest.Kit) kennel.Program {
		return func(a *kennel.App) error {
			p = kennel.NewProcessor(a, "thumbnails", func(context.Context, thumbnail) (string, error) { return "", nil }, nil)
			return nil
		}
	}
	kenneltest.Run(t, build, func(k *kenneltest.Kit) {
		ctx, cancel := context.WithCancel(t.Context())
		release := make(chan struct{})
		defer close(release)
		_, err := p.Submit(ctx, func(yield func(thumbnail) bool) {
			yield(thumbnail{ID: "a"})
			cancel()
			<-release
		}, nil)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
	}, nil)
}

// TestPanicsOfSenders: a panic of Validate, or of the sequence, while many messages
// or the items of a batch are sent, is an error of the caller, and not the end of
// the process.
func TestPanicsOfSenders(t *testing.T) {
	validate := func(thumbnail) error { panic("oh") }
	var q *kennel.Queue[thumbnail]
	var p *kennel.Processor[thumbnail, string]
	build := func(*kenneltest.Kit) kennel.Program {
		return func(a *kennel.App) error {
			q = kennel.NewQueue(a, "images", &kennel.QueueOptions[thumbnail]{Validate: validate, SendOnly: true})
			p = kennel.NewProcessor(a, "thumbnails", func(context.Context, thumbnail) (string, error) { return "", nil }, &kennel.ProcessorOptions[thumbnail]{Validate: validate})
			return nil
		}
	}
	one := []thumbnail{{ID: "a"}}
	kenneltest.Run(t, build, func(k *kenneltest.Kit) {
		for name, send := range map[string]func() error{
			"SendAll": func() error {
				_, err := q.SendAll(t.Context(), slices.Values([]kennel.Message[thumbnail]{{Body: one[0]}}))
				return err
			},
			"Submit": func() error {
				_, err := p.Submit(t.Context(), slices.Values(one), nil)
				return err
			},
			"Submit of a sequence that panics": func() error {
				_, err := p.Submit(t.Context(), func(func(thumbnail) bool) { panic("oh") }, nil)
				return err
			},
			"Submit of a sequence that ends its goroutine": func() error {
				_, err := p.Submit(t.Context(), func(func(thumbnail) bool) { runtime.Goexit() }, nil)
				return err
			},
		} {
			err := send()
			var panicked *kennel.PanicError
			if isGoexit := strings.Contains(name, "goroutine"); err == nil || errors.As(err, &panicked) == isGoexit {
				t.Errorf("%s: %v", name, err)
			}
		}
	}, nil)
}
