package parts

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"kennel/channels"
	"kennel/deadletters"
	"kennel/gate"
	"kennel/ids"
	"kennel/internal/api"
	"kennel/internal/apptest"
	"kennel/internal/azure"
	"kennel/internal/config"
	"kennel/internal/control"
	"kennel/internal/customhandler"
	"kennel/internal/edge"
	"kennel/internal/instances"
	"kennel/internal/memory"
	"kennel/internal/names"
	"kennel/internal/observe"
	"kennel/internal/program"
	"kennel/internal/queues"
	"kennel/internal/table"
	"kennel/internal/timers"
	"kennel/queue"
)

// callEnd is how a call ends if storage does not respond.
type callEnd struct {
	body              string
	silent, readsOnly string        // the code of the answer; "": it is served
	limit             time.Duration // 0: it is tested elsewhere
}

// callEnds returns how a call of each route ends.
func callEnds() map[string]callEnd {
	const (
		unavailable = "storage_unavailable"
		unclear     = "change_unclear"
		served      = ""
		all         = `{"all":true}`
	)
	return map[string]callEnd{
		"POST /api/sequences/{sequence}/next":         {"", unavailable, unavailable, 10 * time.Second},
		"POST /api/sequences/{sequence}/next/return":  {`{"lease":"x","first":1}`, served, served, edge.CallTimeout}, // it needs no storage
		"GET /api/sequences":                          {"", unavailable, served, edge.CallTimeout},
		"GET /api/sequences/{sequence}":               {"", unavailable, served, edge.CallTimeout},
		"POST /api/sequences/{sequence}/raise":        {`{"atLeast":5}`, "instances_unknown", unclear, edge.CallTimeout},
		"GET /api/gates":                              {"", unavailable, served, edge.CallTimeout},
		"GET /api/gates/{gate}":                       {"", unavailable, served, 20 * time.Second},
		"GET /api/gates/{gate}/waiters":               {"", served, served, edge.CallTimeout}, // of this instance
		"POST /api/gates/{gate}/release":              {"{}", unavailable, unclear, 20 * time.Second},
		"POST /api/gates/{gate}/close":                {"{}", unavailable, served, 20 * time.Second}, // it is closed
		"GET /api/gates/{gate}/wait":                  {"", unavailable, served, api.DefaultWait},
		"GET /api/channels":                           {"", unavailable, served, edge.CallTimeout},
		"PUT /api/channels/{channel}":                 {apptest.Owner, unavailable, unclear, edge.CallTimeout},
		"GET /api/channels/{channel}":                 {"", unavailable, served, edge.CallTimeout},
		"DELETE /api/channels/{channel}":              {"", unavailable, unclear, edge.CallTimeout},
		"GET /api/channels/{channel}/deletion":        {"", unavailable, served, edge.CallTimeout},
		"POST /api/channels/{channel}/blogs":          {apptest.Draft, unavailable, unclear, edge.CallTimeout},
		"GET /api/channels/{channel}/blogs":           {"", unavailable, served, edge.CallTimeout},
		"GET /api/channels/{channel}/blogs/{blog}":    {"", unavailable, served, edge.CallTimeout},
		"PUT /api/channels/{channel}/blogs/{blog}":    {apptest.Draft, unavailable, unclear, edge.CallTimeout},
		"DELETE /api/channels/{channel}/blogs/{blog}": {"", unavailable, unclear, edge.CallTimeout},
		"POST /api/batches":                           {"[" + apptest.Item(1) + "]", unavailable, unavailable, 220 * time.Second}, // a body may arrive slowly
		"GET /api/batches":                            {"", unavailable, served, edge.CallTimeout},
		"GET /api/batches/{batch}":                    {"", unavailable, served, edge.CallTimeout},
		"GET /api/batches/{batch}/results":            {"", unavailable, served, edge.CallTimeout},
		"GET /api/batches/{batch}/report":             {"", unavailable, served, edge.CallTimeout},
		"GET /api/queues":                             {}, // TestQueuesInTime
		"GET /api/queues/{queue}":                     {}, // TestQueuesInTime
		"POST /api/queues/{queue}/messages":           {}, // TestQueuesInTime
		"POST /api/queues/{queue}/pause":              {"{}", unavailable, unclear, edge.CallTimeout},
		"POST /api/queues/{queue}/resume":             {"{}", unavailable, served, edge.CallTimeout}, // it is not paused
		"GET /api/deadletters":                        {"", unavailable, served, edge.CallTimeout},
		"GET /api/deadletters/{queue}":                {"", unavailable, served, edge.CallTimeout},
		"POST /api/deadletters/{queue}/redrive":       {all, unavailable, served, deadletters.MaxCall},
		"POST /api/deadletters/{queue}/delete":        {all, unavailable, served, deadletters.MaxCall},
		"GET /api/timers":                             {"", unavailable, served, edge.CallTimeout},
		"GET /api/timers/{timer}":                     {"", unavailable, served, edge.CallTimeout},
		"POST /api/timers/{timer}/run":                {"", unavailable, unclear, edge.CallTimeout},
		"POST /api/timers/{timer}/pause":              {"{}", unavailable, unclear, edge.CallTimeout},
		"POST /api/timers/{timer}/resume":             {"{}", unavailable, served, edge.CallTimeout}, // it is not paused
		"GET /api/scale":                              {"", unavailable, served, edge.CallTimeout},
		"GET /api/scale/history":                      {"", unavailable, served, edge.CallTimeout},
		"GET /api/scale/rules":                        {"", unavailable, served, edge.CallTimeout},
		"PUT /api/scale/rules":                        {`{"version":1,"depth":[{"from":0,"hands":8}]}`, unclear, unclear, edge.CallTimeout},
		"POST /api/messages/{entity}":                 {"x", "bus_unavailable", "bus_unavailable", api.SendTimeout}, // Service Bus is silent, too
		"GET /api/relay":                              {"", served, served, edge.CallTimeout},
		"POST /api/relay/syphon":                      {"", "bus_unavailable", "bus_unavailable", api.SendTimeout},
		"GET /api/health":                             {}, // uses no storage
		"GET /api/status":                             {}, // TestStatusOfSilentServices
		"GET /api/doctor":                             {}, // TestDoctorInTime
		"GET /api/metrics":                            {"", unavailable, served, edge.CallTimeout},
		"GET /api/openapi.yaml":                       {}, // uses no storage
	}
}

