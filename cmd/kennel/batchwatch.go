package main

import (
	"context"
	"fmt"
	"time"

	"kennel/client"
)

// lineEvery is how often a watch without a terminal reports progress.
const lineEvery = 10 * time.Second

// batchWatch is the state of a watch of a batch.
type batchWatch struct {
	state string    // of the batch
	since time.Time // when the watch first saw this state
	from  int       // how many items had a result then

	last     int       // how many items have a result now
	advanced time.Time // when the watch first saw that
}

// watchBatch waits until a batch has finished and shows its progress. It
// continues through outages of the app and its storage.
func (con *console) watchBatch(ctx context.Context, app *app, b client.Batch) (client.Batch, error) {
	out := con.progress()
	defer out.end()
	app.say = out.say
	var w batchWatch
	var line time.Time // when the last one was written
	for newer, err := range app.WatchBatch(ctx, b) {
		switch {
		case err != nil && ctx.Err() != nil:
			return b, fmt.Errorf("%w; the app continues the batch; to watch it again: %s", ctx.Err(), con.watchAgain(b))
		case err != nil:
			return b, app.failed(err)
		}
		now, changed := time.Now(), newer.State != w.state
		if b = newer; changed {
			w = batchWatch{state: b.State, since: now, from: resultsOf(b)}
		}
		if n := resultsOf(b); changed || n > w.last {
			w.last, w.advanced = n, now
		}
		switch {
		case b.Finished():
		case out.terminal:
			out.show(w.describe(b, now))
		case changed || now.Sub(line) >= lineEvery:
			line = now
			out.say("%s", printable(w.describe(b, now)))
		}
	}
	return b, nil
}

// watchAgain returns the command line that watches a batch.
func (con *console) watchAgain(b client.Batch) string {
	return fmt.Sprintf("%s batch show %s --watch", con.program, printable(b.ID))
}

// describe returns the progress of a batch that has not finished.
func (w batchWatch) describe(b client.Batch, now time.Time) string {
	text := b.ID + ": "
	switch b.State {
	case client.BatchSubmitting:
		return oneLine(text + counted(b.Items, "item") + ", being queued")
	case client.BatchHeld:
		text += countedResults(b) + ", held at the gate of the work queues"
	case client.BatchGathering:
		text += countedResults(b) + ", the report is being made"
	default:
		text += countedResults(b)
	}
	text += lossesOf(b) + lateness(b)
	elapsed, idle, n := now.Sub(w.since), now.Sub(w.advanced), resultsOf(b)-w.from
	switch {
	case b.State != client.BatchRunning:
	case idle >= stalledAfter: // so there is no estimate
		text += fmt.Sprintf(", no new result for %v", idle.Round(time.Second))
	case elapsed >= rateAfter && n > 0:
		rate := float64(n) / elapsed.Seconds()
		left := time.Duration(float64(b.Items-resultsOf(b)) / rate * float64(time.Second))
		text += fmt.Sprintf(", %.0f/s, %v left", rate, max(left.Round(time.Second), time.Second))
	}
	return oneLine(text)
}
