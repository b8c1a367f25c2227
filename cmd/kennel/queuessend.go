package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kennel/client"
)

// queueSendOptions are the flags of "kennel queues send".
type queueSendOptions struct {
	queue  string
	delay  time.Duration
	file   string
	lines  bool
	asJSON bool
}

func (con *console) queuesSendCommand(to *target) *cobra.Command {
	var o queueSendOptions
	cmd := &cobra.Command{
		Use:   "send QUEUE [BODY | -]",
		Short: "send messages to a queue of the program",
		Long: `Sends BODY as a message to a queue that the program declares; without BODY, or if it is -,
standard input, and with --file the content of a file. The program's type of the queue
decides what it takes, usually JSON.

With --lines each line is a message in JSON; empty lines are left out. Up to 1,000 lines are
sent with a request, in no particular order. Lines that cannot be sent are listed on
standard error with their numbers, and the others are sent.

If it is unclear whether a message was sent, it is not sent again: the queue would have it
twice.`,
		Example:     "kennel queues send emails '{\"to\":\"ann\"}'\nkennel queues send emails --file mail.json --delay 1h30m\nkennel queues send emails --lines <emails.ndjson",
		Annotations: requestExits("all messages are stored"),
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 || args[0] == "" {
				return usagef("no queue given; for example %s emails '{\"to\":\"ann\"}'", cmd.CommandPath())
			}
			return unexpected(cmd, args, 2)
		},
	}
	flags := cmd.Flags()
	flags.DurationVar(&o.delay, "delay", 0, "let it be received after `TIME` at the earliest, for example 30s")
	flags.StringVar(&o.file, "file", "", "send the content of `FILE`")
	flags.BoolVar(&o.lines, "lines", false, "send each line as a message")
	completeFile(cmd, "file")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		o.queue, o.asJSON = args[0], to.asJSON
		body, fromArgs := "", len(args) > 1 && args[1] != "-"
		if fromArgs {
			body = args[1]
		}
		switch {
		case o.delay < 0:
			return usagef("--delay is %v; use a time such as 30s", o.delay)
		case flags.Changed("file") && len(args) > 1:
			return usagef("a message and --file exclude each other; use one of them")
		case flags.Changed("file") && o.file == "":
			return usagef("--file is empty; name a file")
		case o.lines && fromArgs:
			return usagef("--lines reads standard input, or --file FILE, and not %q", printable(body))
		}
		app, err := con.openApp(*to)
		if err != nil {
			return err
		}
		if fromArgs {
			return con.sendToQueue(cmd.Context(), app, []byte(body), o)
		}
		return con.sendFile(cmd.Context(), app, o)
	}
	return cmd
}

// sendFile sends the file of the options, or standard input.
func (con *console) sendFile(ctx context.Context, app *app, o queueSendOptions) error {
	in, done, err := con.openInput(ctx, o.file, o.file != "")
	if err != nil {
		return err
	}
	defer done()
	if o.lines {
		return con.sendLinesToQueue(ctx, app, in, o)
	}
	body, err := readMessage(in, "no queue takes")
	if err != nil {
		return err
	}
	return con.sendToQueue(ctx, app, body, o)
}

func (con *console) sendToQueue(ctx context.Context, app *app, body []byte, o queueSendOptions) error {
	if len(body) == 0 {
		return usagef("the message is empty; give it as an argument, with --file, or on standard input")
	}
	done := con.step("sending to " + printable(o.queue))
	m, err := app.SendToQueue(ctx, o.queue, body, &client.QueueSendOptions{Delay: o.delay})
	done()
	if err != nil {
		return app.sendFailed(ctx, err, o.queue)
	}
	text := fmt.Sprintf("message %s is in %s", m.ID, o.queue)
	if o.delay > 0 {
		text += fmt.Sprintf(", and is received after %v at the earliest", o.delay)
	}
	return con.print(m.JSON(), text, o.asJSON)
}

// sendFailed explains why a message was not sent to a queue.
func (a *app) sendFailed(ctx context.Context, err error, queue string) error {
	return a.queueFailed(ctx, err, queue, isOwn)
}

// sendLinesToQueue sends each line of a text, and lists those that fail.
func (con *console) sendLinesToQueue(ctx context.Context, app *app, in io.Reader, o queueSendOptions) error {
	out, began, listed := con.progress(), time.Now(), 0
	report := func(s client.SentLines) {
		for ; listed < len(s.Failed) && !o.asJSON; listed++ {
			f := s.Failed[listed]
			out.say("%s", printable(oneLine(fmt.Sprintf("line %d: %s: %s", f.Line, f.Code, f.Message))))
		}
		out.report(sentToQueue(s, o.queue) + rateOf(s.Sent, time.Since(began)))
	}
	s, err := app.SendLinesToQueue(ctx, o.queue, in, &client.QueueLinesOptions{Bodies: true, Delay: o.delay, Progress: report})
	report(s) // what is known after an error
	out.end()
	if failed := con.writeSentLines(s, o); failed != nil {
		return failed
	}
	switch {
	case err != nil && s.Lines == 0:
		return app.sendFailed(ctx, err, o.queue)
	case err != nil:
		err = app.sendFailed(ctx, err, o.queue)
		return explained{fmt.Sprintf("%s; line %d is the last one that is done", clause(err.Error()), s.Lines), err}
	case len(s.Failed) > 0 && !o.asJSON:
		return fmt.Errorf("%s not sent", counted(len(s.Failed), "line"))
	case len(s.Failed) > 0:
		return errors.New(lineFailures(s.Failed))
	}
	return nil
}

func sentToQueue(s client.SentLines, queue string) string {
	return fmt.Sprintf("%s sent to %s", counted(s.Sent, "message"), printable(queue))
}

// writeSentLines prints the result of lines.
func (con *console) writeSentLines(s client.SentLines, o queueSendOptions) error {
	if !o.asJSON {
		return con.writeLine(sentToQueue(s, o.queue))
	}
	result := struct {
		Sent   int                 `json:"sent"`
		Failed []client.FailedLine `json:"failed"`
		Lines  int                 `json:"lines"`
	}{s.Sent, append([]client.FailedLine{}, s.Failed...), s.Lines}
	text, err := json.Marshal(result)
	if err != nil {
		return err
	}
	return con.writeLine(string(text))
}

// lineFailures lists lines that were not sent.
func lineFailures(failed []client.FailedLine) string {
	parts := []string{counted(len(failed), "line") + " not sent:"}
	for _, f := range failed {
		parts = append(parts, oneLine(fmt.Sprintf("line %d: %s: %s", f.Line, f.Code, f.Message)))
	}
	return strings.Join(parts, "\n  ")
}
