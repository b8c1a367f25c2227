package main

import "github.com/spf13/cobra"

func (con *console) nextCommand() *cobra.Command {
	var (
		count    int
		sequence string
		app      target
		asJSON   bool
	)
	cmd := &cobra.Command{
		Use:   "next",
		Short: "draw order numbers, one per line",
		Long: `Requests the next numbers of a sequence from the app and prints them, one per line.
No number is issued twice. A number that was drawn and not used leaves a gap.

If the app is busy (503 with Retry-After), kennel retries up to five times and reports
each retry on standard error. It does not retry after other errors.`,
		Example:     "kennel next --count 3\nkennel next --url https://my-app.azurewebsites.net --sequence invoices",
		Annotations: exits("0 all numbers printed, 1 the app was not reached or returned an error, 2 usage"),
		Args:        noWords,
		RunE: func(cmd *cobra.Command, _ []string) error {
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
				return d.printJSON(cmd.Context(), con.stdout)
			}
			return d.printLines(cmd.Context(), con.stdout)
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&count, "count", 1, "draw `N` consecutive numbers, up to 10000")
	flags.StringVar(&sequence, "sequence", "orders", "draw from the sequence `NAME`")
	app.addTo(flags)
	flags.BoolVar(&asJSON, "json", false, "print the app's response as one JSON object")
	return cmd
}
