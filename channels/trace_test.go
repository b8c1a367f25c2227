package channels_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kennel/channels"
	"kennel/internal/memory"
	"kennel/internal/trace"
)

// TestTrace: the messages of a deletion belong to the trace of the request, also
// the ones that continue it, and a process that records nothing passes the
// trace on. Without a trace, or with a broken one, there is nothing about it.
func TestTrace(t *testing.T) {
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	full, _ := filled(t, 2500) // one Handle deletes a page
	for given, want := range map[string]string{parent: parent, "": "", "00-zz": "", parent[:53] + "00": ""} {
		synctest.Test(t, func(t *testing.T) {
			w := full.clone(&memory.TableOptions{Options: memory.Options{Fault: (&memory.Line{RoundTrip: time.Millisecond}).Fault}})
			c := w.start(&channels.Options{AcceptFor: -1, HandleFor: time.Nanosecond}, nil)
			if _, err := c.Delete(trace.Within(t.Context(), given), "news", ""); err != nil {
				t.Fatal(err)
			}
			expect := func(what string) (message string) {
				t.Helper()
				all := w.queues.All(cleanupQueue)
				if message = text(t, all[len(all)-1].Body); strings.Contains(message, "traceparent") != (want != "") || !strings.Contains(message, want) {
					t.Errorf("%s: %s, want the trace %q", what, message, want)
				}
				return message
			}
			message := expect("accepted")
			before := len(w.queues.All(cleanupQueue))
			if d, err := c.Handle(t.Context(), message); err != nil || d.State != channels.Running {
				t.Fatalf("%+v, %v, want it to go on", d, err)
			}
			if n := len(w.queues.All(cleanupQueue)); n != before+1 {
				t.Fatalf("%d messages, want %d", n, before+1)
			}
			// What another process puts may have a trace that this one cannot read.
			broken := strings.Replace(expect("continued"), parent, "?", 1)
			for range 10 {
				if d, err := c.Handle(t.Context(), broken); err != nil {
					t.Fatal(err)
				} else if d.State == channels.Done {
					return
				}
			}
			t.Error("the channel was not deleted")
		})
	}
}
