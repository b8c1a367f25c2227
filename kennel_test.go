package kennel

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"kennel/internal/parts"
	"kennel/internal/program"
)

type email struct {
	To string `json:"to"`
}

// nothing is a handler that does nothing.
func nothing(context.Context, email) error { return nil }

// TestMistakes: a program with mistakes does not start, and all of them are
// reported at once, each with the name of what is wrong.
func TestMistakes(t *testing.T) {
	var later *App
	mistakes := func(a *App) error {
		later = a
		NewQueue[email](a, "emails", nil)                                                     // no handler
		NewQueue[email](a, "orders", &QueueOptions[email]{SendOnly: true})                    //
		NewQueue[email](a, "orders", &QueueOptions[email]{SendOnly: true})                    // twice
		NewQueue[chan int](a, "channels-of-go", &QueueOptions[chan int]{SendOnly: true})      // not JSON
		NewQueue[struct{ F func() }](a, "functions-of-go", nil).Handle(nil, nil)              // not JSON, and nil
		NewQueue[email](a, "work-0", nil).Handle(nothing, nil)                                // reserved
		NewQueue[email](a, "mail-poison", nil).Handle(nothing, nil)                           // reserved
		NewQueue[email](a, "Mail", nil).Handle(nothing, nil)                                  // illegal
		q := NewQueue[email](a, "invoices", nil)                                              //
		q.Handle(nothing, nil)                                                                //
		q.Handle(nothing, &HandleOptions[email]{Concurrency: -1})                             // two handlers, negative
		NewQueue[email](a, "both", &QueueOptions[email]{SendOnly: true}).Handle(nothing, nil) // SendOnly and a handler
		a.Timer("digest", "0 6 * * *", nil, nil)                                              // nil
		a.Timer("digest", "0 6 * * *", func(context.Context) error { return nil }, nil)       // twice
		a.Timer("weekly", "0 6 * * MOONDAY", func(context.Context) error { return nil }, nil) // a schedule
		a.Timer("hourly", "@every 1h", func(context.Context) error { return nil }, &TimerOptions{Zone: "Europe/Berlin", MaxAttempts: -1, Timeout: -time.Second})
		NewQueue[email](a, "senseless", nil).Handle(nothing, &HandleOptions[email]{Concurrency: 1 << 62, MaxAttempts: 10_001, Timeout: 169 * time.Hour})
		a.HandleFunc("/hello", func(http.ResponseWriter, *http.Request) {}, nil)      // no method
		a.HandleFunc("GET /status", func(http.ResponseWriter, *http.Request) {}, nil) // built in
		a.HandleFunc("GET /x/{$}", func(http.ResponseWriter, *http.Request) {}, nil)  // {$}
		a.HandleFunc("GET host/x", func(http.ResponseWriter, *http.Request) {}, nil)  // a host
		a.HandleFunc("POST /a/b", func(http.ResponseWriter, *http.Request) {}, nil)   //
		a.HandleFunc("GET /a/c", func(http.ResponseWriter, *http.Request) {}, &RouteOptions{Level: LevelAnonymous})
		a.HandleFunc("GET /nil", nil, nil)
		a.HandleFunc("GET /twice/{a}/{a}", func(http.ResponseWriter, *http.Request) {}, nil) // http.ServeMux panics at these
		a.HandleFunc("GET /open/{a", func(http.ResponseWriter, *http.Request) {}, nil)       //
		a.HandleFunc("GET /both/{x}/b", func(http.ResponseWriter, *http.Request) {}, nil)    //
		a.HandleFunc("GET /both/b/{y}", func(http.ResponseWriter, *http.Request) {}, nil)    //
		a.Setting("smtp_url", nil)                                                           // illegal
		a.Setting("AZURE_CLIENT_ID", nil)
		a.Setting("KENNEL_OWN", nil)                                             // reserved
		a.Setting("PASSWORD", &SettingOptions{Secret: true, Default: "hunter2"}) // a secret with a default
		a.Setting("LOG_FORMAT", &SettingOptions{Default: "xml", Check: func(value string) error {
			if value != "json" {
				return errors.New("use json")
			}
			return nil
		}}) // a default that its Check refuses
		a.Setting("LEVELS", &SettingOptions{Default: "1", Check: func(value string) error { return errors.New(strings.Split(value, ",")[1]) }})
		early := a.Setting("EARLY", nil)
		early.Value()
		a.OnStart(nil)
		a.UseWork(nil)
		a.UseHTTP(nil)
		a.Numbers("Bad Name", nil)
		a.Gate("", nil)
		NewProcessor(a, "numbers-of-go", func(context.Context, int) (int, error) { return 0, nil }, nil) // no object
		NewProcessor(a, "resize", func(context.Context, email) (int, error) { return 0, nil }, &ProcessorOptions[email]{Parcel: 500, Timeout: time.Minute})
		NewQueue[map[[2]int]string](a, "maps-of-go", nil)
		NewQueue[email](a, "renamed", &QueueOptions[email]{FormerNames: []string{"renamed"}})
		NewProcessor(a, "count", func(context.Context, struct {
			ID int `json:"id"`
		}) (int, error) {
			return 0, nil
		}, nil)
		NewProcessor(a, "paint", func(context.Context, email) (chan int, error) { return nil, nil }, nil)
		NewProcessor(a, "crop", func(context.Context, email) (int, error) { return 0, nil }, &ProcessorOptions[email]{MaxAttempts: 51})
		NewProcessor(a, "rotate", func(context.Context, email) (int, error) { return 0, nil }, &ProcessorOptions[email]{Concurrency: -1})
		NewProcessor(a, "tells-nobody", func(context.Context, email) (int, error) { return 0, nil }, nil).OnEnd(nil)
		twice := NewProcessor(a, "tells-twice", func(context.Context, email) (int, error) { return 0, nil }, nil)
		twice.OnEnd(func(context.Context, Batch) error { return nil })
		twice.OnEnd(func(context.Context, Batch) error { return nil })
		return errors.New("the author's own reason")
	}
	var stderr bytes.Buffer
	code := execute(t.Context(), "shop", mistakes, nil, parts.Outside{Stdout: io.Discard, Stderr: &stderr})
	if code != 1 {
		t.Errorf("code %d", code)
	}
	for _, want := range []string{
		`queue "emails" has no handler`, `queue "orders" is declared twice`, `queue "channels-of-go": JSON cannot carry chan int`,
		`queue "functions-of-go": field F`, `queue "functions-of-go": its handler is nil`, `queue "work-0": the name is reserved`, `queue "mail-poison": the name is reserved`,
		`queue "Mail": use lower-case letters`, `queue "invoices" has 2 handlers`, `queue "invoices": HandleOptions.Concurrency is -1`, `queue "senseless": HandleOptions.Concurrency is 4611686018427387904: use up to 10000`, `queue "senseless": HandleOptions.MaxAttempts is 10001`, `queue "senseless": HandleOptions.Timeout is 169h0m0s: use up to 168h0m0s`, `timer "hourly": TimerOptions.MaxAttempts is -1`, `timer "hourly": TimerOptions.Timeout is -1s`, `timer "hourly": the schedule "@every 1h" has no use for the zone Europe/Berlin`, `queue "both" has a handler and is SendOnly`,
		`timer "digest": its function is nil`, `timer "digest" is declared twice`, `timer "weekly": the schedule "0 6 * * MOONDAY": the field "MOONDAY" (day of the week)`, `route "/hello": begin it with one of the methods`, `/api/status belongs to a built-in part`,
		`{$} has no meaning`, `route "GET host/x": the path begins with /`, `route "GET /a/c": another route below /a has the level function`, `route "GET /nil": its handler is nil`,
		`route "GET /twice/{a}/{a}": duplicate wildcard name "a"`, `route "GET /open/{a": bad wildcard segment (must end with '}')`,
		`route "GET /both/b/{y}": GET /both/b/{y} and GET /both/{x}/b both match some paths, like "/both/b/b". But neither is more specific than the other.`,
		`setting "smtp_url": use capital letters`, `setting "KENNEL_OWN": its beginning is reserved`, `setting "AZURE_CLIENT_ID": infra/ or the platform sets it`, `setting "PASSWORD": a secret has no default`, `setting "EARLY" is read before OnStart`,
		`setting "LOG_FORMAT": its Check refuses the default "xml": use json`, `setting "LEVELS": its Check refuses the default "1": its Check panics: runtime error: index out of range`,
		"OnStart: the function is nil", "UseWork: the function is nil", "UseHTTP: the function is nil", `numbers "Bad Name"`, `gate ""`,
		`processor "numbers-of-go": an item is a JSON object`, `processor "resize": ProcessorOptions.Parcel is 500`, `processor "resize": ProcessorOptions.Timeout is 1m0s`, `queue "renamed": FormerNames has "renamed"`, `queue "maps-of-go": JSON cannot carry map[[2]int]string: its keys are no texts`, `which is a text: int is none`, `processor "paint": its result: JSON cannot carry chan int`,
		`processor "crop": ProcessorOptions.MaxAttempts is 51`, `processor "rotate": ProcessorOptions.Concurrency is -1`,
		`processor "tells-nobody": the function of OnEnd is nil`, `processor "tells-twice": OnEnd is called twice`, "the author's own reason",
	} {
		if !strings.Contains(stderr.String(), want) {
			t.Errorf("it does not report %s", want)
		}
	}
	if strings.Contains(stderr.String(), "hunter2") {
		t.Error("it prints a secret")
	}
	if t.Failed() {
		t.Logf("it reports:\n%s", &stderr)
	}

	for name, declare := range map[string]func(){
		"a queue": func() { NewQueue[email](later, "late", nil) }, "a handler": func() { (&Queue[email]{app: later, declared: &program.Queue{}}).Handle(nothing, nil) },
		"a timer": func() { later.Timer("late", "* * * * *", nil, nil) }, "a setting": func() { later.Setting("LATE", nil) },
		"a route": func() { later.HandleFunc("GET /late", nil, nil) }, "a gate": func() { later.Gate("late", nil) },
		"OnStart": func() { later.OnStart(nil) }, "UseWork": func() { later.UseWork(nil) }, "UseHTTP": func() { later.UseHTTP(nil) },
		"EnableAll":   func() { later.EnableAll() },
		"a processor": func() { NewProcessor[email, int](later, "late", nil, nil) }, "OnEnd": func() { (&Processor[email, int]{app: later}).OnEnd(nil) },
	} {
		if p := panicOf(declare); !strings.Contains(fmt.Sprint(p), "the declarations have ended: do it in the function that Main gets") {
			t.Errorf("%s after the declarations: %v", name, p)
		}
	}
}

