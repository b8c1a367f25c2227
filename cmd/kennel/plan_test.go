package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"kennel/devstore"
	"kennel/internal/parts"
	"kennel/internal/program"
	"kennel/internal/storetest"
)

// planned is a program that runs, and the folder of the next build.
type planned struct {
	url, root string
}

// runPlanned serves a program and writes the project that deployed it.
func runPlanned(t *testing.T, d *program.Declared) *planned {
	t.Helper()
	store, err := devstore.Open("", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	r, err := parts.OpenForTest(d, parts.Outside{Environ: []string{"AzureWebJobsStorage=" + store.InProcess()}, Stdout: io.Discard, Stderr: io.Discard, Transport: &http.Client{Transport: store}})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(r.Program.Host)
	t.Cleanup(server.Close)
	p := &planned{server.URL, t.TempDir()}
	// A program whose description is a file: to build another one takes seconds.
	// Its packages of the standard library are those of this test.
	t.Setenv("GOFLAGS", storetest.QuotedBuildFlags())
	p.write(t, "main.go", "package main\n\nimport \"os\"\n\nfunc main() {\n\ttext, err := os.ReadFile(\"next.json\")\n\tif err != nil {\n\t\tpanic(err)\n\t}\n\tos.Stdout.Write(text)\n}\n")
	p.write(t, "go.mod", "module shop\n\ngo 1.26\n")
	p.write(t, "host.json", `{"version":"2.0","customHandler":{"description":{"defaultExecutablePath":"handler"}}}`)
	p.write(t, "functions/Status/function.json", `{"bindings":[{"type":"httpTrigger","direction":"in","name":"req","authLevel":"function","route":"status"},{"type":"http","direction":"out","name":"res"}]}`)
	p.write(t, "infra/app.json", string(d.Describe().Text()))
	t.Chdir(p.root)
	return p
}

func (p *planned) write(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join(p.root, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// send sends a message that nobody receives for an hour.
func (p *planned) send(t *testing.T, queue string) {
	t.Helper()
	answer, err := http.Post(p.url+"/api/queues/"+queue+"/messages?delay=1h", "application/json", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusAccepted {
		t.Fatal(answer.Status)
	}
}

// plan plans the next build.
func (p *planned) plan(t *testing.T, d *program.Declared, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	p.write(t, "next.json", string(d.Describe().Text()))
	var out, errs bytes.Buffer
	args = append([]string{"kennel", "plan", "--url", p.url}, args...)
	code = run(context.Background(), args, environment(os.Environ()), strings.NewReader(""), &out, &errs)
	return code, out.String(), errs.String()
}

func (p *planned) want(t *testing.T, d *program.Declared, args []string, code int, stdout, stderr string) {
	t.Helper()
	got, out, errs := p.plan(t, d, args...)
	if got != code || !strings.Contains(out, stdout) || !strings.Contains(errs, stderr) {
		t.Errorf("plan %q: code %d\n%s%s\nwant %d\n%s%s", args, got, out, errs, code, stdout, stderr)
	}
}

// TestPlan: a plan compares the next build with the app that runs, and messages
// that would be left are an error until that is accepted.
func TestPlan(t *testing.T) {
	now := &program.Declared{Name: "shop",
		Queues: []*program.Queue{{Name: "emails", Handled: 1, Timeout: time.Minute, Work: func(context.Context, []byte) error { return nil }}, {Name: "orders", SendOnly: true}},
		Timers: []*program.Timer{{Name: "digest", Schedule: "0 6 * * *", Zone: "UTC", Work: func(context.Context) error { return nil }}},
	}
	p := runPlanned(t, now)
	p.want(t, now, nil, exitDone, "nothing changes\n", "")
	p.want(t, now, []string{"--json"}, exitDone, `{"program":"shop","queues":[],"timers":[],"functions":[],"settings":[],"roles":[]}`, "")

	next := &program.Declared{Name: "shop", Queues: []*program.Queue{{Name: "mails", Handled: 1}, {Name: "orders", SendOnly: true}},
		Timers: []*program.Timer{{Name: "digest", Schedule: "0 7 * * *", Zone: "Europe/Berlin"}}, Settings: []*program.Setting{{Name: "SMTP_URL", Secret: true}}}
	p.want(t, next, nil, exitDone, "queues\n  gone  emails  it is empty\n  new   mails", "")
	p.want(t, next, nil, exitDone, "timers\n  changed  digest  0 6 * * * UTC -> 0 7 * * * Europe/Berlin\nsettings\n  new  SMTP_URL  required, secret\n", "")
	p.send(t, "emails")
	p.want(t, next, nil, exitFailed, "gone  emails  it has 1 message and 0 dead letters: they would be left",
		"kennel plan: queue emails would have no handler, and it has 1 message and 0 dead letters: name it in FormerNames of the queue that replaces it, or wait until it is empty, or accept it with --drop emails")
	p.want(t, next, []string{"--json"}, exitFailed, `"waiting":1,"deadLetters":0,"strands":true,"dropped":false}`, "--drop emails")
	p.want(t, next, []string{"--json"}, exitFailed, `,"error":{"code":"failed","message":"queue emails would`, "")
	p.want(t, next, []string{"--drop", "emails"}, exitDone, "which is accepted", "")
	p.want(t, next, []string{"--drop", "emails", "--drop", "orders"}, exitUsage, "", `queue "orders", or the program that runs has none`)
	next.Queues[0].FormerNames = []string{"emails"}
	p.want(t, next, nil, exitDone, "queues\n  new  mails", "")

	// A queue of a second binary, which the process that answers does not know.
	now.Queues = append(now.Queues, &program.Queue{Name: "invoices", Handled: 1})
	p.write(t, "infra/app.json", string(now.Describe().Text()))
	p.want(t, next, nil, exitFailed, "gone  invoices  its messages could not be counted", "queue invoices would have no handler, and its messages could not be counted")
	now.Queues = now.Queues[:2]
	p.write(t, "deployed.json", string(now.Describe().Text()))
	p.want(t, next, []string{"--deployed", "deployed.json"}, exitDone, "queues\n  new  mails", "")
	p.write(t, "deployed.json", "{}")
	p.want(t, next, []string{"--deployed", "deployed.json"}, exitFailed, "", "deployed.json is no description of version 1")
	next.Name = "store"
	p.want(t, next, nil, exitFailed, "", `the program that was deployed is "shop", and this is "store"`)
	p.url = "http://127.0.0.1:1"
	next.Name = "shop"
	p.want(t, next, nil, exitFailed, "", "")
}
