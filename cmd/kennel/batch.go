package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kennel/client"
)

// batchOptions are the flags of "kennel batch".
type batchOptions struct {
	newest, watch bool
	outcome       string
	csv           bool
	out           string
	target
}

var oneBatch = oneWord("batch", "20261122210601123-kqhzmwtb")

func (con *console) batchCommand() *cobra.Command {
	var o batchOptions
	list := &cobra.Command{
		Use:         "list",
		Short:       "print all batches, one per line",
		Long:        "Prints all batches in the order of their submission, or with --newest in the reverse\norder, one per line. Finished batches are removed after 30 days, unless the app is set\nup otherwise.",
		Example:     "kennel batch list --newest | head",
		Annotations: requestExits("printed"),
		Args:        noWords,
		RunE:        con.batchRun(&o, listBatches),
	}
	list.Flags().BoolVar(&o.newest, "newest", false, "print the newest batch first")

	show := &cobra.Command{
		Use:   "show BATCH",
		Short: "print the state of the batch",
		Long: `Prints the state of the batch. With --watch it reports the progress until the batch has
finished; Ctrl+C ends the watch, and not the batch.`,
		Example:     "kennel batch show 20261122210601123-kqhzmwtb --watch",
		Annotations: exits("printed, or with --watch done", "the app was not reached or returned an error, or with --watch the batch failed", interruptedExit),
		Args:        oneBatch,
		RunE:        con.batchRun(&o, showBatch),
	}
	show.Flags().BoolVar(&o.watch, "watch", false, "wait until the batch has finished and report its progress")

	results := &cobra.Command{
		Use:         "results BATCH",
		Short:       "print how each item ended, one per line",
		Long:        "Prints the results of the items so far, one per line: the item, its outcome, and the\nprocessor's answer or why there is no result.",
		Example:     "kennel batch results 20261122210601123-kqhzmwtb --outcome rejected",
		Annotations: requestExits("printed"),
		Args:        oneBatch,
	}
	results.Flags().StringVar(&o.outcome, "outcome", "", "print only items with the outcome `O`: "+or(outcomes))
	completeWith(results, "outcome", outcomes...)
	results.RunE = func(cmd *cobra.Command, args []string) error {
		if cmd.Flags().Changed("outcome") && !slices.Contains(outcomes, o.outcome) {
			return usagef("unknown outcome %q; use %s", printable(o.outcome), or(outcomes))
		}
		return con.batchRun(&o, printResults)(cmd, args)
	}

	report := &cobra.Command{
		Use:         "report BATCH",
		Short:       "print the report on the batch",
		Long:        "Prints the report on the batch as JSON or CSV. There is none before the batch is done.",
		Example:     "kennel batch report 20261122210601123-kqhzmwtb --csv -o november.csv",
		Annotations: requestExits("printed"),
		Args:        oneBatch,
	}
	report.Flags().BoolVar(&o.csv, "csv", false, "print CSV instead of JSON")
	report.Flags().StringVarP(&o.out, "out", "o", "", "write the report to `FILE`")
	completeFile(report, "out")
	report.RunE = func(cmd *cobra.Command, args []string) error {
		if o.csv && o.asJSON {
			return usagef("use either --csv or --json, not both")
		}
		return con.batchRun(&o, printReport)(cmd, args)
	}

	batch := group(&cobra.Command{
		Use:         "batch <command>",
		Short:       "list batches, show their progress, and print their results and reports",
		Long:        `"kennel submit" submits a batch of items.`,
		Example:     "kennel batch list --newest\nkennel batch report 20261122210601123-kqhzmwtb --csv -o november.csv",
		Annotations: requestExits("done"),
	}, list, show, results, report)
	o.addTo(batch.PersistentFlags(), responsesAsJSON)
	completeFirst(batch, completeNames(con, &o.target, (*client.Client).NewestBatches, func(b client.Batch) string { return b.ID }))
	return batch
}

var outcomes = []string{client.ItemDone, client.ItemRejected, client.ItemFailed}

// A batchVerb carries out a command below "kennel batch".
type batchVerb func(ctx context.Context, con *console, app *app, batch string, o batchOptions) error

// batchRun returns the function of a command whose only argument, if it has one,
// is a batch.
func (con *console) batchRun(o *batchOptions, verb batchVerb) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		app, err := con.openApp(o.target)
		if err != nil {
			return err
		}
		return verb(cmd.Context(), con, app, strings.Join(args, ""), *o)
	}
}

func listBatches(ctx context.Context, con *console, app *app, _ string, o batchOptions) error {
	batches := app.Batches(ctx)
	if o.newest {
		batches = app.NewestBatches(ctx)
	}
	for b, err := range batches {
		if err != nil {
			return app.failed(err)
		}
		if err := con.print(b.JSON(), describeBatch(b), o.asJSON); err != nil {
			return err
		}
	}
	app.listed()
	return nil
}

