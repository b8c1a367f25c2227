package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kennel/client"
	"kennel/internal/names"
)

// letterOptions are the flags of "kennel deadletters".
type letterOptions struct {
	all, yes, dryRun bool
	rate             float64
	limit            int
	before           string
	target
}

func (con *console) deadLettersCommand() *cobra.Command {
	var o letterOptions
	list := &cobra.Command{
		Use:   "list [QUEUE]",
		Short: "print the queues that have dead letters, or the dead letters of one",
		Long: `Prints the queues that have dead letters, one per line. With QUEUE it prints the dead
letters at the front of this queue, at most 32: storage shows no more.`,
		Example:     "kennel deadletters list\nkennel deadletters list work-0",
		Annotations: requestExits("printed"),
		Args:        func(cmd *cobra.Command, args []string) error { return unexpected(cmd, args, 1) },
		RunE: func(cmd *cobra.Command, args []string) error {
			app, err := con.openApp(o.target)
			if err != nil {
				return err
			}
			if len(args) == 0 || args[0] == "" {
				return listLetterQueues(cmd.Context(), con, app, o)
			}
			queue, err := app.poisonQueue(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return listLetters(cmd.Context(), con, app, queue, o)
		},
	}

	show := &cobra.Command{
		Use:         "show QUEUE ID",
		Short:       "print a dead letter with its body",
		Long:        "Prints a dead letter: why it is one, who moved it, and its body. It must be among\nthose that \"kennel deadletters list QUEUE\" prints.",
		Example:     "kennel deadletters show work-0 k3x7qam5w2cdzvnb",
		Annotations: requestExits("printed"),
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) < 2 {
				return usagef("no queue or no id given; for example %s work-0 k3x7qam5w2cdzvnb", cmd.CommandPath())
			}
			return unexpected(cmd, args, 2)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			app, err := con.openApp(o.target)
			if err != nil {
				return err
			}
			queue, err := app.poisonQueue(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return showLetter(cmd.Context(), con, app, queue, args[1], o)
		},
	}

	redrive := &cobra.Command{
		Use:   "redrive QUEUE ID… | --all",
		Short: "put dead letters back into their queue",
		Long: `Puts dead letters back into the queue from which they came, to be processed again: those
with the IDs, or all. Correct the cause before. A message that fails again becomes a dead
letter again, and is not put back twice by one command.

No message is lost, whatever is interrupted: one that is put back twice is the same
message. Ctrl+C ends the command after the current call to the app, and it prints how to
continue.`,
		Example:     "kennel deadletters redrive work-0 --all --rate 50",
		Annotations: exits("all that were selected are put back", "some were not, or the app was not reached or returned an error", interruptedExit),
		Args:        someLetters,
		RunE:        con.moveRun(&o, redriving),
	}
	o.addSelectionTo(redrive.Flags(), "put back")

	remove := &cobra.Command{
		Use:   "delete QUEUE ID… | --all",
		Short: "delete dead letters",
		Long: `Deletes dead letters: those with the IDs, or all. A deletion cannot be undone, so kennel
asks for confirmation; --yes skips the question. Ctrl+C ends the command after the
current call to the app.`,
		Example:     "kennel deadletters delete work-0 k3x7qam5w2cdzvnb",
		Annotations: exits("all that were selected are deleted", "some were not, or the app was not reached or returned an error", interruptedExit),
		Args:        someLetters,
		RunE:        con.moveRun(&o, deleting),
	}
	o.addSelectionTo(remove.Flags(), "delete")
	remove.Flags().BoolVar(&o.yes, "yes", false, "delete without confirmation")

	letters := group(&cobra.Command{
		Use:   "deadletters <command>",
		Short: "list messages that failed, put them back and delete them",
		Long: `A dead letter is a message that could not be processed. It is kept in a queue of its own,
whose name is that of its queue and "-poison"; QUEUE may be either. Those that the app
writes for queues that the program declares never expire. Those of batches and channels,
and all that the Functions host writes, are deleted after seven days.`,
		Example:     "kennel deadletters list work-0\nkennel deadletters redrive work-0 --all",
		Annotations: requestExits("done"),
	}, list, show, redrive, remove)
	o.addTo(letters.PersistentFlags(), responsesAsJSON)
	return letters
}

func (o *letterOptions) addSelectionTo(flags *pflag.FlagSet, verb string) {
	flags.BoolVar(&o.all, "all", false, verb+" all dead letters of the queue")
	flags.Float64Var(&o.rate, "rate", 0, verb+" at most `N` a second (default: no limit)")
	flags.IntVar(&o.limit, "limit", 0, verb+" at most `N` (default: no limit)")
	flags.StringVar(&o.before, "before", "", verb+" only dead letters from before `TIME`, to continue a command\nthat was interrupted")
	flags.BoolVar(&o.dryRun, "dry-run", false, "change nothing, and print how many are selected")
}

