package app

import (
	"context"
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"kennel/internal/azure"
	"kennel/internal/storetest"
	"kennel/internal/version"
)

func TestMain(m *testing.M) { os.Exit(storetest.Main(m)) }

// TestSmallProgram: a program with one queue and one route links none of the
// jobs that it does not use, and no exporter. As a worker it does its work.
func TestSmallProgram(t *testing.T) {
	const program = "./testdata/small"
	deps, err := exec.CommandContext(t.Context(), "go", "list", "-deps", program).Output()
	if err != nil {
		t.Fatal(err)
	}
	unwanted := []string{"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus", "go.opentelemetry.io/otel/sdk"}
	for _, room := range []string{"relay", "channels", "work", "deadletters", "internal/api", "internal/parts", "internal/telemetry"} {
		unwanted = append(unwanted, version.Module+"/"+room)
	}
	for line := range strings.Lines(string(deps)) {
		for _, not := range unwanted {
			if path := strings.TrimSpace(line); path == not || strings.HasPrefix(path, not+"/") {
				t.Errorf("it links %s", path)
			}
		}
	}
	storetest.OnlyInProve(t)
	binary := filepath.Join(t.TempDir(), "small")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags=-s -w", "-o", binary, program)
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	file, err := os.Stat(binary)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("figure: a program with one queue and one route, stripped | %.1f MB | ≤ 16 MB", float64(file.Size())/1e6)
	if file.Size() > 16e6 {
		t.Errorf("it has %d bytes, want at most 16 MB", file.Size())
	}

	connection := storetest.Storage(t).ConnectionString()
	queues, err := azure.Account{ConnectionString: connection}.OpenQueues(nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := queues.Put(t.Context(), "emails", base64.StdEncoding.EncodeToString([]byte("hello ann")), 0); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	small := exec.CommandContext(ctx, binary, "worker", "--listen", "127.0.0.1:0")
	small.Env = []string{"AzureWebJobsStorage=" + connection}
	stdout, err := small.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := small.Start(); err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	for part := make([]byte, 4096); !strings.Contains(log.String(), "hello ann"); {
		n, err := stdout.Read(part)
		if log.Write(part[:n]); err != nil {
			t.Fatalf("%v: %s", err, log.String())
		}
	}
	if err := small.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := small.Wait(); err != nil {
		t.Errorf("%v: %s", err, log.String())
	}
	if n, err := queues.Count(t.Context(), "emails"); n != 0 || err != nil {
		t.Errorf("%d messages are left, %v", n, err)
	}
}
