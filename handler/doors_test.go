package main

import (
	"bufio"
	"encoding/json"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"kennel/internal/app"
	"kennel/internal/config"
	"kennel/internal/customhandler"
	"kennel/internal/edge"
	"kennel/internal/storetest"
)

// doors is the whole app in this process, with each route replaced by one that
// only records its call, and what is in front of it: a Functions host that
// checks keys, or a worker's server.
type doors struct {
	mode      string
	app       *customhandler.App
	worker    http.Handler // nil: the app runs behind a host
	functions []hostFunction
	host      *customhandler.Client
	served    []string // patterns of the routes that the request reached
}

// hostFunction is what a host knows of an HTTP function.
type hostFunction struct {
	name    string
	trigger struct {
		Type, Name, AuthLevel, Route string
		Methods                      []string
	}
	address   *regexp.Regexp
	envelopes bool
}

// newDoors returns the app of the table in a mode: on the machine of a
// developer, there in a worker, in Azure without sign-in, and with it.
func newDoors(t *testing.T, mode string) *doors {
	t.Helper()
	env := map[string]string{"AzureWebJobsStorage": "UseDevelopmentStorage=true"}
	switch mode {
	case "Azure":
		env["WEBSITE_INSTANCE_ID"] = "1f0c"
	case "signed in":
		env["WEBSITE_INSTANCE_ID"], env["WEBSITE_AUTH_ENABLED"] = "1f0c", "True"
	}
	cfg, err := config.Load(env)
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	d := &doors{mode: mode}
	if d.app, err = customhandler.New(&customhandler.Options{Log: log}); err != nil {
		t.Fatal(err)
	}
	recorded := func(all []edge.Route) []edge.Route {
		for i := range all {
			all[i].Quota = nil
			all[i].Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				d.served = append(d.served, all[i].Pattern)
				w.Write([]byte("{}"))
			})
		}
		return all
	}
	api := appRoutes(t)
	people := edge.NewPeople(cfg, log).Routes(api)
	if mode != "worker" {
		edge.ServeRoutes(d.app, recorded(api))
	}
	edge.ServeRoutes(d.app, recorded(people))
	if mode == "worker" {
		d.worker = &app.Probes{Console: d.app}
		return d
	}
	served := httptest.NewServer(d.app)
	t.Cleanup(served.Close)
	d.host = customhandler.NewClient(served.URL)
	d.functions = hostFunctions(t)
	return d
}

// hostFunctions reads the HTTP functions of the repository, the most specific
// routes first.
func hostFunctions(t *testing.T) []hostFunction {
	t.Helper()
	files, err := filepath.Glob("../functions/*/function.json")
	if err != nil {
		t.Fatal(err)
	}
	var found []hostFunction
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		f := hostFunction{name: filepath.Base(filepath.Dir(file))}
		var bindings struct{ Bindings []json.RawMessage }
		if err := json.Unmarshal(text, &bindings); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(bindings.Bindings[0], &f.trigger); err != nil {
			t.Fatal(err)
		}
		if f.trigger.Type != "httpTrigger" {
			continue
		}
		address := regexp.QuoteMeta("/api/" + f.trigger.Route)
		address = regexp.MustCompile(`/\\\{\\\*[a-z]+\\\}$`).ReplaceAllString(address, `(/.*)?`)
		address = regexp.MustCompile(`\\\{[a-z]+\\\}`).ReplaceAllString(address, `[^/]+`)
		f.address = regexp.MustCompile(`(?is)^` + address + `/?$`)
		f.envelopes = len(bindings.Bindings) > 2
		found = append(found, f)
	}
	slices.SortStableFunc(found, func(a, b hostFunction) int {
		return strings.Count(a.trigger.Route, "*") - strings.Count(b.trigger.Route, "*")
	})
	if len(found) < 10 {
		t.Fatalf("%d functions", len(found))
	}
	return found
}

// Send sends a request as it is written, and returns the status of the answer.
func (d *doors) Send(t *testing.T, text string) int {
	t.Helper()
	d.served = d.served[:0]
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(text)))
	if err != nil {
		return http.StatusBadRequest
	}
	r = r.WithContext(t.Context())
	if d.worker != nil {
		w := httptest.NewRecorder()
		d.worker.ServeHTTP(w, r)
		return w.Code
	}
	path, err := customhandler.RoutedPath(r)
	if err != nil {
		return http.StatusBadRequest
	}
	at := slices.IndexFunc(d.functions, func(f hostFunction) bool {
		methods := f.trigger.Methods
		return f.address.MatchString(path) &&
			(len(methods) == 0 || slices.ContainsFunc(methods, func(m string) bool { return strings.ToUpper(m) == r.Method }))
	})
	if at < 0 {
		return http.StatusNotFound
	}
	f := d.functions[at]
	if f.trigger.AuthLevel != "anonymous" && !slices.Contains([]string{masterKey, hostKey, ownKey}, keyOf(r)) {
		return http.StatusUnauthorized
	}
	w := httptest.NewRecorder()
	if !f.envelopes {
		if _, err := d.host.Forward(t.Context(), w, r, "id"); err != nil {
			return http.StatusInternalServerError
		}
		return w.Code
	}
	e, err := customhandler.Trigger{Function: f.name, Binding: f.trigger.Name}.HTTP(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	envelope, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	invocation, err := customhandler.NewEnvelopeRequest(t.Context(), "http://127.0.0.1", f.name, envelope)
	if err != nil {
		t.Fatal(err)
	}
	d.app.ServeHTTP(w, invocation)
	var answer struct {
		Outputs struct{ Res struct{ StatusCode int } }
	}
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
		t.Fatalf("%v: %s", err, w.Body)
	}
	if w.Code != http.StatusOK {
		return w.Code
	}
	return answer.Outputs.Res.StatusCode
}