// TestCallsEndInTime: every call ends with 503 in time if storage does not
// respond, or responds to reads only. In the second case a write may still be
// applied.
func TestCallsEndInTime(t *testing.T) {
	const served = ""
	want := callEnds()
	for _, rt := range routes(t) {
		call, ok := want[rt.Pattern]
		if !ok {
			t.Errorf("%s: add its limit to this test", rt.Pattern)
		}
		if call.limit == 0 {
			continue
		}
		for i := range 4 {
			readsOnly, withKey := i%2 == 1, i >= 2
			if withKey && !slices.Contains(rt.Conditions, edge.IdempotencyKey) {
				break
			}
			synctest.Test(t, func(t *testing.T) {
				host, blog := silentApp(t, readsOnly)
				method, path, _ := strings.Cut(rt.Pattern, " ")
				channel := "news"
				if call.body == apptest.Owner {
					channel = "other" // to be created
				}
				if rt.Pattern == "POST /api/batches" {
					path += "?processor=billing"
				}
				path = strings.NewReplacer("{sequence}", "orders", "{gate}", "hounds", "{channel}", channel, "{blog}", blog, "{batch}", "20261122210601123-aaaaaaaa", "{queue}", names.CleanupQueue+queue.PoisonSuffix, "{entity}", "orders", "{timer}", "digest").Replace(path)
				path = strings.Replace(path, "/queues/"+names.CleanupQueue+queue.PoisonSuffix, "/queues/emails", 1)
				r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(call.body))
				r.Header.Set("Content-Type", "application/json")
				if call.body == apptest.Draft && method == "PUT" {
					r.Header.Set("If-Match", "*")
				}
				if withKey {
					r.Header.Set("Idempotency-Key", "k")
				}
				began := time.Now()
				w := apptest.ServeDescribed(t, host, r, call.body)
				code := call.silent
				if readsOnly {
					code = call.readsOnly
				}
				if took := time.Since(began); took > call.limit || code == served && w.Code >= 500 ||
					code != served && (w.Code != 503 || !strings.Contains(w.Body.String(), code) || w.Header().Get("Retry-After") == "") {
					t.Errorf("%s, reads are answered: %v: %d %s after %v, want %s within %v", rt.Pattern, readsOnly, w.Code, w.Body, took, code, call.limit)
				}
			})
		}
	}
}

