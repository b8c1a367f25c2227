package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"go/version"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"kennel/client"
	"kennel/internal/dev/azurite"
	devrun "kennel/internal/dev/run"
)

const (
	hereTimeout = 5 * time.Second // of each check from here

	// minGo is the version in go.mod.
	minGo = "go1.26"
)

// A hereCheck is a check that this program makes itself. A failed one has the
// command that mends it.
type hereCheck func(ctx context.Context) (detail, fix string, ok bool)

// checkFromHere finds out why a request to the app failed with this error.
func (con *console) checkFromHere(ctx context.Context, a *app, cause error) (checks []client.Check) {
	run := func(name string, do hereCheck) bool {
		ctx, cancel := context.WithTimeout(ctx, hereTimeout)
		defer cancel()
		began := time.Now()
		detail, fix, ok := do(ctx)
		checks = append(checks, client.Check{Name: name, OK: ok, Detail: oneLine(detail), Fix: fix, Milliseconds: time.Since(began).Milliseconds()})
		return ok
	}
	v := visit{app: a, cause: cause}
	v.url, _ = url.Parse(a.Address()) // the client has parsed it
	run("address", v.address)
	for _, step := range []struct {
		name string
		do   hereCheck
	}{{"name", v.resolve}, {"listener", v.connect}, {"app", v.health}, {"request", v.request}} {
		if !run(step.name, step.do) {
			break // the later steps need the earlier ones
		}
	}
	if isLocal(v.url.Hostname()) {
		run("go", findGo)
		run("node", findNode)
		run("ports", findStorage)
		run("project", con.findProject)
	}
	return checks
}

// visit finds out how far a request to the app gets.
type visit struct {
	app   *app
	url   *url.URL
	cause error
}

func (v visit) local() bool { return isLocal(v.url.Hostname()) }

func (v visit) address(context.Context) (detail, fix string, ok bool) {
	return v.app.Address() + ", from " + v.app.from, "", true
}

func (v visit) resolve(ctx context.Context) (detail, fix string, ok bool) {
	host := v.url.Hostname()
	addresses, err := net.DefaultResolver.LookupHost(ctx, host)
	if err == nil {
		return host + " is " + strings.Join(addresses, ", "), "", true
	}
	detail = fmt.Sprintf("cannot resolve %s: %v", host, err)
	if dns, ok := errors.AsType[*net.DNSError](err); ok && dns.IsNotFound {
		detail = fmt.Sprintf("host %s does not exist; the name is wrong, or the app was deleted", host)
	}
	return detail, `az functionapp list --query "[].defaultHostName" --output tsv`, false
}

func (v visit) connect(ctx context.Context) (detail, fix string, ok bool) {
	port := v.url.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[v.url.Scheme]
	}
	address := net.JoinHostPort(v.url.Hostname(), port)
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err == nil {
		conn.Close()
		return "a program listens at " + address, "", true
	}
	detail = fmt.Sprintf("no program listens at %s: %v", address, err)
	if op, ok := errors.AsType[*net.OpError](err); ok {
		detail = fmt.Sprintf("no program listens at %s: %v", address, op.Err) // the rest is the address again
	}
	switch {
	case strings.HasSuffix(v.app.from, urlFile):
		return detail + "; " + v.app.from + " was left by a `kennel up` that was killed", "rm " + v.app.from + " && kennel up", false
	case v.local():
		return detail, "kennel up", false
	}
	return detail, "az functionapp start " + v.flags(), false
}

// health requests a route that needs no key and no storage.
func (v visit) health(ctx context.Context) (detail, fix string, ok bool) {
	logs := "az webapp log tail " + v.flags()
	publish := fmt.Sprintf("kennel package && az functionapp deployment source config-zip %s --src dist/kennel.zip", v.flags())
	start := "az functionapp start " + v.flags()
	if v.local() {
		logs, publish, start = "kennel up --verbose", "kennel up", "kennel up"
	}
	status, location, body, err := v.get(ctx, "/api/health")
	var healthy struct{ Status string }
	switch {
	case err != nil:
		return "the program that listens does not answer: " + err.Error(), start, false
	case status == 200 && json.Unmarshal(body, &healthy) == nil && healthy.Status == "ok":
		return "the app is up", "", true
	case location != "":
		return fmt.Sprintf("it redirects (%d) to %s", status, location), "kennel doctor --url " + withoutPath(location), false
	case status == 404:
		return "a host answers (404), but has no function Health: this app is not deployed there, or the address is not its own", publish, false
	case status == 403:
		return "a host answers (403): the app is stopped, or does not admit this machine", start, false
	case status == 401:
		return "a host answers (401): it requires a sign-in before the app", "az webapp auth show " + v.flags(), false
	case status >= 500:
		return fmt.Sprintf("a host answers (%d), but the app behind it does not: it starts, or it ends at once", status), logs, false
	}
	return fmt.Sprintf("a program answers (%d) that is not this app", status), publish, false
}

