package parts

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kennel/devstore"
	"kennel/internal/apptest"
	"kennel/internal/config"
	"kennel/internal/instances"
	"kennel/internal/program"
)

// queueApp is a program with the queue emails, on a store in memory that can be
// silent.
type queueApp struct {
	*Running
	cfg    config.Config
	silent atomic.Bool
	fault  func(*http.Request, *http.Response) (*http.Response, error) // of puts; nil: none
	store  *devstore.Store
}

// RoundTrip implements [http.RoundTripper].
func (q *queueApp) RoundTrip(r *http.Request) (*http.Response, error) {
	if q.silent.Load() {
		<-r.Context().Done()
		return nil, context.Cause(r.Context())
	}
	answer, err := q.store.RoundTrip(r)
	if q.fault != nil && err == nil && r.Method == http.MethodPost {
		return q.fault(r, answer)
	}
	return answer, err
}

func newQueueApp(t *testing.T, changes ...func(*program.Declared)) *queueApp {
	t.Helper()
	store, err := devstore.Open("", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	q := &queueApp{store: store}
	cfg, err := config.Load(map[string]string{"AzureWebJobsStorage": store.InProcess()})
	if err != nil {
		t.Fatal(err)
	}
	q.cfg = cfg
	d := &program.Declared{Name: "shop", Queues: []*program.Queue{{
		Name: "emails", Handled: 1, Concurrency: 3, MaxAttempts: 7, Timeout: time.Minute, Work: func(context.Context, []byte) error { return nil },
		Check: func(body []byte) error {
			var mail struct{ To string }
			if err := json.Unmarshal(body, &mail); err != nil {
				return fmt.Errorf("unreadable: %w", err)
			}
			if mail.To == "eve" {
				return fmt.Errorf("eve gets no mail")
			}
			return nil
		},
	}, {
		Name: "files", Raw: true, Handled: 1, Concurrency: 1, MaxAttempts: 7, Timeout: time.Minute, Work: func(context.Context, []byte) error { return nil },
	}}}
	d.UseAll()
	for _, change := range changes {
		change(d)
	}
	if q.Running, err = Open(cfg, d, Outside{Transport: &http.Client{Transport: q}}, nil, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	return q
}

// call makes a call and checks that docs/openapi.yaml describes it.
func (q *queueApp) call(t *testing.T, method, path, kind, body string) (status int, answer string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	if kind != "" {
		r.Header.Set("Content-Type", kind)
	}
	w := apptest.ServeDescribed(t, q.Program.Host, r, body)
	text, err := io.ReadAll(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	return w.Code, string(text)
}

// TestQueueRoutes: queues are listed, shown and sent to, and what a queue does not
// take is refused before anything is stored.
func TestQueueRoutes(t *testing.T) {
	q := newQueueApp(t)
	const messages, list = "/api/queues/emails/messages", "application/x-ndjson"
	for _, tt := range []struct {
		name, method, path, kind, body string
		status                         int
		want                           string
	}{
		{"a message", "POST", messages, "application/json", `{"to":"ann"}`, 202, `"state":"queued"`},
		{"a message with a delay", "POST", messages + "?delay=1h", "application/json; charset=utf-8", `{"to":"ann"}`, 202, `"state":"queued"`},
		{"no JSON", "POST", messages, "application/json", `{`, 400, "bad_message"},
		{"another content type", "POST", messages, "text/plain", `{"to":"ann"}`, 400, "bad_message"},
		{"what the type does not take", "POST", messages, "application/json", `{"to":"eve"}`, 400, "eve gets no mail"},
		{"a member of another type", "POST", messages, "application/json", `{"to":7}`, 400, `"message":"The queue does not take the message: field \"To\" has the wrong type: number instead of string (near byte 7).","member":"To"`},
		{"a member twice", "POST", messages, "application/json", `{"to":"ann","To":"bob"}`, 400, `duplicate field \"To\"`},
		{"text that is no UTF-8", "POST", messages, "application/json", "{\"to\":\"\xff\"}", 400, "not valid UTF-8 at byte 7"},
		{"half a surrogate", "POST", messages, "application/json", `{"to":"\ud800"}`, 400, "has no other half"},
		{"another charset", "POST", messages, "application/json; charset=latin1", `{"to":"ann"}`, 400, "in UTF-8"},
		{"bytes in another charset", "POST", "/api/queues/files/messages", "text/csv; charset=latin1", "a;\xe9", 202, `"state":"queued"`},
		{"the name of a parameter in capitals", "POST", messages + "?DELAY=soon", "application/json", `{"to":"ann"}`, 400, `delay is \"soon\"`},
		{"a bad delay", "POST", messages + "?delay=soon", "application/json", `{"to":"ann"}`, 400, "bad_delay"},
		{"too long a delay", "POST", messages + "?delay=169h", "application/json", `{"to":"ann"}`, 400, "bad_delay"},
		{"no body", "POST", messages, "application/json", "", 411, "length_required"},
		{"too long a message", "POST", messages, "application/json", `"` + strings.Repeat("a", maxSentOfTests) + `"`, 413, "message_too_large"},
		{"an unknown queue", "POST", "/api/queues/letters/messages", "application/json", `{}`, 404, "queue_not_found"},
		{"a built-in queue", "POST", "/api/queues/work-0/messages", "application/json", `{}`, 409, "queue_built_in"},
		{"many", "POST", messages, list, "{\"body\":{\"to\":\"ann\"}}\n\n{\"body\":{\"to\":\"bob\"},\"delay\":\"1m\"}\n", 202, `{"sent":2,"duplicates":0,"failed":[]}`},
		{"some of many", "POST", messages, list, "{\"body\":{\"to\":\"eve\"}}\n{\"body\":{\"to\":\"bob\"}}\n{\"delay\":\"1m\"}\nx\n", 202, `"sent":1`},
		{"lines beside empty ones", "POST", messages, list, "\n\n{\"body\":{\"to\":7}}\n", 202, `"failed":[{"line":3,"code":"bad_message",`},
		{"lines of more than a message", "POST", messages, list, "{\"body\":{}} {\"body\":2}\n{\"body\":3}x\n", 202, `{"sent":0,"duplicates":0,"failed":[{"line":1,"code":"bad_message"`},
		{"the queue", "GET", "/api/queues/emails", "", "", 200, `"ready":3,"inFlight":2,`},
		{"its details", "GET", "/api/queues/emails", "", "", 200, `"maxAttempts":7,"timeoutSeconds":60,"handled":true`},
		{"its rates and what comes later", "GET", "/api/queues/emails", "", "", 200, `"scheduled":0,`},
		{"its limits", "GET", "/api/queues/emails", "", "", 200, `"limits":[],"donePerSecond":0,"failedPerSecond":0,"lastOkAt":null`},
		{"a built-in one", "GET", "/api/queues/work-0", "", "", 200, `"own":false`},
		{"how it is worked on", "GET", "/api/queues/work-3", "", "", 200, `"maxAttempts":20,"timeoutSeconds":270,"handled":true}`},
		{"one of more partitions than the setting has", "GET", "/api/queues/work-4", "", "", 200, `"maxAttempts":20,"timeoutSeconds":270,"handled":false}`},
		{"none", "GET", "/api/queues/letters", "", "", 404, "queue_not_found"},
		{"all", "GET", "/api/queues", "", "", 200, `{"queue":"emails","own":true,"paused":null,"ready":3`},
		{"a pause", "POST", "/api/queues/emails/pause", "application/json", `{"by":"ann","reason":"the mail server is down"}`, 200, `"by":{"name":"ann","verified":false},"reason":"the mail server is down"},"ready":3`},
		{"a pause again", "POST", "/api/queues/emails/pause", "", "", 200, `"by":{"name":"ann","verified":false},"reason":"the mail server is down"}`},
		{"a paused queue", "GET", "/api/queues/emails", "", "", 200, `"paused":{"at":"`},
		{"the list with it", "GET", "/api/queues", "", "", 200, `"paused":{"at":"`},
		{"the status with it", "GET", "/api/status", "", "", 200, `"paused":{"emails":{"at":"`},
		{"a message for it", "POST", messages, "application/json", `{"to":"ann"}`, 202, `"state":"queued"`},
		{"a resume", "POST", "/api/queues/emails/resume", "application/json", `{}`, 200, `"paused":null,"ready":4`},
		{"a resume again", "POST", "/api/queues/emails/resume", "", "", 200, `"maxAttempts":7`},
		{"too long a reason", "POST", "/api/queues/emails/pause", "application/json", `{"reason":"` + strings.Repeat("a", 1001) + `"}`, 400, "bad_pause"},
		{"too long a name", "POST", "/api/queues/emails/pause", "application/json", `{"by":"` + strings.Repeat("a", 201) + `"}`, 400, "bad_pause"},
		{"a name with a bell", "POST", "/api/queues/emails/pause", "application/json", `{"by":"\u0007"}`, 400, "bad_pause"},
		{"a pause of a built-in queue", "POST", "/api/queues/work-0/pause", "", "", 409, "queue_built_in"},
		{"a pause of none", "POST", "/api/queues/letters/pause", "", "", 404, "queue_not_found"},
	} {
		if status, answer := q.call(t, tt.method, tt.path, tt.kind, tt.body); status != tt.status || !strings.Contains(answer, tt.want) {
			t.Errorf("%s: %d %s, want %d %s", tt.name, status, answer, tt.status, tt.want)
		}
	}
	many := strings.Repeat("{\"body\":{}}\n", 1001)
	if status, answer := q.call(t, "POST", messages, list, many); status != 400 || !strings.Contains(answer, "Nothing was sent") {
		t.Errorf("too many: %d %s", status, answer)
	}
	if status, answer := q.call(t, "POST", messages, list, many[:1000*len("{\"body\":{}}\n")]); status != 202 || !strings.Contains(answer, `"sent":1000`) {
		t.Errorf("as many as are taken: %d %s", status, answer)
	}
}

// TestQueueUnclear: a message of which storage confirms nothing may have been
// sent, and the answer says so; one that storage refuses was not.
func TestQueueUnclear(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueueApp(t)
		const messages = "/api/queues/emails/messages"
		for _, tt := range []struct {
			fault      func(*http.Request, *http.Response) (*http.Response, error)
			one, lines string
		}{
			{func(_ *http.Request, r *http.Response) (*http.Response, error) {
				r.Body.Close()
				return nil, errors.New("connection reset") // after it was applied
			}, "change_unclear", `{"sent":0,"duplicates":0,"failed":[{"line":1,"code":"change_unclear"`},
			{nil, `"state":"queued"`, `"sent":1`},
		} {
			q.fault = tt.fault
			if _, answer := q.call(t, "POST", messages, "application/json", `{"to":"ann"}`); !strings.Contains(answer, tt.one) {
				t.Errorf("got %s, want %s", answer, tt.one)
			}
			if _, answer := q.call(t, "POST", messages, "application/x-ndjson", `{"body":{"to":"ann"}}`); !strings.Contains(answer, tt.lines) {
				t.Errorf("got %s, want %s", answer, tt.lines)
			}
		}
	})
}

// maxSentOfTests is a message that is too long.
const maxSentOfTests = 1 << 20

// TestFormerQueue: a former name of a queue is listed with the queue that drains
// it, has its limits, and takes neither messages nor a pause. The name of a storage
// queue that declared ones share is no queue.
func TestFormerQueue(t *testing.T) {
	q := newQueueApp(t, func(d *program.Declared) {
		d.Queues[0].FormerNames, d.Queues[1].StorageQueue = []string{"mail"}, "jobs"
	})
	const drained = "mail is a former name that is drained by queue emails. Use queue emails."
	const shared = "jobs is the storage queue of queue files. Use the name of the queue."
	for _, tt := range []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"GET", "/api/queues", "", 200, `{"queue":"mail","own":false,"paused":null,`},
		{"GET", "/api/queues", "", 200, `"storageQueue":"mail","drainedBy":["emails"],`},
		{"GET", "/api/queues/mail", "", 200, `"maxAttempts":7,"timeoutSeconds":60,"handled":true}`},
		{"POST", "/api/queues/mail/messages", `{"to":"ann"}`, 404, drained},
		{"POST", "/api/queues/mail/pause", "", 404, drained},
		{"POST", "/api/queues/mail/resume", "", 404, drained},
		{"GET", "/api/queues/jobs", "", 404, shared},
		{"POST", "/api/queues/jobs/messages", `{"to":"ann"}`, 404, shared},
		{"POST", "/api/queues/jobs/pause", "", 404, shared},
	} {
		kind := ""
		if tt.body != "" {
			kind = "application/json"
		}
		if status, answer := q.call(t, tt.method, tt.path, kind, tt.body); status != tt.status || !strings.Contains(answer, tt.want) || tt.status == 404 && !strings.Contains(answer, "queue_not_found") {
			t.Errorf("%s %s: %d %s, want %d %s", tt.method, tt.path, status, answer, tt.status, tt.want)
		}
	}
}