// TestSlowSender: the time that a caller takes to send its body is not
// storage's.
func TestSlowSender(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		host, err := customhandler.New(nil)
		if err != nil {
			t.Fatal(err)
		}
		inChannels := inMemory(t, &log)
		edge.ServeRoutes(host, api.ChannelResource{Channels: inChannels.channels, Log: inChannels.log}.Routes())
		const body = `{"owner":"ann"}`
		r := httptest.NewRequestWithContext(t.Context(), "PUT", "/api/channels/news", iotest.OneByteReader(slowReader{strings.NewReader(body)}))
		r.Header.Set("Content-Type", "application/json")
		began := time.Now()
		w := apptest.ServeDescribed(t, host, r, body)
		if took := time.Since(began); w.Code != 201 || took < edge.CallTimeout {
			t.Errorf("%d %s after %v, want 201 although the body took longer than %v", w.Code, w.Body, took, edge.CallTimeout)
		}
	})
}

// slowReader takes a second for each read.
type slowReader struct{ io.Reader }

func (s slowReader) Read(p []byte) (int, error) {
	time.Sleep(time.Second)
	return s.Reader.Read(p)
}

// silentApp returns the API on a storage that never responds, or to reads only.
// It holds the channel news with one blog.
func silentApp(t *testing.T, readsOnly bool) (host *customhandler.App, blog string) {
	t.Helper()
	reads := []string{"Get", "Query", "Load", "Receive", "Peek", "Count", "List"}
	return faultyApp(t, slog.New(slog.DiscardHandler), func(c memory.Call) memory.Fault {
		return memory.Fault{Lost: !readsOnly || !slices.Contains(reads, c.Op)}
	})
}

