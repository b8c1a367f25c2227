//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"kennel/client"
)

const (
	fine    = `{"name":"blobs read","ok":true,"detail":"three containers","fix":"","milliseconds":3}`
	missing = `{"name":"tables delete","ok":false,"detail":"403\n\u001b[1m denied","fix":"az role assignment create","milliseconds":4}`
)

// TestDoctor checks what is printed of the app's answer.
func TestDoctor(t *testing.T) {
	ok := func(checks string) string {
		return serving(t, answer{200, "application/json", `{"checks": [` + checks + `]}`, nil})
	}
	for _, tt := range []struct {
		name, address  string
		flags          []string
		code           int
		stdout, stderr string
	}{
		{"all ok", ok(fine), nil, 0, "ok    blobs read  three containers\n1 of 1 checks are ok\n", ""},
		{
			"one failed", ok(fine + "," + missing), nil, 3,
			"ok    blobs read     three containers\nFAIL  tables delete  403 \ufffd[1m denied\n      fix: az role assignment create\n1 of 2 checks are ok\n", "",
		},
		{
			"two failed for one reason", ok(missing + "," + fine + "," + missing), nil, 3,
			"FAIL  tables delete  403 \ufffd[1m denied\n      fix: az role assignment create\nok    blobs read     three containers\n" +
				"FAIL  tables delete  403 \ufffd[1m denied\n1 of 3 checks are ok\n", "",
		},
		{"JSON", ok(missing), []string{"--json"}, 3, `{"checks":[` + missing + "]}\n", ""},
	} {
		code, stdout, stderr := call(t, nil, append([]string{"doctor", "--url", tt.address}, tt.flags...)...)
		if code != tt.code || stdout != tt.stdout || stderr != tt.stderr {
			t.Errorf("%s: code %d, want %d\nstdout %q\n  want %q\nstderr %q", tt.name, code, tt.code, stdout, tt.stdout, stderr)
		}
	}
	code, _, stderr := call(t, nil, "doctor", "--url", ok(""))
	if code != exitFailed || !strings.Contains(stderr, "no checks") {
		t.Errorf("without checks: code %d, stderr %q", code, stderr)
	}
}

// TestDoctorInterrupted: Ctrl+C ends the command, without checks from here.
func TestDoctorInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(interrupted{os.Interrupt})
	var stdout, stderr bytes.Buffer
	code := run(ctx, []string{"kennel", "doctor", "--url", "http://127.0.0.1:1"}, nil, nil, &stdout, &stderr)
	if code != 130 || stdout.Len() > 0 || !strings.Contains(stderr.String(), "interrupted") {
		t.Errorf("code %d, stdout %q, stderr %q", code, &stdout, &stderr)
	}
}

// TestDoctorFromHere checks what is found if the app does not answer: the last
// check is the reason.
func TestDoctorFromHere(t *testing.T) {
	healthy := answer{200, "application/json", `{"status":"ok"}`, nil}
	app := func(health, doctor answer) string {
		mux := http.NewServeMux()
		mux.HandleFunc("/api/health", func(w http.ResponseWriter, _ *http.Request) { health.write(w) })
		mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { doctor.write(w) })
		server := httptest.NewServer(mux)
		t.Cleanup(server.Close)
		return server.URL
	}
	status := func(status int) string { return app(answer{status, "", "", nil}, answer{status, "", "", nil}) }
	dir := t.TempDir()
	t.Chdir(dir)
	closed := httptest.NewServer(nil)
	closed.Close()
	file := filepath.Join(dir, urlFile)
	if err := errors.Join(os.Mkdir(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(closed.URL), 0o644)); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, address string // "" leaves out --url
		flags         []string
		reason        string // a part of the last step's detail
		fix           string
		code          string // of the error
	}{
		{"no such name", "https://a..b", nil, "host a..b does not exist", "az functionapp list", "not_reached"},
		{"no listener", closed.URL, nil, "connection refused", "kennel up", "not_reached"},
		{"a file was left", "", nil, file + " was left by a `kennel up` that was killed", "rm " + file + " && kennel up", "not_reached"},
		{"no HTTP", noise(t), nil, "does not answer: ", "kennel up", "no_response"},
		{"no key", app(healthy, answer{401, "", "", nil}), nil, "requires a function key (401)", "export KENNEL_KEY=KEY", "refused"},
		{"wrong key", app(healthy, answer{401, "", "", nil}), []string{"--key", "secret"}, "rejects this function key (401)", "export KENNEL_KEY=KEY", "refused"},
		{"checks that fail", app(healthy, appError(500, "internal", nil)), nil, "did not complete its checks", "kennel up --verbose", "internal"},
		{"no app", status(404), nil, "has no function Health", "kennel up", "refused"},
		{"stopped", status(403), nil, "(403): the app is stopped", "kennel up", "refused"},
		{"sign-in", status(401), nil, "requires a sign-in", "az webapp auth show", "refused"},
		{"no handler", status(502), nil, "(502), but the app behind it does not", "kennel up --verbose", "refused"},
		{"a host that starts", status(503), nil, "(503), but the app behind it does not", "kennel up --verbose", "refused"},
		{"another site", serving(t, answer{200, "text/html", "<h1>hello</h1>", nil}), nil, "(200) that is not this app", "kennel up", "unexpected_response"},
		{"another API", serving(t, answer{200, "application/json", `{"status":"up"}`, nil}), nil, "(200) that is not this app", "kennel up", "failed"},
		{
			"redirect", serving(t, answer{301, "", "", map[string]string{"Location": "https://app.example/api/health"}}), nil,
			"redirects (301)", "kennel doctor --url https://app.example", "refused",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			args := append([]string{"doctor", "--json"}, tt.flags...)
			if tt.address != "" {
				args = append(args, "--url", tt.address)
			}
			code, stdout, stderr := call(t, nil, args...)
			first, last, _ := strings.Cut(stdout, "\n")
			var d client.Diagnosis
			var f struct{ Error failure }
			if err := errors.Join(json.Unmarshal([]byte(first), &d), json.Unmarshal([]byte(last), &f)); err != nil {
				t.Fatalf("%v: %s", err, stdout)
			}
			if code != exitFailed || f.Error.Code != tt.code || !strings.HasPrefix(stderr, "kennel doctor: ") || strings.Contains(stdout+stderr, "secret") {
				t.Errorf("code %d, stderr %q, error %+v, want code %d and error %s", code, stderr, f.Error, exitFailed, tt.code)
			}
			found := false
			for _, c := range d.Checks {
				if c.OK != (c.Fix == "") || c.Detail == "" {
					t.Errorf("%+v", c)
				}
				if !c.OK && c.Name != "project" { // this folder has none
					found = true
					if !strings.Contains(c.Detail, tt.reason) || !strings.HasPrefix(c.Fix, tt.fix) {
						t.Errorf("%+v, want %q with the fix %q", c, tt.reason, tt.fix)
					}
				}
			}
			if !found {
				t.Errorf("%s, want a failed check", first)
			}
		})
	}
}