// TestQueueRates: a queue has the rates of all living instances, each within the
// window of its report.
func TestQueueRates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueueApp(t)
		other, err := newEnvironment(q.cfg, &http.Client{Transport: q.store}, nil, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		worked := &atomic.Bool{}
		other.members.Watch(hasWorked{worked})
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		done := make(chan error, 1)
		go func() {
			done <- instances.NewReporter(other.members.Self, other.members.Rows, slog.New(slog.DiscardHandler)).Run(ctx)
		}()
		time.Sleep(40 * time.Second)
		rates := func() (all map[string][2]float64) {
			type item struct {
				Queue                          string
				DonePerSecond, FailedPerSecond float64
			}
			var list struct{ Items []item }
			var parcels item
			_, answer := q.call(t, "GET", "/api/queues", "", "")
			_, one := q.call(t, "GET", "/api/queues/work-0", "", "") // not in the list before it is used
			if err := errors.Join(json.Unmarshal([]byte(answer), &list), json.Unmarshal([]byte(one), &parcels)); err != nil {
				t.Fatal(err)
			}
			all = make(map[string][2]float64)
			for _, one := range append(list.Items, parcels) {
				if one.DonePerSecond+one.FailedPerSecond > 0 {
					all[one.Queue] = [2]float64{one.DonePerSecond, one.FailedPerSecond}
				}
			}
			return all
		}
		if all := rates(); len(all) > 0 {
			t.Errorf("before the work: %v", all)
		}
		worked.Store(true)
		time.Sleep(31 * time.Second)
		all := rates() // of a window of about 30 to 60 s
		if e, w := all["emails"], all["work-0"]; len(all) != 2 || e[0] < 5 || e[0] > 10.5 || e[1] < 1 || e[1] > 2.1 || w[0] < 1 || w[0] > 2.1 || w[1] < 0.5 || w[1] > 1.05 {
			t.Errorf("rates %v", all)
		}
		time.Sleep(90 * time.Second)
		if all := rates(); len(all) > 0 {
			t.Errorf("long after the work: %v", all)
		}
		stop()
		<-done
	})
}

