package main

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"kennel/instances"
	"kennel/internal/customhandler"
)

// TestMeter: running messages are hands, and what has ended counts with its
// time.
func TestMeter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &meter{}
		facts := func() (r instances.Report) {
			m.facts(&r)
			return r
		}
		work := m.queue("work-0", func(context.Context, customhandler.QueueMessage) error {
			time.Sleep(3 * time.Second)
			return nil
		})
		for range 4 {
			go work(t.Context(), customhandler.QueueMessage{})
		}
		synctest.Wait()
		if r := facts(); r.Hands() != 4 || r.Running["work-0"] != 4 || r.Served.Count != 0 {
			t.Errorf("%+v, want four hands", r)
		}
		time.Sleep(4 * time.Second)
		m.http(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { time.Sleep(time.Second) })).ServeHTTP(nil, nil)
		if r := facts(); r.Hands() != 0 || len(r.Running) != 0 || r.Served != (instances.Served{Count: 5, Seconds: 13}) {
			t.Errorf("%+v, want five invocations of 13 s", r)
		}
	})
}
