package main

import (
	"context"
	"flag"
)

func nextCommand() *command {
	var (
		count    int
		sequence string
		app      reach
		asJSON   bool
	)
	flags := flag.NewFlagSet("next", flag.ContinueOnError)
	flags.IntVar(&count, "count", 1, "draw `N` numbers in a row")
	flags.StringVar(&sequence, "sequence", "orders", "draw from the sequence `NAME`")
	app.addTo(flags)
	flags.BoolVar(&asJSON, "json", false, "print the app's answer as one JSON object")
	return &command{
		name:     "next",
		synopsis: "[--count N] [--sequence NAME] [--url URL] [--key K] [--json]",
		summary:  "draw order numbers, one a line",
		about: `Asks the app for the next numbers of a sequence and prints them, one a line.
No number is ever given out twice. A number that was drawn and not used is a gap.

An app that says it is busy (503 with Retry-After) is asked again, up to five times,
and standard error says so. Nothing else is repeated.`,
		example: "kennel next --count 3\nkennel next --url https://my-app.azurewebsites.net --sequence invoices",
		exits:   "0 all numbers printed, 1 the app was not reached or refused, 2 usage",
		flags:   flags,
		run: func(ctx context.Context, con *console, _ []string) error {
			if count < 1 {
				return usagef("--count is %d: draw at least 1 number", count)
			}
			if sequence == "" {
				return usagef("--sequence is empty: name the sequence, for instance orders")
			}
			reached, err := openRemote(con, app)
			if err != nil {
				return err
			}
			d := newDraw(reached, sequence, count)
			if asJSON {
				return d.printJSON(ctx, con.stdout)
			}
			return d.printLines(ctx, con.stdout)
		},
	}
}
