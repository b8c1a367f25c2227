package parts

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"kennel/devstore"
	"kennel/internal/attempt"
	"kennel/internal/customhandler"
	"kennel/internal/program"
)

// TestTimersOfHost: a run that is requested and a tick of the host make attempts
// of the slots, and the routes show them.
func TestTimersOfHost(t *testing.T) {
	store, err := devstore.Open("", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	slots := make(chan time.Time, 10)
	d := &program.Declared{Name: "shop", Timers: []*program.Timer{{Name: "digest", Schedule: "* * * * * *", Zone: "UTC", MaxAttempts: 5, Timeout: time.Minute, Work: func(ctx context.Context) error {
		a, _ := attempt.Current(ctx)
		slots <- a.Slot
		return nil
	}}}}
	r, err := OpenForTest(d, Outside{Environ: []string{"AzureWebJobsStorage=" + store.InProcess()}, Stdout: io.Discard, Stderr: io.Discard, Transport: &http.Client{Transport: store}})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- r.Program.Run(ctx, listener) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	call := func(method, path string) (int, string) {
		limited, cancel := context.WithTimeout(ctx, 30*time.Second)
		defer cancel()
		request, err := http.NewRequestWithContext(limited, method, "http://"+listener.Addr().String()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.StatusCode, string(body)
	}
	code, body := call("POST", "/api/timers/digest/run")
	var started struct{ Slot time.Time }
	if err := json.Unmarshal([]byte(body), &started); err != nil || code != 202 || !(<-slots).Equal(started.Slot) {
		t.Fatalf("a run: %d %s, %v", code, body, err)
	}
	time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(time.Second))) // the slots up to the run are past
	host := customhandler.NewClient("http://" + listener.Addr().String())
	if _, err := host.Invoke(ctx, "Timer-digest", customhandler.Trigger{Function: "Timer-digest", Binding: "tick"}.Timer(customhandler.Tick{})); err != nil {
		t.Fatal(err)
	}
	if slot := <-slots; slot.Nanosecond() != 0 {
		t.Errorf("the slot is %v", slot)
	}
	if code, body := call("GET", "/api/timers"); code != 200 || !strings.Contains(body, `"outcome":"done"`) || !strings.Contains(body, `"paused":null`) {
		t.Errorf("the list: %d %s", code, body)
	}
	for _, change := range [][2]string{{"pause", `"by":{"name":"unknown","verified":false}`}, {"resume", `"paused":null`}} {
		if code, body := call("POST", "/api/timers/digest/"+change[0]); code != 200 || !strings.Contains(body, change[1]) {
			t.Errorf("%s: %d %s", change[0], code, body)
		}
		if code, body := call("POST", "/api/timers/other/"+change[0]); code != 404 {
			t.Errorf("%s of an unknown timer: %d %s", change[0], code, body)
		}
	}
	for path, want := range map[string]int{"/api/timers/digest": 200, "/api/timers/other": 404} {
		if code, body := call("GET", path); code != want {
			t.Errorf("%s: %d %s", path, code, body)
		}
	}
}
