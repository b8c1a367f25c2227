package parts

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kennel/internal/app"
	"kennel/internal/apptest"
	"kennel/internal/chance"
	"kennel/internal/config"
	"kennel/internal/customhandler"
	"kennel/internal/edge"
	"kennel/internal/memory"
	"kennel/internal/storetest"
)

// secretMark is in every secret of these tests.
const secretMark = "s3cr3t"

// secretSettings are settings with secrets, for the storage account with the
// connection string.
func secretSettings(connection string) []string {
	return []string{
		"AzureWebJobsStorage=" + connection,
		"ServiceBus=Endpoint=sb://bus.servicebus.windows.net/;SharedAccessKeyName=Root;SharedAccessKey=" + secretMark + "OfTheBus/+aaaaaaaaaaaaaaaaaaaaaaaaaaaa=",
		"OTEL_EXPORTER_OTLP_HEADERS=api-key=" + secretMark + "OfTheCollector,x=" + secretMark + `"quoted\Header`,
		"KENNEL_WEBHOOK_ALLOW=https://hooks.example.com/services/T0/" + secretMark + "OfTheHook",
		"KENNEL_LOG_LEVEL=debug",
		"NOT_READ=https://acc.blob.core.windows.net/?sv=1&sig=" + secretMark + "%2BOfAnotherSetting%3D",
	}
}

// leaks are the texts that libraries and services may put into an error, each
// with a secret.
var leaks = []string{
	`Get "https://acc.blob.core.windows.net/uniqueids/orders?sv=2024-11-04&se=2026-01-02T03%3A04%3A05Z&sr=c&sp=rl&sig=` + secretMark + `%2Bsas%3D": EOF`,
	`open DefaultEndpointsProtocol=https;AccountName=acc;AccountKey=` + secretMark + `/key+==;EndpointSuffix=core.windows.net`,
	`dial Endpoint=sb://bus.servicebus.windows.net/;SharedAccessKeyName=Root;SharedAccessKey=` + secretMark + `bus=;EntityPath=signals`,
	`SharedAccessSignature sr=sb%3A%2F%2Fbus&sig=` + secretMark + `%3D&se=1767323045&skn=Root`,
	`map[Accept:[*/*] Authorization:[SharedKey acc:` + secretMark + `aaaaaaaaaaaaaaaa=] X-Ms-Date:[Fri]]`,
	`Authorization: Bearer eyJ0eXAi.` + secretMark + `.c2lnbmF0dXJl`,
	`the header "authorization": "Basic ` + secretMark + `dXNlcjpwYXNzd29yZA==" was refused`,
	`token Bearer eyJ0eXAiOiJKV1QiLCJhbGciOiJSUzI1NiJ9.` + secretMark + ` has expired`,
	`POST https://kennel.azurewebsites.net/api/gates/hounds/release?code=` + secretMark + `==&clientId=default: 401`,
	`x-functions-key: ` + secretMark + `AAAAAAAAAAAAA==`,
	"Cookie: ARRAffinity=1; AppServiceAuthSession=" + secretMark + "; a=b",
	"X-MS-CLIENT-PRINCIPAL: eyJhdXRoX3R5cCI6" + secretMark,
	"X-MS-TOKEN-AAD-ID-TOKEN=eyJ; x-ms-token-aad-access-token: eyJ." + secretMark,
	`proxyconnect https://user:` + secretMark + `@proxy.example:8080/: refused`,
	`{"error":"invalid_client","client_secret=` + secretMark + `&grant_type":"x"}`,
	`{"source":"https://acc.blob.core.windows.net/x?sv=1\u0026sig=` + secretMark + `%3D"}`,
	`{"url":"https://kennel.azurewebsites.net/api/gates?top=1\u0026code=` + secretMark + `"}`,
	`https://login.example/?redirect=https%3A%2F%2Facc.example%2Fx%3Fsig%3D` + secretMark + `%26sv%3D1`,
	`https://login.example/?redirect=%2Fapi%2Fgates%3Fcode%3D` + secretMark,
	`cannot read {"access_token":"eyJ0eXAiOiJKV1Qi.` + secretMark + `.c2lnbmF0dXJl","expires_in":"1"`,
	// Secrets of this app's settings, however they are written.
	"the key " + secretMark + "OfTheAccountAAAA== is not base64",
	"collector refused " + secretMark + "OfTheCollector",
	"collector refused " + secretMark + `"quoted\Header`,
	"sas " + secretMark + "+OfAnotherSetting= has expired",
}

// accountKey is that of the storage account in these tests.
const accountKey = secretMark + "OfTheAccountAAAA=="

// secretCalls makes calls with secrets in every place where a caller or the
// platform can put one.
type secretCalls struct {
	rng    *chance.Source
	routes []edge.Route
	t      *testing.T
}

func (s secretCalls) pick(from ...string) string { return from[s.rng.Below(len(from))] }