func panicOf(f func()) (p any) {
	defer func() { p = recover() }()
	f()
	return nil
}

// shop is a program with one of each.
func shop(a *App) error {
	emails := NewQueue[email](a, "emails", nil)
	emails.Handle(nothing, &HandleOptions[email]{Concurrency: 8})
	NewQueue[json.RawMessage](a, "audit", &QueueOptions[json.RawMessage]{StorageQueue: "jobs"}).Handle(func(context.Context, json.RawMessage) error { return nil }, nil)
	a.Timer("digest", "0 6 * * *", func(context.Context) error { return nil }, nil)
	a.HandleFunc("POST /orders/{id}", func(http.ResponseWriter, *http.Request) {}, nil)
	a.Setting("SMTP_URL", &SettingOptions{Secret: true, Description: "the mail server"})
	return nil
}

// TestDescribe: what a program consists of is printed without settings, and the
// same twice.
func TestDescribe(t *testing.T) {
	describe := func() string {
		var out, stderr bytes.Buffer
		if code := execute(t.Context(), "shop", shop, []string{"describe"}, parts.Outside{Stdout: &out, Stderr: &stderr}); code != 0 {
			t.Fatalf("code %d: %s", code, &stderr)
		}
		return out.String()
	}
	text := describe()
	if again := describe(); again != text {
		t.Errorf("a second run differs:\n%s\n%s", text, again)
	}
	var d program.Description
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		t.Fatal(err)
	}
	var functions []string
	for _, f := range d.Functions {
		functions = append(functions, f.Name)
	}
	want := []string{
		"Console", "DeadLetters", "Doctor", "Health", "Metrics", "OpenAPI", "Queue-emails", "Queue-jobs", "Queues", "Route-orders", "Status", "Timer-digest", "Timers",
	}
	if !slices.Equal(functions, want) {
		t.Errorf("functions %q, want %q", functions, want)
	}
	if slices.Contains(d.Roles, "Azure Service Bus Data Owner") || slices.Contains(d.Storage.Tables, "Batches") {
		t.Errorf("it asks for what it does not use: %q, %q", d.Roles, d.Storage.Tables)
	}
}