// keyOf returns the key that a host checks: the header counts before the query.
func keyOf(r *http.Request) string {
	key := r.Header.Get("x-functions-key")
	for name, values := range r.URL.Query() {
		if key == "" && strings.EqualFold(name, "code") {
			key = values[0]
		}
	}
	return key
}

// TestEveryDoor sends requests that deviate in one or two respects from one
// that is served, in each mode, to the API and to the console, and requires that
// no route is reached whose row in the table does not admit the caller. Requests
// that the table admits must be served, so that nothing else rejects the others.
func TestEveryDoor(t *testing.T) {
	t.Parallel()
	all, random := slices.Sorted(maps.Keys(needs)), rand.New(rand.NewPCG(37_400, 0))
	once := func(in int) bool { return in <= 1 || random.IntN(in) == 0 }
	identities := identities()
	deviations := []struct {
		count int
		set   func(k *sent, i int)
	}{
		{len(identities), func(k *sent, i int) { k.identity = identities[i] }},
		{len(sites), func(k *sent, i int) { k.site = sites[i] }},
		{len(hosts), func(k *sent, i int) { k.host = hosts[i] }},
		{len(methods), func(k *sent, i int) { k.method = methods[i] }},
		{len(spellings), func(k *sent, i int) {
			k.spelling = spellings[i]
			if random.IntN(4) > 0 {
				k.identity = nothing // a caller who has a key needs no detour
			}
		}},
	}
	requests, reached, holes, statuses := 0, 0, 0, make(map[int]int)
	for _, mode := range []string{"local", "worker", "Azure", "signed in"} {
		d := newDoors(t, mode)
		attempt := func(k *sent) {
			requests++
			status := d.Send(t, k.text())
			statuses[status]++
			reached += len(d.served)
			hole := len(d.served) == 0 && status/100 == 2
			for _, pattern := range d.served {
				hole = hole || !k.mayReach(mode, pattern)
			}
			if hole {
				if holes++; holes <= 20 {
					t.Errorf("%s: %s: %q is %d and reaches %q", mode, k.identity.name, k.text(), status, d.served)
				}
			}
		}
		for _, console := range []bool{false, true} {
			base := sent{console: console, identity: identities[0], site: sites[0], host: hosts[0], spelling: spellings[0]}
			if console && mode == "signed in" {
				base.identity = identities[1]
			} else if console {
				base.identity = nothing
			}
			targets := all
			if console {
				targets = append(slices.Clip(all), "GET /api/me")
			}
			for _, route := range targets {
				for at, one := range deviations[:3] {
					for i := range one.count {
						in := storetest.Scale(80, 1)
						if at == 1 && console {
							in = storetest.Scale(8, 1) // few pages, and the only barrier of the console on a developer's machine
						}
						if !once(in) {
							continue
						}
						k := base
						k.route = route
						one.set(&k, i)
						attempt(&k)
						pattern := route
						if console {
							pattern = strings.Replace(route, " ", " "+edge.ConsoleBase, 1)
						}
						if at < 2 && !k.identity.strange && k.mayReach(mode, pattern) != slices.Equal(d.served, []string{pattern}) {
							t.Errorf("%s: %s: %q reaches %q, want it served: %t", mode, k.identity.name, k.text(), d.served, k.mayReach(mode, pattern))
						}
					}
				}
			}
			for a, one := range deviations {
				in := storetest.Scale(250, 1)
				if a == 4 {
					in = storetest.Scale(6000, 48) // there are many
				}
				for _, two := range deviations[:a] {
					for i := range one.count {
						for j := range two.count {
							if !once(in) {
								continue
							}
							k := base
							k.route = targets[random.IntN(len(targets))]
							one.set(&k, i)
							two.set(&k, j)
							attempt(&k)
						}
					}
				}
			}
		}
	}
	t.Logf("%d requests reached a route; statuses %v; %d callers, %d pages, %d hosts, %d methods, %d spellings", reached, statuses,
		len(identities), len(sites), len(hosts), len(methods), len(spellings))
	t.Logf("figure: requests that reach a route which the access table closes to them (%d) | %d | 0", requests, holes)
}
