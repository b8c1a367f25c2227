package metrics

import (
	"flag"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"kennel/internal/cost/bill"
	"kennel/internal/instances"
)

var update = flag.Bool("update", false, "write testdata/app.txt")

// unusual is full with names and values that the format writes in a way of its
// own.
func unusual() Set {
	s := full()
	s.ByProcess = true
	for i, name := range []string{`quote"d`, `back\slash`, "two\nlines", "Überzwinger", "", "a,b={}", "a\ttab", `\n`} {
		instances.SequenceSection.Add(&s.Reports[1], []instances.Sequence{{Name: name, Issued: math.MaxInt64 >> (6 * i), Available: -1, Lost: 999999}})
	}
	s.Reports[1].Total.Seconds = 0.1 + 0.2
	s.Bill.Today = "-1.5e-7"
	s.Bill.Jobs = map[string]bill.Job{
		"nan": {Amount: "NaN"}, "infinite": {Amount: "Inf"}, "negative": {Amount: "-Inf"}, "minus one": {Amount: "-1"}, "minus zero": {Amount: "-0"},
		"small": {Amount: "0.0001"}, "smaller": {Amount: "0.00001"}, "large": {Amount: "999999"}, "larger": {Amount: "1000000"}, "largest": {Amount: "123456789012345680000000"},
	}
	return s
}

// TestGolden compares the text with testdata/app.txt, which the library of
// Prometheus wrote at first.
func TestGolden(t *testing.T) {
	text := unusual().Text()
	path := filepath.Join("testdata", "app.txt")
	if *update {
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(text)); diff != "" {
		t.Errorf("%s is outdated; run the test with -update (-want +got):\n%s", path, diff)
	}
}

// TestRuntime compares the families of the runtime and of the system with
// testdata/runtime.txt, which has no values, and some values with the process.
func TestRuntime(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "runtime.txt"))
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Split(strings.TrimSpace(string(text)), "\n")
	if runtime.GOOS != "linux" {
		want = slices.DeleteFunc(want, func(line string) bool { return strings.Contains(line, "process_") })
	}
	runtime.GC()
	set := Set{Runtime: true}
	var got []string
	for line := range strings.Lines(string(set.Text())) {
		if !strings.HasPrefix(line, "#") {
			line = regexp.MustCompile(` .*`).ReplaceAllString(strings.Replace(line, runtime.Version(), "VERSION", 1), "")
		}
		got = append(got, strings.TrimSpace(line))
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("want (-), got (+):\n%s", diff)
	}
	v := values(parsed(t, set))
	now := float64(time.Now().Unix())
	if v["go_goroutines{}"] < 2 || v["go_threads{}"] < 1 || v["go_gc_duration_seconds_count{}"] < 1 || v["go_gc_duration_seconds{quantile=1}"] <= 0 || v["go_gc_duration_seconds{quantile=0}"] > v["go_gc_duration_seconds{quantile=1}"] ||
		v["go_memstats_last_gc_time_seconds{}"] < now-3600 || v["go_memstats_sys_bytes{}"] < v["go_memstats_heap_sys_bytes{}"] || v["go_memstats_heap_inuse_bytes{}"] <= 0 {
		t.Errorf("%v", v)
	}
	if runtime.GOOS == "linux" && (v["process_start_time_seconds{}"] < now-36000 || v["process_start_time_seconds{}"] > now+60 || v["process_open_fds{}"] < 3 || v["process_max_fds{}"] < v["process_open_fds{}"] ||
		v["process_resident_memory_bytes{}"] < 1<<20 || v["process_virtual_memory_bytes{}"] < v["process_resident_memory_bytes{}"] || v["process_virtual_memory_max_bytes{}"] < v["process_virtual_memory_bytes{}"] || v["process_cpu_seconds_total{}"] > 3600) {
		t.Errorf("%v", v)
	}
}