// TestNames: the numbers of outcomes and levels are those of the packages that
// act on them.
func TestNames(t *testing.T) {
	var names []string
	for o := Done; o <= PutBack; o++ {
		names = append(names, o.String())
	}
	for l := LevelFunction; l <= LevelAdmin; l++ {
		names = append(names, l.String())
	}
	if got, want := strings.Join(names, ", "), "done, failed, rejected, retried later, snoozed, put back, function, anonymous, admin"; got != want {
		t.Errorf("names %s, want %s", got, want)
	}
}

// TestSettings: a program whose settings are missing or wrong does not start,
// and reports all of them without their values.
func TestSettings(t *testing.T) {
	p := func(a *App) error {
		a.Setting("SMTP_URL", &SettingOptions{Secret: true, Description: "the mail server", Check: func(value string) error { return fmt.Errorf("%q is no URL", value) }})
		a.Setting("REGION", nil)
		a.Setting("TOKEN", &SettingOptions{Secret: true})
		a.Setting("COLOR", &SettingOptions{Default: "blue"})
		a.Setting("SIZE", &SettingOptions{Optional: true})
		return nil
	}
	var stderr bytes.Buffer
	code := execute(t.Context(), "shop", p, []string{"worker", "--listen", "127.0.0.1:0"}, parts.Outside{
		Environ: []string{"AzureWebJobsStorage=UseDevelopmentStorage=true", "SMTP_URL=hunter2", "TOKEN=@Microsoft.KeyVault(SecretUri=https://example.com/secrets/token)"}, Stdout: io.Discard, Stderr: &stderr,
	})
	text := stderr.String()
	if code != 1 || !strings.Contains(text, "SMTP_URL") || !strings.Contains(text, "REGION is missing") || !strings.Contains(text, "TOKEN is a reference") || strings.Contains(text, "hunter2") || strings.Contains(text, "COLOR") || strings.Contains(text, "SIZE") {
		t.Errorf("code %d, %s", code, text)
	}
}

// TestNotRunning: what needs the running program reports that it does not run.
func TestNotRunning(t *testing.T) {
	a, err := declare("shop", shop)
	if err != nil {
		t.Fatal(err)
	}
	q := &Queue[email]{app: a, declared: a.declared.Queues[0]}
	_, err1 := q.Send(t.Context(), email{}, nil)
	_, err2 := q.SendAll(t.Context(), slices.Values([]Message[email]{{Body: email{To: "ann"}}}))
	_, err3 := (&Numbers{a, "orders"}).Next(t.Context())
	err4 := (&Gate{a, "start"}).Wait(t.Context())
	_, err5 := (&Messages{a}).Send(t.Context(), "orders", BusMessage{})
	_, err6 := (&Processor[email, int]{app: a}).Submit(t.Context(), slices.Values([]email{{}}), nil)
	for i, err := range []error{err1, err2, err3, err4, err5, err6} {
		if !errors.Is(err, ErrNotRunning) {
			t.Errorf("call %d: %v", i+1, err)
		}
	}
}
