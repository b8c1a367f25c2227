package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"kennel/azurestore"
	"kennel/gate"
	"kennel/ids"
	"kennel/internal/storetest"
)

func TestMain(m *testing.M) { os.Exit(storetest.Main(m)) }

// TestNumbers runs the example on storage, beside an app that shares its
// sequence.
func TestNumbers(t *testing.T) {
	storage := storetest.Storage(t).ConnectionString()
	blobs, err := azurestore.NewBlobsFromConnectionString(storage)
	if err != nil {
		t.Fatal(err)
	}
	orders, err := ids.New(azurestore.NewSequences(blobs, azurestore.SequencesContainer), "orders", nil)
	if err != nil {
		t.Fatal(err)
	}
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, err := orders.Next(r.Context())
		if err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"sequence":"orders","first":%d,"last":%[1]d,"count":1}`, n)
	}))
	defer app.Close()
	gates, err := gate.New(azurestore.NewGates(blobs, azurestore.GatesContainer), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := gates.Release(t.Context(), "start-work", gate.Change{By: "ann"}); err != nil {
		t.Fatal(err)
	}

	var out bytes.Buffer
	if err := run(t.Context(), storage, app.URL, "", &out); err != nil {
		t.Error(err)
	}
	want := "waiting at gate start-work\nreleased by ann\norder 1\norder 2\norder 3\norder 4 from the app\n"
	if out.String() != want {
		t.Errorf("output:\n%s\nwant:\n%s", &out, want)
	}
}

// TestOtherModule runs the commands of docs/api.md that build the example in a
// module of its own. It compiles only, by go list -export: linking takes longer
// than the rest.
func TestOtherModule(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the commands need a Unix shell")
	}
	checkout, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	api, err := os.ReadFile("../../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(api), "\n## Using the packages from another Go program\n")
	section, _, ends := strings.Cut(section, "\n## ")
	commands := regexp.MustCompile(`(?m)^\$ (.*)$`).FindAllStringSubmatch(section, -1)
	if !found || !ends || len(commands) == 0 {
		t.Fatal("docs/api.md has no section with commands on using the packages")
	}
	script := "set -e\n"
	for _, command := range commands {
		if strings.Contains(command[1], "bin/kennel") {
			break // from here on the app runs
		}
		script += command[1] + "\n"
	}
	built := strings.Count(script, "go build")
	script = strings.ReplaceAll(script, "~/kennel", checkout)
	script = strings.ReplaceAll(script, "$HOME/kennel", checkout)
	script = strings.ReplaceAll(script, "go build", "go list -export "+storetest.QuotedBuildFlags())
	sh := exec.CommandContext(t.Context(), "sh", "-x", "-c", script)
	sh.Dir = t.TempDir()
	if output, err := sh.CombinedOutput(); err != nil || built != 2 {
		t.Errorf("the commands build %d times: %v\n%s", built, err, output)
	}
}
