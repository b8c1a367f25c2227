package main

import (
	"strings"
	"sync"
	"testing"

	"kennel/internal/api"
	"kennel/internal/apptest"
	"kennel/internal/azure"
	"kennel/internal/doctor"
	"kennel/internal/names"
	"kennel/internal/table"
)

// TestDoctor: an app that may do everything has no failed check, also if two
// doctors run at once and a killed one has left its scratch data. Afterwards
// nothing is left. It is not parallel, because
// other tests leave scratch data for a moment.
func TestDoctor(t *testing.T) {
	_, bus := apptest.WithBus(t)
	p := start(t, built.handler, withStorage(t), bus)
	tables, queues := apptest.OpenStorage(t)
	blobs, written := apptest.OpenBlobs(t), []*azure.Table{apptest.OpenTable(t, tables, names.BlogsTable), apptest.OpenTable(t, tables, names.InstancesTable)}
	containers := []string{names.SequencesContainer, names.KnownContainer, names.GatesContainer}
	for _, container := range containers {
		if err := azure.NewScratchBlob(blobs, container, doctor.Scratch).Write(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for _, to := range written {
		if _, err := to.Submit(t.Context(), table.Write{Verb: table.Insert, Row: table.Row{Partition: doctor.Scratch, Key: doctor.Scratch}}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := queues.Put(t.Context(), names.DoctorQueue, "doctor", 0); err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	for range 2 {
		running.Go(func() {
			var answer api.DoctorAnswer
			_, _, body := p.request(t, "GET", "/api/doctor", "", &answer)
			for _, f := range answer.Checks {
				if !f.OK || f.Fix != "" || f.Detail == "" {
					t.Errorf("%+v, want it ok", f)
				}
			}
			if len(answer.Checks) != 16 || strings.Contains(body, "AccountKey") {
				t.Errorf("%d checks: %s", len(answer.Checks), body)
			}
		})
	}
	running.Wait()
	for _, to := range written {
		if left := apptest.Rows(t, to, doctor.Scratch); len(left) != 0 {
			t.Errorf("rows %v are left", left)
		}
	}
	if left, err := queues.Count(t.Context(), names.DoctorQueue); left != 0 || err != nil {
		t.Errorf("%d messages are left, %v", left, err)
	}
	for _, container := range containers {
		if flag, err := azure.NewGates(blobs, container).Load(t.Context(), doctor.Scratch, ""); flag.Version != "" || err != nil {
			t.Errorf("a blob is left in %s: %+v, %v", container, flag, err)
		}
	}
}
