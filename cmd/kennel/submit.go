package main

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"kennel/client"
)

// submitOptions are the flags of "kennel submit".
type submitOptions struct {
	processor, name, once string
	watch                 bool
	target
}

func (con *console) submitCommand() *cobra.Command {
	var o submitOptions
	cmd := &cobra.Command{
		Use:   "submit FILE",
		Short: "submit a batch of items to be processed, and print the batch",
		Long: `Submits the items of FILE, or of standard input if FILE is -, and prints the batch. FILE
has one item per line (NDJSON), or it is a JSON array: then it begins with [, or its name
ends in .json. Both may be compressed with gzip. If an item is invalid, kennel prints the
first invalid ones, and nothing is processed.

Kennel sends the batch with a random key, so that a retry is no second batch. With
--idempotency-key you choose the key, and can run the same command again for 24 hours: it
prints the batch that exists. Other items with the key are rejected.

With --watch kennel then reports the progress until the batch has finished: on a terminal in
one line, elsewhere in a line every 10 s. Ctrl+C ends the watch, and not the batch.`,
		Example:     "kennel submit november.ndjson --name november --watch\nkennel sample billing -n 2000 | kennel submit -",
		Annotations: exits("accepted, or with --watch done", "the app was not reached or returned an error, or the batch failed", interruptedExit),
		Args:        oneWord("file", "november.ndjson"),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return nil, cobra.ShellCompDirectiveDefault
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.processor, "processor", "billing", "have the items processed by `P`")
	flags.StringVar(&o.name, "name", "", "name the batch `NAME`, for people")
	flags.StringVar(&o.once, "idempotency-key", "", "submit the batch only if none was submitted with the key `K`")
	flags.BoolVar(&o.watch, "watch", false, "wait until the batch has finished and report its progress")
	o.addTo(flags, responsesAsJSON)
	completeWith(cmd, "processor", "billing", "webhook")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case o.processor == "":
			return usagef("--processor is empty; use billing, for example")
		case o.once == "" && flags.Changed("idempotency-key"):
			return usagef("--idempotency-key has no value")
		}
		app, err := con.openApp(o.target)
		if err != nil {
			return err
		}
		return con.submit(cmd.Context(), app, args[0], o)
	}
	return cmd
}

func (con *console) submit(ctx context.Context, app *app, path string, o submitOptions) error {
	in := con.stdin
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		defer file.Close()
		in = file
	}
	items := bufio.NewReader(interruptible(ctx, in))
	head, _ := items.Peek(512) // an error occurs again when the rest is read
	s := client.Submission{
		Processor: o.processor,
		Name:      o.name,
		Key:       cmp.Or(o.once, rand.Text()),
		Body:      items,
		Array:     isArray(path, head),
	}
	b, err := app.SubmitBatch(ctx, s)
	switch {
	case errors.Is(err, client.ErrUnclear):
		return fmt.Errorf("%w; run the command again with --idempotency-key %s, which is safe", app.failed(err), s.Key)
	case err != nil:
		return explained{app.explain(err) + listBadItems(err, s.Array), err}
	case o.watch:
		return con.finishBatch(ctx, app, b, o.asJSON)
	}
	if !b.Finished() {
		con.say("the app continues the batch; to watch it: %s", con.watchAgain(b))
	}
	if err := con.print(b.JSON(), describeBatch(b), o.asJSON); err != nil {
		return err
	}
	return failedBatch(b)
}

// interruptible returns a reader that reads from in until ctx ends.
func interruptible(ctx context.Context, in io.Reader) io.Reader {
	r, w := io.Pipe()
	context.AfterFunc(ctx, func() { w.CloseWithError(ctx.Err()) })
	go func() { // ends with the program if no more text is typed
		_, err := io.Copy(w, in)
		w.CloseWithError(err)
	}()
	return r
}

// isArray reports whether a file whose text begins with head is a JSON array.
func isArray(path string, head []byte) bool {
	if strings.HasSuffix(strings.TrimSuffix(path, ".gz"), ".json") {
		return true
	}
	if packed, err := gzip.NewReader(bytes.NewReader(head)); err == nil {
		text := make([]byte, 64)
		n, _ := packed.Read(text) // as much as can be read
		head = text[:n]
	}
	head = bytes.TrimPrefix(head, []byte("\ufeff")) // a byte order mark
	return bytes.HasPrefix(bytes.TrimSpace(head), []byte("["))
}

// listBadItems returns the invalid items of a rejected batch, each on a line.
func listBadItems(err error, array bool) string {
	refused, ok := errors.AsType[*client.Error](err)
	if !ok {
		return ""
	}
	where := "line"
	if array {
		where = "element"
	}
	var list strings.Builder
	for _, item := range refused.Items {
		fmt.Fprintf(&list, "\n  %s %d: %s", where, item.Line, oneLine(item.Message))
	}
	return list.String()
}
