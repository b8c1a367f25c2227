package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kennel/client"
)

// maxMessage is more bytes than the app accepts in a message.
const maxMessage = 1 << 20

// sendOptions are the flags of "kennel send".
type sendOptions struct {
	message    client.Message // without the body
	at         string
	properties []string
	lines      bool
	target
}

func (con *console) sendCommand() *cobra.Command {
	var o sendOptions
	cmd := &cobra.Command{
		Use:   "send ENTITY [FILE]",
		Short: "send messages to a queue or topic of Service Bus",
		Long: `Sends the content of FILE as a message to ENTITY, a queue or topic of the app's Service Bus
namespace; without FILE, or if it is -, that of standard input. While the namespace does not
work, an app that has a second one stores the message there, in the backlog, and moves it to
ENTITY later.

With --lines each line is a message; empty lines are left out. Up to ` + strconv.Itoa(parallelLines) + ` lines are sent at a
time, in no particular order; with --session one after another. Lines that fail are listed
at the end; with --json there is a result for each line. No other line is sent after ` + strconv.Itoa(maxFailedLines) + ` of
them, after the first one with --session, or if the app rejects every line.

A message that is sent twice with one ID is stored once if ENTITY detects duplicates. So if
it is unclear whether a message was sent, repeat the command with the --id that it prints.`,
		Example:     "echo '{\"order\":1001}' | kennel send orders --content-type application/json\nkennel send eu/invoices invoice.xml --session ann --property retry:=false --ttl 24h\nkennel send orders orders.ndjson --lines",
		Annotations: requestExits("all messages are stored, in the entity or in the backlog"),
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 || args[0] == "" {
				return usagef("no queue or topic given; for example %s orders message.json", cmd.CommandPath())
			}
			return unexpected(cmd, args, 2)
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) == 1 {
				return nil, cobra.ShellCompDirectiveDefault
			}
			return nil, cobra.ShellCompDirectiveNoFileComp
		},
	}
	flags, m := cmd.Flags(), &o.message
	flags.StringVar(&m.ID, "id", "", "give the message the `ID`; with --lines each line ID-1, ID-2, …\n(default: random)")
	flags.StringVar(&m.SessionID, "session", "", "send to the session `ID`")
	flags.StringVar(&m.PartitionKey, "partition-key", "", "store it in the partition of the key `K`")
	flags.StringVar(&m.Subject, "subject", "", "set the subject `TEXT`, which is also called the label")
	flags.StringVar(&m.CorrelationID, "correlation-id", "", "set the correlation id `ID`")
	flags.StringVar(&m.To, "to", "", "set the address `TEXT` for which the message is")
	flags.StringVar(&m.ReplyTo, "reply-to", "", "set the address `TEXT` for answers")
	flags.StringVar(&m.ContentType, "content-type", "", "set the content type `TYPE`, such as application/json")
	flags.DurationVar(&m.TimeToLive, "ttl", 0, "drop it after `TIME`, for example 10m (default: the entity's)")
	flags.StringVar(&o.at, "at", "", "make it appear at `TIME`, such as 2026-01-02T03:04:05Z")
	flags.StringArrayVar(&o.properties, "property", nil, "set the property `NAME=TEXT`, or NAME:=VALUE for a number,\ntrue or false (repeatable)")
	flags.BoolVar(&o.lines, "lines", false, "send each line as a message")
	o.addTo(flags, responsesAsJSON)
	completeWith(cmd, "content-type", "application/json", "text/plain")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case m.ID == "" && flags.Changed("id"):
			return usagef("--id is empty; leave it out for a random one")
		case flags.Changed("ttl") && (m.TimeToLive <= 0 || m.TimeToLive%time.Millisecond != 0):
			return usagef("--ttl is %v; use whole milliseconds, such as 500ms or 10m", m.TimeToLive)
		}
		var err error
		if flags.Changed("at") {
			if m.ScheduledAt, err = time.Parse(time.RFC3339, o.at); err != nil {
				return usagef("--at is %q; use a time such as 2026-01-02T03:04:05Z", printable(o.at))
			}
		}
		if m.Properties, err = parseProperties(o.properties); err != nil {
			return err
		}
		if m.ID == "" {
			m.ID = rand.Text() // not the client's, so that an error can name it
		}
		app, err := con.openApp(o.target)
		if err != nil {
			return err
		}
		path := "-"
		if len(args) > 1 {
			path = args[1]
		}
		entity := strings.ReplaceAll(args[0], "~", "/") // as in addresses
		return con.send(cmd.Context(), app, entity, path, o)
	}
	return cmd
}