// next makes a random call: of a route, mostly with valid values, or of a
// function of a queue.
func (s secretCalls) next(host http.Handler) {
	if s.rng.Below(10) == 0 {
		text := s.pick(secretMark, `{"v":1,"channel":"news","incarnation":"`+secretMark+`"}`, `{"v":2,"key":"`+secretMark+`"`, "{}", "\xff"+secretMark)
		e := customhandler.Trigger{Binding: "message"}.Queue(customhandler.QueueMessage{Text: text, PopReceipt: secretMark})
		body := fmt.Sprintf(`{"Data":{"message":%s},"Metadata":{"secret":%q}}`, e.Data["message"], secretMark)
		if s.rng.Below(4) == 0 {
			body = s.pick(secretMark, `{"Data":"`+secretMark+`"}`, `{"Data":{"`+secretMark[:3]+`":1}}`, body[:len(body)/2])
		}
		host.ServeHTTP(httptest.NewRecorder(), apptest.Enveloped(context.Background(), s.pick("ProcessWork", "ProcessWorkExpress", "BatchSweep", "ChannelCleanup"), body))
		return
	}
	rt := s.routes[s.rng.Below(len(s.routes))]
	if rt.Quota != nil {
		*rt.Quota = edge.Quota{}
	}
	method, path, _ := strings.Cut(rt.Pattern, " ")
	for parameter, value := range validValues {
		path = strings.Replace(path, parameter, s.pick(value, value, value, "unknown", "-", "%2e%2e"), 1)
	}
	path += s.pick("?", "?", "?x="+secretMark+"&") + s.pick("", "code="+secretMark, "CODE="+secretMark+"&clientId=x", "%zz=1&code="+secretMark)
	if rt.Waits {
		path += "&timeout=1s"
	}
	if strings.HasSuffix(rt.Pattern, " /api/batches") {
		path += "&processor=" + s.pick("billing", "webhook")
	}
	body := ""
	if rt.Body {
		body = s.pick(strictBodies[rt.Pattern], strictBodies[rt.Pattern], `{"`+secretMark+`":1}`, secretMark, `{"text":"`+secretMark,
			`[{"id":"1","url":"https://user:`+secretMark+`@hooks.example.com/services/T0/x?token=`+secretMark+`","body":{}}]`)
		if strings.HasPrefix(rt.Pattern, "POST /api/batches") && body[0] == '{' {
			body = "[" + body + "]"
		}
	}
	header := map[string]string{"Content-Type": s.pick("application/json", "application/json", "application/json", "text/plain; charset="+secretMark)}
	for name, value := range map[string]string{
		"X-Functions-Key": secretMark, "Authorization": "Bearer " + secretMark, "Cookie": "AppServiceAuthSession=" + secretMark,
		"X-MS-CLIENT-PRINCIPAL":          base64.StdEncoding.EncodeToString([]byte(`{"claims":[{"typ":"` + secretMark + `"}]}`)),
		"X-MS-TOKEN-AAD-ACCESS-TOKEN":    secretMark,
		"X-Azure-Functions-InvocationId": "Bearer " + secretMark, "X-Request-Id": secretMark, "traceparent": "00-" + secretMark, "Referer": "https://a.example/?code=" + secretMark,
		edge.IfMatch: `"a"`, edge.IfNoneMatch: secretMark, edge.IdempotencyKey: "key", "Accept": secretMark,
	} {
		if s.rng.Below(3) == 0 {
			header[name] = value
		}
	}
	c := rawCall{function: rt.Function, method: s.pick(method, method, method, method, "PATCH"), path: path, body: body, header: header}
	if s.rng.Below(4) == 0 {
		c.enveloped(s.t, host)
	} else {
		c.forwarded(host)
	}
}

// TestNoSecretIsLogged: whatever callers send, and whatever the errors of failing
// stores contain, no line of the log at level debug has a secret. Storage is in
// memory, so that requests can be repeated in virtual time.
func TestNoSecretIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const seed = 19
		calls := storetest.Scale(300, 10_000)
		environ := secretSettings("DefaultEndpointsProtocol=https;AccountName=acc;EndpointSuffix=core.windows.net;AccountKey=" + accountKey)
		var out apptest.Buffer // standard output and standard error in one
		all := routes(t)
		err := app.WithLog(environ, app.NewRedacted(&out, environ), app.NewRedacted(&out, environ), func(_ config.Config, log *slog.Logger) error {
			rng := chance.New(seed, "storage", 0)
			host, _ := faultyApp(t, log, func(memory.Call) memory.Fault {
				switch n := rng.Below(4 * len(leaks)); {
				case n < 2*len(leaks):
					return memory.Fault{Err: errors.New(leaks[n%len(leaks)]), Lost: n < len(leaks)}
				case n%50 == 0:
					return memory.Fault{Lost: true}
				}
				return memory.Fault{}
			})
			s := secretCalls{chance.New(seed, "calls", 0), all, t}
			for range calls {
				s.next(host)
			}
			panics := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(leaks[0]) })
			edge.ServeRoutes(host, []edge.Route{{Function: "Panics", Pattern: "GET /api/panics", Handler: panics}})
			host.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/api/panics", nil))
			time.Sleep(time.Hour) // what goes on without a caller
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		checkLog(t, out.String(), calls/4)
	})
}

