package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"kennel/client"
)

func TestDescribeBatchWatch(t *testing.T) {
	for _, tt := range []struct {
		name    string
		batch   client.Batch
		from    int
		elapsed time.Duration
		idle    time.Duration
		want    string
	}{
		{"submitting", client.Batch{State: client.BatchSubmitting}, 0, time.Minute, 0, "b: 2000 items, being queued"},
		{"just begun", client.Batch{State: client.BatchRunning, Done: 100}, 0, 500 * time.Millisecond, 0, "b: 100 of 2000 items"},
		{"under way", client.Batch{State: client.BatchRunning, Done: 900, Rejected: 60, Failed: 40}, 0, 10 * time.Second, 0, "b: 1000 of 2000 items, 60 rejected, 40 failed, 100/s, 10s left"},
		{"begun before", client.Batch{State: client.BatchRunning, Done: 1600}, 1000, 6 * time.Second, 0, "b: 1600 of 2000 items, 100/s, 4s left"},
		{"no progress", client.Batch{State: client.BatchRunning, Done: 1000}, 1000, time.Minute, 12300 * time.Millisecond, "b: 1000 of 2000 items, no new result for 12s"},
		{"the last ones", client.Batch{State: client.BatchRunning, Done: 1999}, 0, 2 * time.Second, 0, "b: 1999 of 2000 items, 1000/s, 1s left"},
		{"late", client.Batch{State: client.BatchRunning, Done: 10, LateBy: 61.2}, 10, time.Minute, 0, "b: 10 of 2000 items, late by 61.2 s"},
		{"held", client.Batch{State: client.BatchHeld, Done: 500}, 0, time.Minute, 0, "b: 500 of 2000 items, held at the gate of the work queues"},
		{"gathering", client.Batch{State: client.BatchGathering, Done: 2000}, 0, time.Minute, 0, "b: 2000 of 2000 items, the report is being made"},
		{"a newer state", client.Batch{State: "resting", Done: 500}, 0, time.Minute, 0, "b: 500 of 2000 items"},
	} {
		tt.batch.ID, tt.batch.Items = "b", 2000
		begin := time.Unix(0, 0)
		w := batchWatch{state: tt.batch.State, since: begin, from: tt.from, advanced: begin.Add(tt.elapsed - tt.idle)}
		same(t, tt.name, tt.want, w.describe(tt.batch, begin.Add(tt.elapsed)))
	}
}

func batchIs(state string, done int, more ...string) answer {
	body := fmt.Sprintf(`{"batch":"b","processor":"billing","state":%q,"items":2000,"done":%d,"parcels":20,"submittedAt":"2026-11-22T21:06:01Z"`, state, done)
	for _, m := range more {
		body += "," + m
	}
	return answer{200, "application/json", body + "}", nil}
}

// running returns answers of a batch under way.
func running(begin, end, step int) (answers []any) {
	for n := begin; n <= end; n += step {
		answers = append(answers, batchIs("running", n))
	}
	return answers
}

// TestWatchBatch checks the lines of a watch without a terminal: one for each
// state, and one every ten seconds.
func TestWatchBatch(t *testing.T) {
	for _, tt := range []struct {
		name    string
		answers []any
		stdout  string
		stderr  string
		err     string
	}{
		{
			"to its end", append(append(slices.Concat(running(50, 1000, 50), slices.Repeat([]any{batchIs("running", 1000)}, 15)), batchIs("held", 1000), batchIs("held", 1000)), append(running(1000, 1900, 100), batchIs("gathering", 2000),
				batchIs("done", 1999, `"rejected":1`, `"finishedAt":"2026-11-22T21:06:41Z"`, `"storageOperations":1`, `"modelled":true`))...),
			"b is done: 2000 items, 1 rejected, submitted at 2026-11-22T21:06:01Z\n  processor billing, 20 parcels, 1 storage operation (partly estimated), finished in 40.0 s\n",
			"b: 2000 items, being queued\nb: 50 of 2000 items\nb: 550 of 2000 items, 50/s, 29s left\nb: 1000 of 2000 items, 48/s, 21s left\nb: 1000 of 2000 items, no new result for 11s\nb: 1000 of 2000 items, held at the gate of the work queues\n" +
				"b: 1000 of 2000 items\nb: 2000 of 2000 items, the report is being made\n", "",
		},
		{"to a failure", []any{batchIs("failed", 10, `"error":"its staged items are lost"`)},
			"b failed: its staged items are lost; 10 of 2000 items, submitted at 2026-11-22T21:06:01Z\n  processor billing, 20 parcels, 0 storage operations\n",
			"b: 2000 items, being queued\n", "the batch failed: its staged items are lost"},
		{"an outage", []any{errors.New("reset by peer"), batchIs("done", 2000)},
			"b is done: 2000 items, submitted at 2026-11-22T21:06:01Z\n  processor billing, 20 parcels, 0 storage operations\n",
			"b: 2000 items, being queued\nno response from http://app.example: reset by peer; still waiting\nthe app responds again\n", ""},
		{"removed", []any{appError(404, "batch_not_found", nil)}, "", "b: 2000 items, being queued\n", "404 batch_not_found: broken"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var out, errs bytes.Buffer
				con := &console{stdout: &out, stderr: &errs, env: map[string]string{}, program: "kennel"}
				begin := client.Batch{ID: "b", State: client.BatchSubmitting, Items: 2000}
				err := con.finishBatch(t.Context(), appOf(t, answering(tt.answers...), nil), begin, false)
				expectError(t, "watch", err, tt.err)
				same(t, "standard output", tt.stdout, out.String())
				same(t, "standard error", tt.stderr, errs.String())
			})
		})
	}
}

// TestInterruptedWatch checks that Ctrl+C names the command that watches on.
func TestInterruptedWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out, errs bytes.Buffer
		con := &console{stdout: &out, stderr: &errs, env: map[string]string{}, program: "bin/kennel"}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		err := con.finishBatch(ctx, appOf(t, answering(batchIs("held", 5)), nil), client.Batch{ID: "b", State: client.BatchHeld}, true)
		if !errors.Is(err, ctx.Err()) {
			t.Errorf("got %v, want the error of the context", err)
		}
		expectError(t, "watch", err, "the app continues the batch; to watch it again: bin/kennel batch show b --watch")
		same(t, "standard output", "", out.String())
	})
}