func showBatch(ctx context.Context, con *console, app *app, batch string, o batchOptions) error {
	b, err := app.Batch(ctx, batch)
	if err != nil {
		return app.failed(err)
	}
	if o.watch {
		return con.finishBatch(ctx, app, b, o.asJSON)
	}
	return con.print(b.JSON(), describeWholeBatch(b), o.asJSON)
}

func printResults(ctx context.Context, con *console, app *app, batch string, o batchOptions) error {
	results := app.BatchResults(ctx, batch)
	if o.outcome != "" {
		results = app.BatchResultsWith(ctx, batch, o.outcome)
	}
	for r, err := range results {
		if err != nil {
			return app.failed(err)
		}
		if err := con.print(r.JSON(), describeResult(r), o.asJSON); err != nil {
			return err
		}
	}
	app.listed()
	return nil
}

func printReport(ctx context.Context, con *console, app *app, batch string, o batchOptions) error {
	format := client.ReportJSON
	if o.csv {
		format = client.ReportCSV
	}
	var report bytes.Buffer
	if err := app.BatchReport(ctx, batch, format, &report); err != nil {
		return app.failed(err)
	}
	if format == client.ReportJSON {
		report.WriteByte('\n') // JSON of the app ends without a line break
	}
	if o.out != "" {
		return os.WriteFile(o.out, report.Bytes(), 0o666) // less the umask
	}
	_, err := report.WriteTo(con.stdout)
	return err
}

// finishBatch waits until a batch has finished, and prints it.
func (con *console) finishBatch(ctx context.Context, app *app, b client.Batch, asJSON bool) error {
	b, err := con.watchBatch(ctx, app, b)
	if err != nil {
		return err
	}
	if err := con.print(b.JSON(), describeWholeBatch(b), asJSON); err != nil {
		return err
	}
	return failedBatch(b)
}

// failedBatch returns an error if the batch failed.
func failedBatch(b client.Batch) error {
	if b.State != client.BatchFailed {
		return nil
	}
	return errors.New("the batch failed: " + oneLine(b.Error))
}

// describeBatch returns a line with the state of a batch.
func describeBatch(b client.Batch) string {
	text := b.ID
	if b.Name != "" {
		text += fmt.Sprintf(" (%s)", b.Name)
	}
	switch b.State {
	case client.BatchDone:
		text += fmt.Sprintf(" is done: %s", counted(b.Items, "item"))
	case client.BatchFailed:
		text += fmt.Sprintf(" failed: %s; %s", b.Error, countedResults(b))
	default:
		text += fmt.Sprintf(" is %s: %s", b.State, countedResults(b))
	}
	return oneLine(text + lossesOf(b) + ", submitted at " + b.SubmittedAt.UTC().Format(time.RFC3339) + lateness(b))
}

// describeWholeBatch returns describeBatch, and a line with the other facts.
func describeWholeBatch(b client.Batch) string {
	text := fmt.Sprintf("\n  processor %s, %s, %s", b.Processor, counted(b.Parcels, "parcel"), counted(int(b.StorageOperations), "storage operation"))
	if b.Modelled {
		text += " (partly estimated)"
	}
	if b.FinishedAt != nil {
		text += fmt.Sprintf(", finished in %s", duration(b.FinishedAt.Sub(b.SubmittedAt)))
	}
	return describeBatch(b) + text + describeRetrying(b.Retrying)
}

// describeRetrying returns a line with the items that are tried again.
func describeRetrying(r *client.BatchRetrying) string {
	if r == nil {
		return ""
	}
	items := counted(r.Items, "item")
	if r.More {
		items += " or more"
	}
	return "\n  " + oneLine(fmt.Sprintf("%s tried again, next at %s; item %s had %d of %s, the last error: %s",
		items, r.NextAt.UTC().Format(time.RFC3339), r.Item, r.Attempts, counted(r.MaxAttempts, "attempt"), r.Error))
}

// countedResults returns how many items have a result.
func countedResults(b client.Batch) string {
	return fmt.Sprintf("%d of %s", resultsOf(b), counted(b.Items, "item"))
}

func resultsOf(b client.Batch) int { return b.Done + b.Rejected + b.Failed }

// lossesOf returns how many items were rejected or failed, if there are any.
func lossesOf(b client.Batch) (text string) {
	if b.Rejected > 0 {
		text = fmt.Sprintf(", %d rejected", b.Rejected)
	}
	if b.Failed > 0 {
		text += fmt.Sprintf(", %d failed", b.Failed)
	}
	return text
}

// lateness returns by how much a batch is late, if it is.
func lateness(b client.Batch) string {
	if b.LateBy <= 0 {
		return ""
	}
	return fmt.Sprintf(", late by %s", duration(time.Duration(b.LateBy*float64(time.Second))))
}

// describeResult returns a line with the result of an item.
func describeResult(r client.BatchResult) string {
	what := string(r.Result)
	if r.Outcome != client.ItemDone {
		what = r.Error
	}
	return oneLine(fmt.Sprintf("%s %s: %s", r.ID, r.Outcome, what))
}