// TestNoSecretOfStorageIsLogged is the same with the real clients for storage,
// which meet answers with secrets. No answer of the app has one of them either.
func TestNoSecretOfStorageIsLogged(t *testing.T) {
	t.Parallel()
	var logs apptest.Buffer
	apps, calls := storetest.Scale(4, 16), storetest.Scale(15, 100)
	var running sync.WaitGroup
	for i := range apps { // many at once, because some calls wait
		rng := chance.New(19, "answers", i)
		storage := newRecordedStorage(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			leak := leaks[rng.Below(len(leaks))]
			h := w.Header()
			switch rng.Below(3) {
			case 0:
				h.Set("x-ms-request-id", leak)
			case 1:
				h.Set("x-ms-error-code", leak)
			}
			h.Set("Location", "https://acc.example/?sig="+secretMark)
			h.Set("Content-Type", []string{"application/json", "application/xml"}[rng.Below(2)])
			w.WriteHeader([]int{400, 401, 403, 404, 409, 412, 413, 302, 200}[rng.Below(9)])
			fmt.Fprintf(w, `{"odata.error":{"code":%q,"message":{"value":%q}}}`, leak, leak)
		}))
		environ := secretSettings(storage.connection(accountKey))
		running.Go(func() {
			err := app.WithLog(environ, app.NewRedacted(&logs, environ), app.NewRedacted(&logs, environ), func(cfg config.Config, log *slog.Logger) error {
				a, err := newApp(cfg, log)
				if err != nil {
					return err
				}
				var quick []edge.Route // the others repeat requests for longer
				for _, rt := range a.Routes {
					if path := rt.Pattern; !strings.Contains(path, "/gates") && !strings.Contains(path, "/doctor") && !strings.Contains(path, "/status") && !strings.Contains(path, "/next") {
						quick = append(quick, rt)
					}
				}
				s := secretCalls{chance.New(19, "calls of storage", i), quick, t}
				for range calls {
					s.next(a.Host)
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	running.Wait()
	checkLog(t, logs.String(), apps*calls/4)
}

// checkLog checks that a log has many lines and no secret, and that it can be
// read.
func checkLog(t *testing.T, log string, atLeast int) {
	t.Helper()
	lines, found := 0, 0
	for line := range strings.Lines(log) {
		lines++
		if i := strings.Index(line, secretMark); i >= 0 {
			if found++; found <= 5 {
				t.Errorf("a secret is in the log: …%s", line[max(0, i-300):min(len(line), i+80)])
			}
		}
		if !strings.HasPrefix(line, `{"time":"`) || !strings.HasSuffix(line, "}\n") {
			t.Errorf("the line is no record any more: %s", line)
		}
	}
	t.Logf("figure: lines of the log with a secret, of %d | %d | 0", lines, found)
	if lines < atLeast {
		t.Errorf("the log has only %d lines", lines)
	}
}

// TestRedacted: each text that leaks is redacted and what stands around it is
// kept, as is a text that only resembles one.
func TestRedacted(t *testing.T) {
	environ := secretSettings("AccountName=acc;AccountKey=" + accountKey)
	clean := func(text string) string {
		var out strings.Builder
		if n, err := app.NewRedacted(&out, environ).Write([]byte(text)); err != nil || n != len(text) {
			t.Errorf("Write = %d, %v, want %d", n, err, len(text))
		}
		return out.String()
	}
	for _, leak := range leaks {
		if got := clean("before: " + leak + "\n"); strings.Contains(got, secretMark) || !strings.Contains(got, app.Removed) || !strings.HasPrefix(got, "before: ") || !strings.HasSuffix(got, "\n") {
			t.Errorf("%q became %q", leak, got)
		}
	}
	for _, text := range []string{
		"", "{}", "the namespace has the Basic tier, which has no topics", "storage answered 403 AuthorizationFailure (request 1a-2b)",
		`{"msg":"HTTP call done","pattern":"GET /api/gates/{gate}","status":200}`, "exit code=", "sign in to Service Bus: no identity", "https://acc.blob.core.windows.net/a@b", "bearer of news",
		"the setting AccountKey is missing", "signals: sigma=1", `{"error":{"code":"bad_json"}}`,
	} {
		if got := clean(text); got != text {
			t.Errorf("%q became %q, want it kept", text, got)
		}
	}
	failed := errors.New("the pipe is closed")
	if n, err := app.NewRedacted(failingWriter{failed}, nil).Write([]byte("a")); n != 0 || err != failed {
		t.Errorf("Write = %d, %v, want the error of the writer", n, err)
	}

	// What the program prints before it ends is redacted, too.
	var stderr bytes.Buffer
	code := app.Main(t.Context(), []string{"worker", "--listen", "a?code=" + secretMark}, []string{"AzureWebJobsStorage=UseDevelopmentStorage=true"}, io.Discard, &stderr, nil)
	if code != 1 || strings.Contains(stderr.String(), secretMark) || !strings.Contains(stderr.String(), app.Removed) {
		t.Errorf("exit code %d with %q, want 1 with a redacted text", code, &stderr)
	}
}

type failingWriter struct{ err error }

func (f failingWriter) Write([]byte) (int, error) { return 0, f.err }
