// Digest is a program with a nightly timer, which runs once in the program and
// not once an instance.
package main

import (
	"context"
	"log/slog"
	"time"

	"kennel"
)

type reports struct {
	write func(ctx context.Context, day string) error // replaces what was written for the day before
}

func main() { kennel.Main("digest", (&reports{write: toLog}).program) }

func (r *reports) program(a *kennel.App) error {
	a.Timer("digest", "0 3 * * *", r.nightly, &kennel.TimerOptions{Zone: "Europe/Berlin", CatchUp: true})
	return nil
}

// nightly writes the report of the day before its slot. The slot is the same in
// all attempts, and for a night that was missed it is that of this night: the
// clock would be another one.
func (r *reports) nightly(ctx context.Context) error {
	attempt, _ := kennel.Current(ctx)
	return r.write(ctx, attempt.Slot.AddDate(0, 0, -1).Format(time.DateOnly))
}

func toLog(ctx context.Context, day string) error {
	slog.InfoContext(ctx, "report written", "day", day)
	return nil
}