// hasWorked is what a process knows that has worked.
type hasWorked struct{ worked *atomic.Bool }

func (hasWorked) Problems() []instances.Problem { return nil }

func (w hasWorked) Facts(r *instances.Report) {
	mails, parcels := instances.Messaging{}, instances.Work{}
	if w.worked.Load() {
		mails.Outcomes = map[string]int64{"done": 300, "failed": 40, "rejected": 20, "snoozed": 1000}
		parcels = instances.Work{Done: 60, Retried: 29, DeadLetters: 1, Returned: 1000}
	}
	instances.MessagingSection.Add(r, map[string]instances.Messaging{"emails": mails})
	instances.WorkSection.Add(r, map[string]instances.Work{"work-0": parcels})
}

// TestQueuesInTime: calls for queues end in time while storage is silent.
func TestQueuesInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueueApp(t)
		q.silent.Store(true)
		for _, call := range [][]string{{"GET", "/api/queues", ""}, {"GET", "/api/queues/emails", ""}, {"POST", "/api/queues/emails/messages", `{"to":"ann"}`}} {
			began := time.Now()
			status, answer := q.call(t, call[0], call[1], "application/json", call[2])
			if took := time.Since(began); !slices.Contains([]int{503, 504}, status) || took > 11*time.Second {
				t.Errorf("%s %s: %d %s after %v", call[0], call[1], status, answer, took)
			}
		}
	})
}