// faultyApp returns the API on a storage that has faults. It holds the channel
// news with one blog.
func faultyApp(t *testing.T, log *slog.Logger, fault func(memory.Call) memory.Fault) (host *customhandler.App, blog string) {
	t.Helper()
	channelTable, blogTable := memory.NewTable(nil), memory.NewTable(nil)
	outbox := memory.NewOutbox(memory.NewQueues(nil), names.CleanupQueue)
	full, err1 := channels.New(channelTable, blogTable, outbox, nil)
	_, _, err2 := full.Create(t.Context(), "news", "ann")
	posted, err3 := full.Post(t.Context(), "news", channels.Draft{Title: "t", UserID: "ann"})

	var faulty atomic.Bool
	o := memory.Options{Fault: func(c memory.Call) memory.Fault {
		if !faulty.Load() {
			return memory.Fault{}
		}
		return fault(c)
	}}
	tables := &memory.TableOptions{Options: o}
	deaf, err4 := channels.New(channelTable.Clone(tables), blogTable.Clone(tables), memory.NewOutbox(memory.NewQueues(&o), names.CleanupQueue), nil)
	flags := memory.NewValues(&o)
	gates, err5 := gate.New(flags, &gate.Options{Log: log})
	stored := memory.NewSequences(&o)
	sequences, err6 := ids.NewSet(stored, &ids.Options{MaxWait: 10 * time.Second})
	silentQueues := memory.NewQueues(&o)
	_, err8 := silentQueues.Put(t.Context(), names.CleanupQueue, "x", 0)
	_, err9 := silentQueues.Put(t.Context(), names.CleanupQueue+queue.PoisonSuffix, "x", 0)
	faulty.Store(true)
	host, err7 := customhandler.New(&customhandler.Options{Log: log})
	if err := errors.Join(err1, err2, err3, err4, err5, err6, err7, err8, err9); err != nil {
		t.Fatal(err)
	}
	edge.ServeRoutes(host, api.ChannelResource{Channels: deaf, Log: log}.Routes())
	batches := newMemoryBatches(t, silentQueues, &o)
	batches.BatchResource.Log = log
	edge.ServeRoutes(host, batches.Routes())
	batches.Functions(host)
	edge.ServeRoutes(host, newMemoryLetters(batches).Routes())
	members := membersOf(memory.NewTable(tables), instances.Functions, log)
	edge.ServeRoutes(host, api.GateResource{Gates: gates, Store: listable{flags}, Members: members}.Routes())
	scaling, err10 := newScalingOn(config.Config{}, scaleStores{memory.NewTable(tables), memory.NewContainer(&o)}, members, log)
	if err10 != nil {
		t.Fatal(err10)
	}
	edge.ServeRoutes(host, scaling.Routes())
	rows, err11 := table.New(memory.NewTable(tables))
	if err11 != nil {
		t.Fatal(err11)
	}
	declared := &program.Declared{Timers: []*program.Timer{{Name: "digest", Schedule: "0 6 * * *"}}}
	digest, err12 := timers.New(declared, rows, &timers.Options{Hosted: true})
	if err12 != nil {
		t.Fatal(err12)
	}
	edge.ServeRoutes(host, api.TimerResource{Timers: digest}.Routes())
	edge.ServeRoutes(host, newMemoryQueues(t, silentQueues, memory.NewTable(tables), members).Routes())
	bus := newMemoryBus()
	bus.fails(silent)
	relaying := newMemoryRelay(bus, bus, true, log)
	relaying.Members = members
	edge.ServeRoutes(host, relaying.Routes())
	edge.ServeRoutes(host, []edge.Route{{Function: "Metrics", Pattern: "GET /api/metrics", Handler: api.ServeMetrics((&observe.Scraper{Members: members}).Text)}})
	edge.ServeRoutes(host, api.SequenceResource{Store: readable{stored}, Sequences: sequences, Members: members, Allowed: []string{"*"}, Log: log}.Routes())
	ctx, cancel := context.WithCancel(t.Context())
	go gates.Run(ctx)
	t.Cleanup(func() {
		cancel()
		sequences.Close(ctx)
		relaying.Close(context.Background())
	})
	return host, posted.ID
}

// newMemoryQueues returns the routes of a program with the queue emails.
func newMemoryQueues(t *testing.T, store *memory.Queues, rows *memory.Table, members *observe.Members) api.QueueResource {
	t.Helper()
	pauses, err1 := control.New(rows, []string{"emails"}, nil)
	d := &program.Declared{Queues: []*program.Queue{{Name: "emails", Handled: 1, Concurrency: 1, MaxAttempts: 1, Timeout: time.Minute}}}
	claimRows, err2 := table.New(rows)
	own, err3 := queues.New(d, store, func(name string) (*queue.Claims, error) {
		return queue.NewKeptClaims(claimRows, memory.NewContainer(nil), name)
	}, nil)
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	return api.QueueResource{Own: own, Pauses: pauses, Members: members}
}

// readable adds to a store in memory what operators see of it.
type readable struct{ *memory.Sequences }

func (r readable) Read(ctx context.Context, sequence string) (azure.StoredSequence, error) {
	v, err := r.Load(ctx, sequence, "")
	if err == nil && v.Version == "" {
		err = ids.ErrNotFound
	}
	return azure.StoredSequence{Name: sequence, Mark: ids.MarkOf(v)}, err
}

func (r readable) List(ctx context.Context, _ int, _ string) ([]azure.StoredSequence, string, error) {
	stored, err := r.Read(ctx, "orders")
	if errors.Is(err, ids.ErrNotFound) {
		return nil, "", nil
	}
	return []azure.StoredSequence{stored}, "", err
}

// listable adds to a store in memory a list that has the gate hounds.
type listable struct{ *memory.Values }

func (l listable) List(ctx context.Context, _ int, continuation string) ([]azure.StoredGate, string, error) {
	if continuation != "" {
		return nil, "", azure.ErrContinuation
	}
	v, err := l.Load(ctx, "hounds", "")
	if err != nil || v.Version == "" {
		return nil, "", err
	}
	state, err := gate.StateOf("hounds", v)
	return []azure.StoredGate{{State: state, Err: err}}, "", nil
}
