package api

import (
	"context"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kennel/internal/doctor"
)

// TestDoctorOnce: the checks run once at a time, also if the call that began
// them ends, and calls that arrive meanwhile get the same answer.
func TestDoctorOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		runs := 0
		host := ServeDoctor(func() ([][]doctor.Check, error) {
			return [][]doctor.Check{{{Name: "slow", Do: func(context.Context) (string, error) {
				runs++
				time.Sleep(2 * time.Second)
				return "done", nil
			}}}}, nil
		})
		call := func(ctx context.Context) *httptest.ResponseRecorder {
			w := httptest.NewRecorder()
			host.ServeHTTP(w, httptest.NewRequestWithContext(ctx, "GET", "/api/doctor", nil))
			return w
		}
		first, leave := context.WithCancel(t.Context())
		var calls sync.WaitGroup
		calls.Go(func() { call(first) })
		time.Sleep(time.Second)
		leave()
		for range 100 {
			calls.Go(func() {
				if w := call(t.Context()); w.Code != 200 || !strings.Contains(w.Body.String(), `"detail":"done"`) {
					t.Errorf("%d %s", w.Code, w.Body)
				}
			})
		}
		calls.Wait()
		if runs != 1 {
			t.Errorf("%d runs for calls at once, want 1", runs)
		}
		call(t.Context())
		if runs != 2 {
			t.Errorf("%d runs after a later call, want 2", runs)
		}
	})
}