// poisonQueue returns the name of a queue of dead letters. name is that, the
// queue of its messages, or a queue of the program, which may share that of its
// messages with others.
func (a *app) poisonQueue(ctx context.Context, name string) (string, error) {
	switch {
	case strings.HasSuffix(name, names.PoisonSuffix):
		return name, nil
	case strings.HasPrefix(name, names.PartitionPrefix), name == names.CleanupQueue: // built-in ones share nothing
		return name + names.PoisonSuffix, nil
	}
	q, err := a.Queue(ctx, name)
	if answer, ok := errors.AsType[*client.Error](err); ok && answer.Status == http.StatusNotFound {
		return name + names.PoisonSuffix, nil // no queue of the program; it may have had that name
	}
	if err != nil {
		return "", a.failed(err)
	}
	return cmp.Or(q.StorageQueue, name) + names.PoisonSuffix, nil
}

func listLetterQueues(ctx context.Context, con *console, app *app, o letterOptions) error {
	queues, err := app.DeadLetterQueues(ctx)
	if err != nil {
		return app.failed(err)
	}
	if len(queues) == 0 {
		con.say("there are no dead letters")
	}
	for _, q := range queues {
		if err := con.print(q.JSON(), fmt.Sprintf("%s: %s of %s", q.Queue, letterCount(int(q.Messages)), q.Source), o.asJSON); err != nil {
			return err
		}
	}
	return nil
}

func listLetters(ctx context.Context, con *console, app *app, queue string, o letterOptions) error {
	letters, more, err := app.DeadLetters(ctx, queue)
	if err != nil {
		return app.failed(err)
	}
	if len(letters) == 0 {
		con.say("there are no dead letters in %s", printable(queue))
	}
	for _, letter := range letters {
		if err := con.print(letter.JSON(), describeLetter(letter), o.asJSON); err != nil {
			return err
		}
	}
	if more {
		con.say("there are others; storage shows them when these are redriven or deleted")
	}
	return nil
}

func showLetter(ctx context.Context, con *console, app *app, queue, id string, o letterOptions) error {
	letters, more, err := app.DeadLetters(ctx, queue)
	if err != nil {
		return app.failed(err)
	}
	for _, letter := range letters {
		if letter.ID == id {
			return con.print(letter.JSON(), describeWholeLetter(letter), o.asJSON)
		}
	}
	if more {
		return fmt.Errorf("%s is not among the first %d dead letters of %s, and storage shows no others; it can still be redriven or deleted", printable(id), len(letters), printable(queue))
	}
	return fmt.Errorf("%s is not among the dead letters of %s; it may have been redriven or deleted", printable(id), printable(queue))
}

// describeLetter returns a line with why a message is a dead letter, without the
// stack of a panic.
func describeLetter(l client.DeadLetter) string {
	attempts := ""
	if l.Attempts != nil {
		attempts = ", " + counted(int(*l.Attempts), "attempt")
	}
	return oneLine(fmt.Sprintf("%s since %s%s: %s", l.ID, l.InsertedAt.UTC().Format(time.RFC3339), attempts, firstLine(l.Reason)))
}

// firstLine returns a reason without the stack of a panic that follows it.
func firstLine(reason string) string {
	first, _, _ := strings.Cut(reason, "\n")
	return first
}

// describeStack returns the lines of a reason after its first one, each after a
// line break and indented; "" if there are none.
func describeStack(reason string) (text string) {
	_, rest, _ := strings.Cut(reason, "\n")
	for line := range strings.Lines(rest) {
		text += "\n    " + strings.ReplaceAll(strings.TrimRight(line, "\r\n"), "\t", "    ")
	}
	return text
}

// describeWholeLetter returns describeLetter, and all that is known besides.
func describeWholeLetter(l client.DeadLetter) string {
	by := "the app"
	if l.MovedBy == client.MovedByHost {
		by = "the Functions host or another program"
	}
	kept := "until " + l.ExpiresAt.UTC().Format(time.RFC3339)
	if l.ExpiresAt.UTC().Year() == 9999 { // of a message that never expires
		kept = "until it is redriven or deleted"
	}
	text := fmt.Sprintf("%s%s\n  moved by %s, kept %s", describeLetter(l), describeStack(l.Reason), by, kept)
	if l.TraceParent != "" {
		text += "\n  traceparent " + oneLine(l.TraceParent)
	}
	switch {
	case l.SHA256 != "":
		return fmt.Sprintf("%s\n  the body of %s is private; its SHA-256 is %s", text, counted(l.Size, "byte"), oneLine(l.SHA256))
	case l.Problem != "":
		return text + "\n  no body: " + oneLine(l.Problem)
	case l.Cut:
		text += fmt.Sprintf("\n  the beginning of the body of %s", counted(l.Size, "byte"))
	default:
		text += fmt.Sprintf("\n  body of %s", counted(l.Size, "byte"))
	}
	if l.Encoding == "base64" {
		text += " in base64"
	}
	return text + ":\n" + strings.TrimRight(l.Body, "\n")
}

func letterCount(n int) string { return counted(n, "dead letter") }
