package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"kennel/internal/apptest"
	"kennel/internal/azure"
	"kennel/internal/config"
	"kennel/internal/dev/devbus"
	"kennel/internal/faultproxy"
	"kennel/internal/names"
	"kennel/internal/program"
	"kennel/internal/storetest"
)

// inAzure is the configuration of an app that signs in by identity. Its storage
// is that of the test.
func inAzure() config.Config {
	return config.Config{
		Storage:  config.Storage{BlobURL: "https://mystore.blob.core.windows.net", ManagedIdentity: true},
		Platform: config.Platform{App: "my-app", ResourceGroup: "my-group", Host: "~4"},
	}
}

// whole is a program that uses everything.
func whole() Declared {
	d := &program.Declared{Name: "kennel"}
	d.UseAll()
	return Declared{Description: d.Describe()}
}

// diagnosed runs the doctor on an account and returns the findings by name.
func diagnosed(t *testing.T, cfg config.Config, connection string) map[string]Finding {
	t.Helper()
	lanes, err := New(cfg, azure.Account{ConnectionString: connection}, whole(), nil)
	if err != nil {
		t.Fatal(err)
	}
	all := Diagnose(t.Context(), lanes)
	for late := 0; late < 10 && slices.ContainsFunc(all, isLate); late++ { // on a busy machine
		all = Diagnose(t.Context(), lanes)
	}
	findings := make(map[string]Finding)
	for _, f := range all {
		if _, twice := findings[f.Name]; twice || f.OK != (f.Fix == "") || f.Detail == "" {
			t.Errorf("finding %+v; twice: %t, want a detail, and a fix if it is not ok", f, twice)
		}
		findings[f.Name] = f
	}
	return findings
}

// isLate reports whether a check had no answer in time.
func isLate(f Finding) bool { return strings.HasPrefix(f.Detail, "no answer ") }