// TestHandledByAnother: a queue to which this process only sends is handled while
// an instance lives that works on it.
func TestHandledByAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, err := devstore.Open("", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		cfg, err := config.Load(map[string]string{"AzureWebJobsStorage": store.InProcess()})
		if err != nil {
			t.Fatal(err)
		}
		transport, log := &http.Client{Transport: store}, slog.New(slog.DiscardHandler)
		api := &queueApp{store: store}
		handled := func(want bool) {
			t.Helper()
			status, answer := api.call(t, "GET", "/api/queues/emails", "", "")
			if status != 200 || strings.Contains(answer, `"handled":true`) != want {
				t.Errorf("%d %s, want handled: %v", status, answer, want)
			}
		}
		sends := &program.Declared{Name: "shop", Queues: []*program.Queue{{Name: "emails", SendOnly: true}}}
		if api.Running, err = Open(cfg, sends, Outside{Transport: transport}, nil, log); err != nil {
			t.Fatal(err)
		}
		handled(false)
		worker, err := newEnvironment(cfg, transport, nil, log)
		if err != nil {
			t.Fatal(err)
		}
		worker.life = &life{}
		worker.declared = &program.Declared{Name: "shop", Queues: []*program.Queue{{Name: "emails", Handled: 1, Timeout: time.Minute}}}
		works, err := newOwnQueues(worker)
		if err != nil {
			t.Fatal(err)
		}
		worker.members.Watch(works)
		ctx, stop := context.WithCancel(t.Context())
		reporter := instances.NewReporter(worker.members.Self, worker.members.Rows, log)
		done := make(chan error, 1)
		go func() { done <- reporter.Run(ctx) }()
		time.Sleep(40 * time.Second)
		handled(true)
		stop()
		<-done
		time.Sleep(3 * time.Minute)
		handled(false)
		if status, answer := api.call(t, "POST", "/api/queues/emails/messages", "application/json", `{"to":"ann"}`); status != 202 {
			t.Fatal(status, answer)
		}
		time.Sleep(time.Minute) // the sample before the message counts for a while
		for minute := range 6 { // a read of the status samples the queues
			_, answer := api.call(t, "GET", "/api/status", "", "")
			if found := strings.Contains(answer, `"code":"queue_unhandled","subject":"emails"`); found != (minute >= 3) {
				t.Errorf("after %d minutes: a problem: %v", minute, found)
			}
			time.Sleep(time.Minute)
		}
	})
}
