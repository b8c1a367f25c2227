package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"kennel/internal/apptest"
	"kennel/internal/storetest"
)

// BenchmarkFigures measures the real handler process beside a bare net/http
// program that answers the same bytes, in turn, and prints the medians. It
// measures in processor time of these programs, which the load of the machine
// and the client change little.
func BenchmarkFigures(b *testing.B) {
	for name, measure := range map[string]func(*testing.B){"size": size, "start": coldStart, "rate": rate, "subscribed": subscribed} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				measure(b)
			}
		})
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
	storage := withStorage(b)
	measure := func(program func() (string, error)) time.Duration {
		p := start(b, program, storage)
		p.kill()
		return p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime()
	}
	measure(built.shippedHandler) // builds, and warms the page cache
	measure(built.shippedBare)
	var bare, ours []time.Duration
	for range rounds {
		bare, ours = append(bare, measure(built.shippedBare)), append(ours, measure(built.shippedHandler))
	}
	const unit = 100 * time.Microsecond
	base, own := apptest.Median(bare), apptest.Median(ours)
	b.Logf("figure: processor time from start to first answer, more than a bare program (%v against %v) | %v | ≤ 25 ms", own.Round(unit), base.Round(unit), (own - base).Round(unit))
}

func rate(b *testing.B) {
	const rounds = 21
	handler := start(b, built.shippedHandler, withStorage(b), "KENNEL_RANGE_SIZE=1000000")
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
		base, _ := flood(b, bare, "orders_", 6000)
		ours, took := flood(b, handler, "figures", 6000)
		ratios = append(ratios, float64(base)/float64(ours))
		rates = append(rates, 6000/took.Seconds())
	}
	b.Logf("figure: resident memory after order numbers for four callers (%d) | %.1f MB | ≤ 40 MB", rounds*6000, float64(resident(b, handler.cmd.Process.Pid))/1e6)
	b.Logf("figure: order number requests, processor time (%.0f/s here) | %.0f %% of a bare program's rate | ≥ 90 %%", apptest.Median(rates), 100*apptest.Median(ratios))
}

// subscribed measures from the start of an instance until it receives signals,
// on a bus of this machine.
func subscribed(b *testing.B) {
	const rounds = 11
	storage := withStorage(b)
	_, bus := apptest.WithBus(b)
	var took []time.Duration
	for range rounds {
		began := time.Now()
		p := start(b, built.shippedHandler, storage, bus)
		p.receives(b, true)
		took = append(took, time.Since(began))
		p.terminate()
		p.exitCode(b)
	}
	b.Logf("figure: from the start of an instance until it is subscribed, all on this machine | %v | ≤ 2 s", apptest.Median(took).Round(time.Millisecond))
}

// flood makes n requests over a few connections and returns the processor time
// of the server, and how long it took. It speaks HTTP by hand, so that most of
// that is the server's.
func flood(b *testing.B, p *process, sequence string, n int) (used, took time.Duration) {
	const connections = 4
	request := "POST /api/sequences/" + sequence + "/next HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\nX-Azure-Functions-InvocationId: 5a1c2a52-7d0f-4f3c-9a8e-1d2f3a4b5c6d\r\n\r\n"
	var clients sync.WaitGroup
	before, began := p.processorTime(b), time.Now()
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
				if err := apptest.SkipAnswer(answers); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	clients.Wait()
	return p.processorTime(b) - before, time.Since(began)
}

// processorTime returns what the threads of a process have used, from /proc,
// or on systems without it the time of the clock.
func (p *process) processorTime(b *testing.B) time.Duration {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", p.cmd.Process.Pid))
	if len(files) == 0 {
		return time.Duration(time.Now().UnixNano())
	}
	var sum time.Duration
	for _, name := range files {
		var used time.Duration
		text, err := os.ReadFile(name)
		if err == nil {
			_, err = fmt.Sscan(string(text), &used)
		}
		if err != nil {
			b.Fatal(err)
		}
		sum += used
	}
	return sum
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