func failed(findings map[string]Finding) (names []string) {
	for name, f := range findings {
		if !f.OK {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// TestDoctorSignIn: WEBSITE_AUTH_ENABLED alone does not prove that the platform
// signs callers in.
func TestDoctorSignIn(t *testing.T) {
	status, path := 0, ""
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path = r.URL.Path
		w.Header().Set("Location", "https://login.example.com/")
		w.WriteHeader(status)
	}))
	defer server.Close()
	address := strings.TrimPrefix(server.URL, "https://")
	for answer, want := range map[int]string{302: "signs in the callers", 403: "not checked", 404: "any caller can claim", 500: "answered 500"} {
		status = answer
		detail, err := checkSignIn(t.Context(), server.Client().Transport, address)
		if failed := answer == 404 || answer == 500; failed != (err != nil) || !strings.Contains(detail+fmt.Sprint(err), want) || path != "/.auth/login/aad" {
			t.Errorf("%d at %s: %q, %v, want %q", answer, path, detail, err, want)
		}
		if answer != 404 {
			continue
		}
		m := mender{config.Config{Platform: config.Platform{App: "a", ResourceGroup: "g"}}}
		if fix := m.setting(err); !strings.Contains(fix, "appsettings delete") || !strings.Contains(fix, "WEBSITE_AUTH_ENABLED") {
			t.Errorf("fix: %s", fix)
		}
	}
	if detail, err := checkSignIn(t.Context(), nil, ""); err != nil || !strings.Contains(detail, "WEBSITE_HOSTNAME") {
		t.Errorf("without an address: %q, %v", detail, err)
	}
	for _, signedIn := range []bool{true, false} {
		cfg := config.Config{SignedIn: signedIn}
		lanes, err := New(cfg, azure.Account{ConnectionString: "UseDevelopmentStorage=true"}, Declared{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		has := slices.ContainsFunc(slices.Concat(lanes...), func(c Check) bool { return c.Name == "sign-in" })
		if has != signedIn {
			t.Errorf("signed in %t: the check is there: %t", signedIn, has)
		}
	}
}

// TestDoctorDenied denies each right alone: that check fails, its fix names the
// role, and the others are ok.
func TestDoctorDenied(t *testing.T) {
	t.Parallel()
	proxy := apptest.NewProxy(t)
	diagnosed(t, inAzure(), proxy.ConnectionString()) // creates containers, table and queue
	for i, tt := range []struct{ service, operation, check, role string }{
		{"blob", "put", "blobs write", "Storage Blob Data Contributor"},
		{"blob", "get", "blobs read", "Storage Blob Data Contributor"},
		{"blob", "delete", "blobs delete", "Storage Blob Data Contributor"},
		{"table", "insert", "tables write", "Storage Table Data Contributor"},
		{"table", "get", "tables read", "Storage Table Data Contributor"},
		{"table", "delete", "tables delete", "Storage Table Data Contributor"},
		{"queue", "put", "queues put", "Storage Queue Data Contributor"},
		{"queue", "receive", "queues receive", "Storage Queue Data Contributor"},
		{"queue", "clear", "queues delete", "Storage Queue Data Contributor"},
		{"queue", "head", "queues count", "Storage Queue Data Contributor"},
	} {
		if i%storetest.Scale(3, 1) != 0 {
			continue // the sample has two rights to queues, and one of the others
		}
		heal := proxy.Add(faultproxy.Fault{Service: tt.service, Operation: tt.operation, Status: http.StatusForbidden, Code: "AuthorizationPermissionMismatch"})
		findings := diagnosed(t, inAzure(), proxy.ConnectionString())
		heal()
		if got := failed(findings); !slices.Equal(got, []string{tt.check}) {
			t.Errorf("%s %s denied: %q failed, want %s", tt.service, tt.operation, got, tt.check)
		}
		want := `az role assignment create --assignee "$(az functionapp identity show --name my-app --resource-group my-group --query principalId --output tsv)"` +
			` --role "` + tt.role + `" --scope "$(az storage account show --name mystore --query id --output tsv)"`
		if f := findings[tt.check]; f.Fix != want || !strings.Contains(f.Detail, "storage answered 403 AuthorizationPermissionMismatch (request fa017000-") {
			t.Errorf("%+v, want the answer of storage, and the fix %s", f, want)
		}
	}
	// All rights denied: even then the clocks can be compared.
	proxy.Add(faultproxy.Fault{Status: http.StatusForbidden})
	findings := diagnosed(t, inAzure(), proxy.ConnectionString())
	if got := failed(findings); len(got) != 10 || !findings["clock"].OK || !findings["settings"].OK {
		t.Errorf("all denied: %q failed, want the ten rights", got)
	}
	if f := findings["blobs read"]; !strings.Contains(f.Detail, "firewall") || !strings.HasPrefix(f.Fix, "az storage account network-rule add --account-name mystore") {
		t.Errorf("%+v, want the firewall as a possible cause", f)
	}
}

// TestDoctorBus checks what is found about Service Bus, and that no
// subscription is left.
func TestDoctorBus(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		fault  func(*devbus.Local)
		failed []string
		fix    string
	}{
		{"fine", func(*devbus.Local) {}, nil, ""},
		{"no topic", func(b *devbus.Local) { b.Delete(names.SignalsTopic) }, []string{"signals receive", "signals send"},
			"az servicebus topic create --name signals --namespace-name kennel --resource-group my-group"},
		{"may not manage", func(b *devbus.Local) { b.Fail(devbus.Fault{Kind: devbus.Admin, Status: 401}) }, []string{"signals receive"},
			`--role "Azure Service Bus Data Owner" --scope "$(az servicebus namespace list --query "[?name=='kennel'].id" --output tsv)"`},
		{"may not send", func(b *devbus.Local) {
			b.Fail(devbus.Fault{Kind: devbus.RefuseAttach, Entity: names.SignalsTopic, Condition: "amqp:unauthorized-access"})
		}, []string{"signals send"}, `az role assignment create --assignee c1 --role "Azure Service Bus Data Owner"`},
		{"down", func(b *devbus.Local) { b.Fail(devbus.Fault{Kind: devbus.RefuseDial}) }, []string{"signals receive", "signals send"},
			"az servicebus namespace list"},
		{"silent", func(b *devbus.Local) { b.Fail(devbus.Fault{Kind: devbus.BlackHole}) }, []string{"signals receive", "signals send"},
			"az servicebus namespace list"},
	} {
		if tt.name == "silent" && !storetest.Proving() {
			continue // takes five seconds
		}
		bus, _ := apptest.WithBus(t)
		tt.fault(bus)
		cfg := inAzure()
		cfg.ServiceBus = config.ServiceBus{ConnectionString: bus.ConnectionString()}
		// The commands are those of a namespace in Azure.
		m := mender{cfg}
		m.cfg.ServiceBus = config.ServiceBus{Namespace: "kennel.servicebus.windows.net", ManagedIdentity: true, ClientID: "c1"}
		findings := make(map[string]Finding)
		for _, f := range Diagnose(t.Context(), busChecks(cfg.ServiceBus, m)) {
			findings[f.Name] = f
			if !f.OK && !strings.Contains(f.Fix, tt.fix) {
				t.Errorf("%s: %+v, want the fix %s", tt.name, f, tt.fix)
			}
			if tt.name == "silent" && !strings.Contains(f.Detail, "no answer from Service Bus in time") {
				t.Errorf("%+v, want that it is silent", f)
			}
			if f.OK == (f.Fix != "") || strings.Contains(f.Detail, "SharedAccess") {
				t.Errorf("%s: %+v", tt.name, f)
			}
		}
		if got := failed(findings); !slices.Equal(got, tt.failed) || len(findings) != 2 {
			t.Errorf("%s: %q failed, want %q: %+v", tt.name, got, tt.failed, findings)
		}
		for _, entity := range bus.Entities() {
			if strings.Contains(entity, "Subscriptions") {
				t.Errorf("%s: %s is left", tt.name, entity)
			}
		}
	}
	off := Diagnose(t.Context(), busChecks(config.ServiceBus{}, mender{}))
	if len(off) != 1 || off[0].Name != "signals" || !off[0].OK || off[0].Detail != "not configured; gates are polled" {
		t.Errorf("%+v, want signals, not configured", off)
	}
}

// TestDoctorInTime: checks that hang are reported so, within 10 s, and the
// others have their results.
func TestDoctorInTime(t *testing.T) {
	t.Parallel()
	hangs := func(ctx context.Context) (string, error) {
		<-ctx.Done()
		return "", ctx.Err()
	}
	fix := func(error) string { return "mend it" }
	synctest.Test(t, func(t *testing.T) {
		deaf := make(chan struct{}) // a request that ignores its context
		defer close(deaf)
		began := time.Now()
		got := Diagnose(t.Context(), [][]Check{
			{{Name: "a", Do: hangs, fix: fix}, {Name: "b", Do: hangs, fix: fix}, {Name: "c", Do: hangs, fix: fix}},
			{{Name: "d", Do: func(context.Context) (string, error) { <-deaf; return "", nil }, fix: fix, limit: busTimeout}},
			{{Name: "e", Do: func(context.Context) (string, error) { return "fine", nil }}},
		})
		want := []Finding{
			{"a", false, "no answer within 3s", "mend it", 3000},
			{"b", false, "no answer within 3s", "mend it", 3000},
			{"c", false, "no answer within 3s", "mend it", 3000},
			{"d", false, "no answer within 9s", "mend it", 9000},
			{"e", true, "fine", "", 0},
		}
		if diff := cmp.Diff(want, got); diff != "" || time.Since(began) > DoctorTimeout {
			t.Errorf("after %v (-want +got):\n%s", time.Since(began), diff)
		}
	})
	for _, lane := range busChecks(config.ServiceBus{Namespace: "x.servicebus.windows.net"}, mender{}) {
		if len(lane) > 1 || lane[0].limit >= DoctorTimeout {
			t.Errorf("the lane of %s takes too long", lane[0].Name)
		}
	}
}

// TestDoctorOfSilentStorage: storage that never answers is reported so, and a
// service that hangs does not delay what is known of the others.
func TestDoctorOfSilentStorage(t *testing.T) {
	t.Parallel()
	for silent, want := range map[string]int{"": 11, "mystore.table": 3} { // a part of the address
		synctest.Test(t, func(t *testing.T) {
			storage := roundTripper(func(r *http.Request) (*http.Response, error) {
				if strings.Contains(r.URL.Host, silent) {
					<-r.Context().Done()
					return nil, r.Context().Err()
				}
				w := httptest.NewRecorder()
				w.Header().Set("Date", time.Now().UTC().Format(http.TimeFormat))
				w.WriteHeader(http.StatusForbidden)
				answer := w.Result()
				answer.Request = r
				return answer, nil
			})
			account := azure.Account{ConnectionString: "AccountName=mystore;AccountKey=c2VjcmV0;EndpointSuffix=core.windows.net"}
			lanes, err := New(inAzure(), account, whole(), &azure.Options{HTTP: &http.Client{Transport: storage}})
			if err != nil {
				t.Fatal(err)
			}
			began := time.Now()
			hung, denied := 0, 0
			for _, f := range Diagnose(t.Context(), lanes) {
				switch {
				case f.Detail == "no answer within 3s":
					hung++
				case !f.OK && f.Milliseconds == 0:
					denied++
				case !f.OK:
					t.Errorf("%+v", f)
				}
			}
			if took := time.Since(began); hung != want || hung+denied < 10 || took > DoctorTimeout {
				t.Errorf("%q is silent: %d checks hung, want %d; %d were denied, after %v", silent, hung, want, denied, took)
			}
		})
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestDoctorKeepsSecrets checks that no finding contains a key, a signature or
// a connection string, whatever fails.
func TestDoctorKeepsSecrets(t *testing.T) {
	t.Parallel()
	const signature = "sv=2024-01-01&sig=s3cr3tsignature"
	proxy := apptest.NewProxy(t)
	proxy.Add(faultproxy.Fault{Service: "table", Cut: true})
	proxy.Add(faultproxy.Fault{Service: "queue", Status: 500})
	proxy.Add(faultproxy.Fault{Service: "blob", Status: 403})
	endpoints := ""
	for part := range strings.SplitSeq(proxy.ConnectionString(), ";") {
		if strings.Contains(part, "Endpoint=") {
			endpoints += part + ";"
		}
	}
	for _, connection := range []string{
		proxy.ConnectionString(),
		endpoints + "SharedAccessSignature=" + signature,
		"BlobEndpoint=http://127.0.0.1:1/x;TableEndpoint=http://127.0.0.1:1/x;QueueEndpoint=http://127.0.0.1:1/x;SharedAccessSignature=" + signature,
	} {
		cfg := config.Config{Storage: config.Storage{ConnectionString: connection}, Platform: inAzure().Platform}
		cfg.ServiceBus.ConnectionString = "Endpoint=sb://127.0.0.1:1;SharedAccessKeyName=Root;SharedAccessKey=c2VjcmV0;UseDevelopmentEmulator=true"
		findings := diagnosed(t, cfg, connection)
		text, err := json.Marshal(findings)
		if err != nil {
			t.Fatal(err)
		}
		if len(failed(findings)) < 12 {
			t.Errorf("%q failed, want all requests", failed(findings))
		}
		for _, secret := range []string{"s3cr3t", "sig=", "c2VjcmV0", "SharedAccessKey", apptest.StorageKey(t)} {
			if strings.Contains(string(text), secret) {
				t.Errorf("the findings contain %q: %s", secret, text)
			}
		}
	}
}

// TestDoctorOfProgram: the doctor checks what the program declares, and touches
// nothing of the parts that it does not use. It tells which settings are set, and
// no value.
func TestDoctorOfProgram(t *testing.T) {
	t.Parallel()
	d := &program.Declared{
		Name: "shop", Queues: []*program.Queue{{Name: "emails", Handled: 1}},
		Settings: []*program.Setting{{Name: "SHOP_TOKEN", Secret: true}, {Name: "SHOP_LIMIT", Default: "d3fault"}, {Name: "SHOP_NOTE", Optional: true}},
	}
	lanes, err := New(inAzure(), azure.Account{ConnectionString: apptest.NewProxy(t).ConnectionString()}, Declared{d.Describe(), map[string]bool{"SHOP_TOKEN": true}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	details := make(map[string]string)
	for _, f := range Diagnose(t.Context(), lanes) {
		if details[f.Name] = f.Detail; !f.OK && !isLate(f) {
			t.Errorf("%+v", f)
		}
	}
	details["queues count"] = regexp.MustCompile(`kennel-doctor has \d+ messages?`).ReplaceAllString(details["queues count"], "kennel-doctor has some") // another check uses it meanwhile
	for name, want := range map[string]string{
		"blobs write":       "containers uniqueids",
		"tables write":      "tables Instances",
		"tables read":       "tables QueueClaims, Instances",
		"queues count":      "queue emails has 0 messages; queue kennel-doctor has some; batches have 0 queues",
		"declared settings": "SHOP_TOKEN is set, SHOP_LIMIT has its default, SHOP_NOTE is not set",
	} {
		if details[name] != want && !strings.HasPrefix(details[name], "no answer ") {
			t.Errorf("%s: %q, want %q", name, details[name], want)
		}
	}
}
