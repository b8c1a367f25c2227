package main

import (
	"context"
	"flag"
)

func nextCommand() *command {
	var (
		count    int
		sequence string
		app      target
		asJSON   bool
	)
	flags := flag.NewFlagSet("next", flag.ContinueOnError)
	flags.IntVar(&count, "count", 1, "draw `N` consecutive numbers, up to 10000")
	flags.StringVar(&sequence, "sequence", "orders", "draw from the sequence `NAME`")
	app.addTo(flags)
	flags.BoolVar(&asJSON, "json", false, "print the app's response as one JSON object")
	return &command{
		name:     "next",
		synopsis: "[--count N] [--sequence NAME] [--url URL] [--key K] [--json]",
		summary:  "draw order numbers, one per line",
		about: `Requests the next numbers of a sequence from the app and prints them, one per line.
No number is issued twice. A number that was drawn and not used leaves a gap.

If the app is busy (503 with Retry-After), kennel retries up to five times and reports
each retry on standard error. It does not retry after other errors.`,
		example: "kennel next --count 3\nkennel next --url https://my-app.azurewebsites.net --sequence invoices",
		exits:   "0 all numbers printed, 1 the app was not reached or returned an error, 2 usage",
		flags:   flags,
		run: func(ctx context.Context, con *console, _ []string) error {
			if count < 1 {
				return usagef("--count is %d; draw at least 1 number", count)
			}
			if sequence == "" {
				return usagef("--sequence is empty; use a sequence name, for example orders")
			}
			remote, err := openRemote(con, app)
			if err != nil {
				return err
			}
			d := newDraw(remote, sequence, count)
			if asJSON {
				return d.printJSON(ctx, con.stdout)
			}
			return d.printLines(ctx, con.stdout)
		},
	}
}
