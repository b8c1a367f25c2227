package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	"kennel/internal/storetest"
)

// TestMemoryOfLists requests a channel of the longest blogs many times at once,
// with the default page, and measures the resident memory of the process.
func TestMemoryOfLists(t *testing.T) {
	storetest.OnlyInProve(t)
	const callers, blogs, limit = 24, 100, 200
	p := start(t, built.shippedHandler, withStorage(t))
	path := "/" + storetest.Name()
	p.channels(t, "PUT", path, `{"owner":"ann"}`).expect(t, "create", 201, "")
	body := fmt.Sprintf(`{"title":"t","text":"%s","userId":"ann"}`, strings.Repeat("a", 256<<10))
	for range blogs {
		p.channels(t, "POST", path+"/blogs", body).expect(t, "post", 201, "")
	}
	before := peakMemory(t, p)
	var group sync.WaitGroup
	for range callers {
		group.Go(func() {
			answer, err := http.Get(p.url + "/api/channels" + path + "/blogs")
			if err != nil {
				t.Error(err)
				return
			}
			defer answer.Body.Close()
			size, err := io.Copy(io.Discard, answer.Body)
			busy := answer.StatusCode == http.StatusServiceUnavailable // storage was slow
			if err != nil || !busy && (answer.StatusCode != http.StatusOK || size < 1<<20 || size > 3<<20) {
				t.Errorf("answer %d of %d bytes, %v", answer.StatusCode, size, err)
			}
		})
	}
	group.Wait()
	peak := peakMemory(t, p)
	t.Logf("figure: peak resident memory of the handler, 24 lists of 100 blogs of 256 KiB at once (%d MiB before) | %d MiB | ≤ 200 MiB", before, peak)
	if peak > limit {
		t.Errorf("the handler took %d MiB, want at most %d", peak, limit)
	}
}

// peakMemory returns the largest resident memory that a process had, in MiB.
func peakMemory(t *testing.T, p *process) (mib int) {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		t.Skip("needs /proc: ", err)
	}
	_, value, _ := strings.Cut(string(status), "VmHWM:")
	var kib int
	if _, err := fmt.Sscan(value, &kib); err != nil {
		t.Fatal(err)
	}
	return kib >> 10
}