// noise listens and answers what is not HTTP.
func noise(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			io.WriteString(conn, "220 mail.example ESMTP\r\n")
			conn.Close()
		}
	}()
	return "http://" + listener.Addr().String()
}

// TestDoctorInAzure checks the commands for an app in Azure.
func TestDoctorInAzure(t *testing.T) {
	for address, want := range map[string]string{
		"https://my-app.azurewebsites.net":                    "--name my-app --resource-group GROUP",
		"https://my-app-a1b2.westeurope-01.azurewebsites.net": "--name APP --resource-group GROUP",
		"https://app.example":                                 "--name APP --resource-group GROUP",
	} {
		c, err := client.New(address, nil)
		if err != nil {
			t.Fatal(err)
		}
		v := visit{app: &app{Client: c}, cause: &client.Error{Status: 401}}
		if v.url, err = url.Parse(address); err != nil {
			t.Fatal(err)
		}
		if detail, fix, _ := v.request(t.Context()); !strings.Contains(fix, "az functionapp keys list "+want) {
			t.Errorf("%s: %s, fix %s, want %s", address, detail, fix, want)
		}
	}
}

// TestDoctorOfMachine checks what a local run needs.
func TestDoctorOfMachine(t *testing.T) {
	con := newConsole(nil, nil, nil, io.Discard, io.Discard)
	expect := func(name string, do hereCheck, want, wantFix string) {
		t.Helper()
		detail, fix, ok := do(t.Context())
		if ok != (wantFix == "") || !strings.Contains(detail, want) || !strings.HasPrefix(fix, wantFix) {
			t.Errorf("%s: %q, fix %q, ok %t; want %q, fix %q", name, detail, fix, ok, want, wantFix)
		}
	}
	expect("go", findGo, "go1.", "")
	expect("node", findNode, "kennel up --storage azurite", "")
	expect("ports", findStorage, "1000", "")
	expect("this repository", con.findProject, "valid; ", "")

	con.env = map[string]string{"KENNEL_DRAIN": "soon", keyVariable: "secret", urlVariable: "http://127.0.0.1:1"}
	expect("a wrong setting", con.findProject, "invalid setting: KENNEL_DRAIN must be a duration", "edit ")

	tools := t.TempDir()
	t.Setenv("PATH", tools)
	t.Setenv("HOME", tools) // where Azurite is not installed
	t.Setenv("XDG_CACHE_HOME", "")
	expect("no go", findGo, "go does not run: ", "install Go 1.26")
	expect("no node", findNode, "not needed, except for kennel up --storage azurite: node is not on the PATH", "")
	if err := os.WriteFile(filepath.Join(tools, "go"), []byte("#!/bin/sh\necho go1.25.9\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	expect("old go", findGo, "go1.25.9 is too old", "install Go 1.26")
	t.Chdir(tools)
	expect("no project", con.findProject, "no host.json", "cd FOLDER")
}
