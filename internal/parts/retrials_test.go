package parts

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"kennel/internal/apptest"
	"kennel/internal/azure"
	"kennel/internal/azure/requests"
	"kennel/internal/doctor"
	"kennel/internal/faultproxy"
	"kennel/internal/names"
	"kennel/internal/observe"
	"kennel/internal/table"
)

// TestStorageRetrials: what failed once is tried again without a caller. It
// stays a problem while storage does not respond, and ends when it does.
func TestStorageRetrials(t *testing.T) {
	t.Parallel()
	proxy := apptest.NewProxy(t)
	account := azure.Account{ConnectionString: proxy.ConnectionString()}
	observed := azure.Options{Outcomes: &requests.Outcomes{}}
	blobs, err := account.OpenBlobs(&observed)
	if err != nil {
		t.Fatal(err)
	}
	queues, err := account.OpenQueues(&observed)
	if err != nil {
		t.Fatal(err)
	}
	rows := openInstanceTable(&environment{account: account, counter: observed.Requests, outcomes: observed.Outcomes, log: slog.New(slog.DiscardHandler)})
	trials := newRetrials(account, &observed, rows)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()

	heal := proxy.Add(faultproxy.Fault{Status: 503})
	blob := azure.NewScratchBlob(blobs, names.SequencesContainer, doctor.Scratch)
	fails := func(what string, err error) {
		if err == nil {
			t.Errorf("%s succeeded with failing storage", what)
		}
	}
	fails("read of a blob", blob.Read(ctx))
	fails("write of a blob", blob.Write(ctx))
	_, err = rows.Get(ctx, doctor.Scratch, doctor.Scratch)
	fails("read of a row", err)
	_, err = queues.Count(ctx, names.DoctorQueue)
	fails("count", err)
	_, err = queues.Put(ctx, names.DoctorQueue, "doctor", 0)
	fails("put", err)

	trials.Once(ctx, observed.Outcomes)
	if problems := observed.Outcomes.Problems(); len(problems) != 3 || problems[0].Count != 4 {
		t.Errorf("problems %+v, want one of each service, each request counted", problems)
	}
	heal()
	for range 10 { // a request may meet a connection that was closed after a 503
		trials.Once(ctx, observed.Outcomes)
		if observed.Outcomes.AllWell() {
			break
		}
	}
	if problems := observed.Outcomes.Problems(); len(problems) > 0 {
		t.Errorf("problems %+v although storage responds again", problems)
	}
}

// Storage is tried only while something fails.
func TestRetrialsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		outcomes := &requests.Outcomes{}
		read := requests.Label{Service: requests.Table, Operation: "get"}
		tried := 0
		trials := observe.Retrials{{Service: requests.Table}: func(context.Context) error {
			if tried++; tried == 3 {
				outcomes.Responded(read, false)
				return table.ErrNotFound
			}
			outcomes.Failed(read, false, "no answer")
			return context.DeadlineExceeded
		}}
		ctx, stop := context.WithCancel(t.Context())
		go observe.Retry(ctx, outcomes, func() observe.Retrials { return trials })
		time.Sleep(time.Hour)
		synctest.Wait()
		if tried > 0 {
			t.Errorf("tried %d times without a failure", tried)
		}
		outcomes.Failed(read, false, "no answer")
		time.Sleep(time.Hour)
		synctest.Wait()
		if tried != 3 || !outcomes.AllWell() {
			t.Errorf("tried %d times, well %t, want 3 and true", tried, outcomes.AllWell())
		}
		stop()
		synctest.Wait()
	})
}
