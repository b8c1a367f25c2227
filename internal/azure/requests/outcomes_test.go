package requests

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kennel/internal/instances"
)

// only returns the single problem that outcomes report.
func only(t *testing.T, o *Outcomes, code string, count int64) instances.Problem {
	t.Helper()
	problems := o.Problems()
	if len(problems) != 1 || problems[0].Code != code || problems[0].Count != count || o.AllWell() {
		t.Fatalf("problems %+v, want one %s with count %d", problems, code, count)
	}
	return problems[0]
}

func TestOutcomes(t *testing.T) {
	get, put := Label{Blob, "get", "numbers"}, Label{Blob, "put", "numbers"}
	var o Outcomes
	well := func(why string) {
		t.Helper()
		if problems := o.Problems(); len(problems) > 0 || !o.AllWell() {
			t.Fatalf("%s: problems %+v, want none", why, problems)
		}
	}
	well("at first")

	o.Failed(put, true, "storage answered 503 ServerBusy")
	first := only(t, &o, "blobs_failing", 1)
	o.Failed(Label{Blob, "create", "gates"}, true, "storage did not answer in time")
	o.Responded(get, false)
	o.Responded(Label{Table, "insert", "numbers"}, true)
	if p := only(t, &o, "blobs_failing", 2); !p.Since.Equal(first.Since) || p.What != "Requests to write blobs fail: storage did not answer in time." {
		t.Errorf("problem %+v, want the first failure's time and the last one's cause", p)
	}
	o.Responded(Label{Blob, "delete", ""}, true)
	well("after a success of another write")

	// A denial means that the service responds, and concerns one operation of
	// one job.
	o.Failed(get, false, "no connection")
	o.Denied(get, false, "storage answered 403 AuthorizationFailure")
	o.Responded(put, true)
	o.Responded(Label{Blob, "get", "gates"}, false)
	o.Responded(Label{Blob, "head", "numbers"}, false)
	if p := only(t, &o, "storage_denied", 1); p.What != `The blob operation "get" for numbers is denied: storage answered 403 AuthorizationFailure.` {
		t.Errorf("problem %+v, want the operation, the job and the cause", p)
	}
	o.Responded(get, false)
	well("once the operation is allowed")

	// A failure does not show that a denial has ended.
	o.Denied(get, false, "x")
	o.Failed(get, false, "x")
	if problems := o.Problems(); len(problems) != 2 {
		t.Errorf("problems %+v, want two", problems)
	}
	o.Responded(get, false)

	for _, job := range []string{"a", "b", "c", "d", "e"} {
		o.Denied(Label{Queue, "put", job}, true, "x")
	}
	if p := only(t, &o, "storage_denied", 5); strings.Count(p.What, "denied") != 3 || !strings.HasSuffix(p.What, "There are 2 more.") {
		t.Errorf("problem %+v, want three sentences and how many more there are", p)
	}
}

// TestOutcomesLast: a failure lasts while the same fails again, at least as
// often as the timers of the app run, and ends if it is not tried any more.
func TestOutcomesLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o Outcomes
		query := Label{Table, "query", "channels"}
		began := time.Now()
		for count := range int64(5) {
			o.Failed(query, false, "x")
			time.Sleep(5 * time.Minute)
			if p := only(t, &o, "tables_failing", count+1); !p.Since.Equal(began) {
				t.Errorf("since %v, want %v", p.Since, began)
			}
		}
		time.Sleep(6 * time.Minute)
		if problems := o.Problems(); len(problems) > 0 || !o.AllWell() {
			t.Errorf("problems %+v, want none", problems)
		}
		o.Failed(query, false, "x")
		time.Sleep(11 * time.Minute)
		o.Failed(query, false, "x")
		if p := only(t, &o, "tables_failing", 1); !p.Since.Equal(time.Now()) {
			t.Errorf("since %v, want the new failure", p.Since)
		}
	})
}