// withoutPath returns the address of an app from the target of a redirect.
func withoutPath(location string) string {
	u, err := url.Parse(location)
	if err != nil || u.Host == "" {
		return "URL"
	}
	return u.Scheme + "://" + u.Host + strings.TrimSuffix(u.Path, "/api/health")
}

// request explains why the request for the checks failed although the app is
// up.
func (v visit) request(context.Context) (detail, fix string, ok bool) {
	key := fmt.Sprintf(`export KENNEL_KEY="$(az functionapp keys list %s --query functionKeys.default --output tsv)"`, v.flags())
	logs := "az webapp log tail " + v.flags()
	if v.local() {
		key, logs = "export KENNEL_KEY=KEY # of kennel up --key", "kennel up --verbose"
	}
	refused, isRefused := errors.AsType[*client.Error](v.cause)
	switch {
	case isRefused && refused.Status == 401 && v.app.key:
		return "the app rejects this function key (401)", key, false
	case isRefused && refused.Status == 401:
		return "the app requires a function key (401), and none is set", key, false
	}
	return "the app is up, but did not complete its checks", logs, false
}

// get sends one request without a key.
func (v visit) get(ctx context.Context, path string) (status int, location string, body []byte, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, v.app.Address()+path, nil)
	if err != nil {
		return 0, "", nil, err
	}
	once := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := once.Do(r)
	if err != nil {
		if failed, ok := errors.AsType[*url.Error](err); ok {
			err = failed.Err // the rest is the address again
		}
		return 0, "", nil, err
	}
	defer answer.Body.Close()
	body, _ = io.ReadAll(io.LimitReader(answer.Body, 1<<10)) // half an answer is not healthy
	return answer.StatusCode, answer.Header.Get("Location"), body, nil
}

// flags names the function app in a command of az.
func (v visit) flags() string { return "--name " + v.name() + " --resource-group GROUP" }

func (v visit) name() string {
	if name, ok := strings.CutSuffix(v.url.Hostname(), ".azurewebsites.net"); ok && !strings.Contains(name, ".") {
		return name
	}
	return "APP"
}

// findGo checks the compiler that "kennel up" builds the handler with.
func findGo(ctx context.Context) (detail, fix string, ok bool) {
	const install = "install Go 1.26 or later from https://go.dev/dl/, or use: kennel up --handler FILE"
	output, err := exec.CommandContext(ctx, "go", "env", "GOVERSION").Output()
	got := strings.TrimSpace(string(output))
	switch {
	case err != nil:
		return "go does not run: " + err.Error(), install, false
	case version.Compare(got, minGo) < 0:
		return got + " is too old", install, false
	}
	return got, "", true
}

// findNode reports whether "kennel up --storage azurite" would run. Without it,
// "kennel up" has storage of its own, so this is no failure.
func findNode(ctx context.Context) (detail, fix string, ok bool) {
	cache, err := os.UserCacheDir()
	if err == nil {
		_, err = azurite.Find(ctx, filepath.Join(cache, "kennel"))
	}
	if err != nil {
		return "not needed, except for kennel up --storage azurite: " + err.Error(), "", true
	}
	return "node and npm can run Azurite, for kennel up --storage azurite", "", true
}

// findStorage reports who uses the usual ports of storage. Occupied ports are no
// failure: "kennel up" then uses others.
func findStorage(ctx context.Context) (detail, fix string, ok bool) {
	var used []string
	for port := azurite.FirstPort; port < azurite.FirstPort+3; port++ {
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/", nil)
		if err != nil {
			return err.Error(), "", true
		}
		answer, err := http.DefaultClient.Do(r)
		if op, isOp := errors.AsType[*net.OpError](err); isOp && op.Op == "dial" {
			continue
		}
		who := "another program"
		if err == nil {
			answer.Body.Close()
			for _, kind := range []string{"Azurite", "devstore"} {
				if strings.Contains(answer.Header.Get("Server"), kind) {
					who = kind
				}
			}
		}
		used = append(used, fmt.Sprintf("%d is used by %s", port, who))
	}
	if len(used) == 0 {
		return fmt.Sprintf("%d-%d are free for storage", azurite.FirstPort, azurite.FirstPort+2), "", true
	}
	return strings.Join(used, ", "), "", true
}

// findProject checks the project that "kennel up" would run in this folder.
func (con *console) findProject(context.Context) (detail, fix string, ok bool) {
	p, err := openProject("")
	if err != nil {
		return err.Error(), "cd FOLDER # with host.json", false
	}
	if _, err := devrun.New(p, con.appSettings(), nil); err != nil {
		return err.Error(), "edit " + filepath.Join(p.Root, "local.settings.json") + ", or unset the variable", false
	}
	if _, err := os.Stat(filepath.Join(p.Root, "dist", "host.json")); err != nil {
		return "valid; there is no dist/ yet, which kennel up builds", "", true
	}
	return "valid; dist/ has a build", "", true
}
