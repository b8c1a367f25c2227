package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/signal"
	"strconv"
	"syscall"

	"github.com/spf13/cobra"

	"kennel/client"
)

// maxCount is the most numbers that the app issues for one request.
const maxCount = 10_000

func (con *console) nextCommand() *cobra.Command {
	var (
		count    int
		sequence string
		to       target
	)
	cmd := &cobra.Command{
		Use:   "next",
		Short: "draw order numbers, one per line",
		Long: `Requests the next numbers of a sequence from the app and prints them, one per line.
No number is issued twice. A number that was drawn and not used leaves a gap.

If the app is busy (429 or 503 with Retry-After), kennel retries up to five times and
reports each retry on standard error. It does not retry after other errors.`,
		Example:     "kennel next --count 3\nkennel next --url https://my-app.azurewebsites.net --sequence invoices",
		Annotations: requestExits("all numbers printed"),
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 { // as the other commands take a name
				return usagef("unexpected %q; name the sequence with --sequence", printable(args[0]))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if count < 1 || count > maxCount {
				return usagef("--count is %d; draw 1 to %d numbers", count, maxCount)
			}
			if sequence == "" {
				return usagef("--sequence is empty; use a sequence name, for example orders")
			}
			app, err := con.openApp(to)
			if err != nil {
				return err
			}
			return con.drawNumbers(cmd.Context(), app, sequence, count, to.asJSON)
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&count, "count", 1, fmt.Sprintf("draw `N` consecutive numbers, up to %d", maxCount))
	flags.StringVar(&sequence, "sequence", "orders", "draw from the sequence `NAME`")
	to.addTo(flags, "print the app's response as one JSON object")
	mustRegister(cmd, "sequence", completeNames(con, &to, (*client.Client).Sequences, sequenceName))
	return cmd
}

func (con *console) drawNumbers(ctx context.Context, app *app, sequence string, count int, asJSON bool) error {
	if isClosed(con.stdout) {
		return errors.New("standard output is closed, and no numbers were drawn; redirect it to the null device to draw and discard numbers")
	}
	signal.Ignore(syscall.SIGPIPE) // a broken pipe is reported, with the numbers
	numbers, err := app.Next(ctx, sequence, count)
	if err != nil {
		return app.failed(err)
	}
	if asJSON {
		return con.writeNumbers(numbers, append(numbers.JSON(), '\n'))
	}
	var text []byte
	for n := range numbers.All() {
		text = append(strconv.AppendInt(text, n, 10), '\n')
	}
	return con.writeNumbers(numbers, text)
}

// writeNumbers writes text, which has a line per number or a single line. Its
// error names the numbers that were not written, because no other caller gets
// them.
func (con *console) writeNumbers(numbers client.Numbers, text []byte) error {
	n, err := con.stdout.Write(text)
	if err == nil {
		return nil
	}
	lost := numbers.First + int64(bytes.Count(text[:n], []byte("\n")))
	if lost == numbers.Last {
		return fmt.Errorf("number %d was drawn and not written: %w", lost, err)
	}
	return fmt.Errorf("numbers %d to %d were drawn and not written: %w", lost, numbers.Last, err)
}
