package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"kennel/internal/storetest"
)

// BenchmarkFigures measures the real handler process beside a bare net/http
// program that answers the same bytes, in turn, and prints the medians.
func BenchmarkFigures(b *testing.B) {
	for b.Loop() {
		size(b)
		coldStart(b)
		rate(b)
		subscribed(b)
	}
}

func size(b *testing.B) {
	path, err := built.shippedHandler()
	if err != nil {
		b.Fatal(err)
	}
	with := sizeOf(b, path)
	b.Logf("figure: size of the handler | %.1f MB | ≤ 30 MB", with/1e6)

	overlay := filepath.Join(b.TempDir(), "overlay.json")
	stub := filepath.Join(filepath.Dir(overlay), "console.go")
	source, err := filepath.Abs("../internal/console/console.go")
	if err != nil {
		b.Fatal(err)
	}
	replaced, err := json.Marshal(map[string]map[string]string{"Replace": {source: stub}})
	if err != nil {
		b.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(stub, []byte(noPage), 0o644), os.WriteFile(overlay, replaced, 0o644)); err != nil {
		b.Fatal(err)
	}
	if path, err = storetest.BuildShipped("handler", "-overlay="+overlay); err != nil {
		b.Fatal(err)
	}
	b.Logf("figure: of which the page of the console | %.2f MB | ≤ 0.5 MB", (with-sizeOf(b, path))/1e6)
}

// noPage is package console without files.
const noPage = `package console

import "net/http"

const Index = ""

type File string

func Files() []File                                        { return nil }
func (File) ServeHTTP(http.ResponseWriter, *http.Request) {}
func (File) Refuse(http.ResponseWriter, int)              {}
`

func sizeOf(b *testing.B, path string) float64 {
	info, err := os.Stat(path)
	if err != nil {
		b.Fatal(err)
	}
	return float64(info.Size())
}

func coldStart(b *testing.B) {
	const rounds = 41
	storage := withAzurite(b)
	measure := func(program func() (string, error)) time.Duration {
		began := time.Now()
		p := start(b, program, storage)
		took := time.Since(began)
		p.kill()
		return took
	}
	measure(built.shippedHandler) // builds, and warms the page cache
	measure(built.shippedBare)
	var bare, ours []time.Duration
	for range rounds {
		bare, ours = append(bare, measure(built.shippedBare)), append(ours, measure(built.shippedHandler))
	}
	const unit = 100 * time.Microsecond
	base, own := median(bare), median(ours)
	b.Logf("figure: from start to first answer, more than a bare program (%v against %v) | %v | ≤ 25 ms", own.Round(unit), base.Round(unit), (own - base).Round(unit))
}

func rate(b *testing.B) {
	const rounds = 21
	handler := start(b, built.shippedHandler, withAzurite(b), "KENNEL_RANGE_SIZE=1000000")
	bare := start(b, built.shippedBare)
	b.Logf("figure: resident memory when idle | %.1f MB | ≤ 30 MB", float64(resident(b, handler.cmd.Process.Pid))/1e6)

	// Numbers as long as those of the bare program.
	handler.call(b, http.MethodPost, "/api/sequences/figures/next?count=10000", nil)
	for range 9 {
		handler.call(b, http.MethodPost, "/api/sequences/figures/next?count=10000", nil)
	}
	handler.call(b, http.MethodPost, "/api/sequences/figures/next", nil)
	flood(b, handler, "figures", 2000)
	flood(b, bare, "orders_", 2000)
	var ratios, rates []float64
	for range rounds {
		base := flood(b, bare, "orders_", 6000)
		ours := flood(b, handler, "figures", 6000)
		ratios = append(ratios, float64(base)/float64(ours))
		rates = append(rates, 6000/ours.Seconds())
	}
	b.Logf("figure: order number requests (%.0f/s here) | %.0f %% of a bare program's rate | ≥ 85 %%", median(rates), 100*median(ratios))
}

// subscribed measures from the start of an instance until it receives signals,
// on a bus of this machine.
func subscribed(b *testing.B) {
	const rounds = 11
	storage := withAzurite(b)
	_, bus := withBus(b)
	var took []time.Duration
	for range rounds {
		began := time.Now()
		p := start(b, built.shippedHandler, storage, bus)
		p.receives(b, true)
		took = append(took, time.Since(began))
		p.terminate()
		p.exitCode(b)
	}
	b.Logf("figure: from the start of an instance until it is subscribed, all on this machine | %v | ≤ 2 s", median(took).Round(time.Millisecond))
}

// flood makes n requests over a few connections and returns how long it took.
// It speaks HTTP by hand, so that most of the time is the server's.
func flood(b *testing.B, p *process, sequence string, n int) time.Duration {
	const connections = 4
	request := "POST /api/sequences/" + sequence + "/next HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\nX-Azure-Functions-InvocationId: 5a1c2a52-7d0f-4f3c-9a8e-1d2f3a4b5c6d\r\n\r\n"
	var clients sync.WaitGroup
	began := time.Now()
	for range connections {
		clients.Go(func() {
			conn, err := net.Dial("tcp4", fmt.Sprintf("127.0.0.1:%d", p.port))
			if err != nil {
				b.Error(err)
				return
			}
			defer conn.Close()
			answers := bufio.NewReader(conn)
			for range n / connections {
				if _, err := io.WriteString(conn, request); err != nil {
					b.Error(err)
					return
				}
				if err := skipAnswer(answers); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	clients.Wait()
	return time.Since(began)
}

func skipAnswer(r *bufio.Reader) error {
	status, err := r.ReadSlice('\n')
	if err != nil || !strings.HasPrefix(string(status), "HTTP/1.1 200") {
		return fmt.Errorf("answer %q: %w", status, err)
	}
	length := 0
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return err
		}
		if len(line) == 2 {
			break
		}
		if value, ok := strings.CutPrefix(string(line), "Content-Length: "); ok {
			fmt.Sscan(value, &length)
		}
	}
	_, err = r.Discard(length)
	return err
}

// resident reads the process's resident set in bytes, from /proc where there
// is one and from ps elsewhere.
func resident(b testing.TB, pid int) int64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Logf("resident memory is read from /proc, which this system has not: %v", err)
		return 0
	}
	for line := range strings.Lines(string(text)) {
		var kilobytes int64
		if _, err := fmt.Sscanf(line, "VmRSS: %d kB", &kilobytes); err == nil {
			return kilobytes * 1024
		}
	}
	b.Fatal("no VmRSS in /proc")
	return 0
}

func median[T cmp.Ordered](values []T) T {
	slices.Sort(values)
	return values[len(values)/2]
}