// parseProperties reads the values of --property.
func parseProperties(list []string) (map[string]any, error) {
	properties := make(map[string]any, len(list))
	for _, text := range list {
		name, value, found := strings.Cut(text, "=")
		name, typed := strings.CutSuffix(name, ":")
		_, taken := properties[name]
		switch {
		case !found || name == "":
			return nil, usagef("--property is %q; use NAME=TEXT, or NAME:=VALUE for a number, true or false", printable(text))
		case taken:
			return nil, usagef("--property %s is given twice", printable(name))
		case !typed:
			properties[name] = value
			continue
		}
		v, ok := parseValue(value)
		if !ok {
			return nil, usagef("--property %s has the value %q; after := use a number, true or false", printable(name), printable(value))
		}
		properties[name] = v
	}
	return properties, nil
}

// parseValue reads a number, true or false as JSON has them.
func parseValue(text string) (any, bool) {
	if !json.Valid([]byte(text)) {
		return nil, false // such as 0x10 or NaN
	}
	if text == "true" || text == "false" {
		return text == "true", true
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n, true
	}
	f, err := strconv.ParseFloat(text, 64)
	return f, err == nil
}

// openInput opens a file, or else standard input. ctx ends a read of it. The caller
// calls done.
func (con *console) openInput(ctx context.Context, path string, isFile bool) (in io.Reader, done func(), err error) {
	in, closes := con.stdin, func() error { return nil }
	if isFile {
		file, err := os.Open(path)
		if err != nil {
			return nil, nil, err
		}
		in, closes = file, file.Close
	} else if isTerminal(in) {
		con.say("reading from standard input; Ctrl+D ends it")
	}
	reading, stop := context.WithCancel(ctx)
	return interruptible(reading, in), func() {
		stop()
		closes()
	}, nil
}

// readMessage reads all of a message. taker is who takes none that is longer, such
// as "no queue takes".
func readMessage(in io.Reader, taker string) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(in, maxMessage+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the message: %w", err)
	case len(body) > maxMessage:
		return nil, fmt.Errorf("the message has more than %d bytes, which %s; to send each line of a file, use --lines", maxMessage, taker)
	}
	return body, nil
}

// send sends a file, or standard input if path is "-".
func (con *console) send(ctx context.Context, app *app, entity, path string, o sendOptions) error {
	in, done, err := con.openInput(ctx, path, path != "-")
	if err != nil {
		return err
	}
	defer done()
	if o.lines {
		return con.sendLines(ctx, app, entity, in, o)
	}
	body, err := readMessage(in, "no namespace of the app accepts")
	if err != nil {
		return err
	}
	m := o.message
	m.Body = body
	sending := con.step("sending to " + printable(entity))
	sent, err := app.SendMessage(ctx, entity, m)
	sending()
	if errors.Is(err, client.ErrUnclear) {
		return explained{clause(app.explain(err)) + "; " + repeatWith("it", entity, m.ID), err}
	}
	if err != nil {
		return app.failed(err)
	}
	text := fmt.Sprintf("message %s is in %s", sent.MessageID, entity)
	if sent.SentTo == client.SentToBacklog {
		text = fmt.Sprintf("message %s is in the backlog, and will be moved to %s when that works again", sent.MessageID, entity)
	}
	return con.print(sent.JSON(), text, o.asJSON)
}

// repeatWith explains how to send something again that may have been sent.
func repeatWith(what, entity, id string) string {
	return printable(fmt.Sprintf("to send %s again, repeat the command with --id %s: if %s detects duplicates, no message is stored twice", what, id, entity))
}
