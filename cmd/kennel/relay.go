package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kennel/client"
)

func (con *console) relayCommand() *cobra.Command {
	var to target
	var watch bool
	var wait time.Duration
	status := &cobra.Command{
		Use:   "status",
		Short: "print where messages go, and the backlog",
		Long: `Prints the queues and topics to which the app sent messages within the last hour, and those
that have messages in the backlog. Each is healthy (messages go to it), suspect (sends to it
fail), or failed over (messages go to the backlog): the worst state of all instances. The
backlog is counted once a minute: COUNTED is how long ago, and what came or went since is
not in it. A - means that it was not counted yet.

With --watch it repeats the request every 5 s until Ctrl+C. On a terminal it replaces the
screen; elsewhere it prints a line for each change, or with --json each answer.`,
		Example:     "kennel relay status --watch",
		Annotations: requestExits("printed, or --watch ended by Ctrl+C"),
		Args:        noWords,
		RunE: func(cmd *cobra.Command, _ []string) error {
			app, err := con.openApp(to)
			if err != nil {
				return err
			}
			if watch {
				return con.watchRelay(cmd.Context(), app, to.asJSON)
			}
			entities, err := app.Relay(cmd.Context())
			if err != nil {
				return app.failed(err)
			}
			if len(entities) == 0 {
				con.say("no messages were sent within the last hour, and the backlog is empty")
				return nil
			}
			app.listed()
			return con.printRelay(entities, to.asJSON, "")
		},
	}
	status.Flags().BoolVar(&watch, "watch", false, "continue until Ctrl+C")

	syphon := &cobra.Command{
		Use:   "syphon",
		Short: "move the backlog to its queues and topics now",
		Long: `Moves the messages of the backlog to their queues and topics, until none is left that can be
moved. The app does the same once a minute; this command does it at once. No message is lost
if it is interrupted.

A queue or topic that did not work is left alone for up to 30 s. Right after an outage, use
--wait 1m.`,
		Example:     "kennel relay syphon --wait 1m",
		Annotations: exits("nothing is left in the backlog that can be moved", "messages are left, or the app was not reached or returned an error", interruptedExit),
		Args:        noWords,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if wait < 0 {
				return usagef("--wait is %v; use a positive duration such as 1m", wait)
			}
			app, err := con.openApp(to)
			if err != nil {
				return err
			}
			return con.syphon(cmd.Context(), app, wait, to.asJSON)
		},
	}
	syphon.Flags().DurationVar(&wait, "wait", 0, "while messages cannot be moved, try again for up to `TIME`")

	relay := group(&cobra.Command{
		Use:   "relay <command>",
		Short: "show where messages go while Service Bus does not work, and move the backlog",
		Long: `If the app has two Service Bus namespaces, messages for a queue or topic of the primary one
that does not work go to the backlog on the secondary one. The app moves them when the
primary one works again.`,
		Example:     "kennel relay status\nkennel relay syphon",
		Annotations: requestExits("done"),
	}, status, syphon)
	to.addTo(relay.PersistentFlags(), responsesAsJSON)
	return relay
}

// printRelay prints the entities, after prefix.
func (con *console) printRelay(entities []client.RelayEntity, asJSON bool, prefix string) error {
	if !asJSON {
		_, err := io.WriteString(con.stdout, prefix+con.describeRelay(entities, time.Now()))
		return err
	}
	for _, e := range entities {
		if err := con.writeLine(string(e.JSON())); err != nil {
			return err
		}
	}
	return nil
}

func (con *console) watchRelay(ctx context.Context, app *app, asJSON bool) error {
	return watchAnswers(ctx, con, app, app.Relay, func() func([]client.RelayEntity) error { return con.showRelay(asJSON) })
}

// showRelay returns the function that shows each answer of a watch.
func (con *console) showRelay(asJSON bool) func([]client.RelayEntity) error {
	prefix := ""
	switch {
	case asJSON:
	case isTerminal(con.stdout) && con.env["TERM"] != "dumb":
		prefix = clearScreen
	default:
		last := make(map[string]string)
		return func(entities []client.RelayEntity) error {
			for _, e := range entities {
				text := describeEntity(e)
				if text == last[e.Entity] {
					continue
				}
				last[e.Entity] = text
				if err := con.writeLine(time.Now().UTC().Format(time.RFC3339) + " " + text); err != nil {
					return err
				}
			}
			return nil
		}
	}
	return func(entities []client.RelayEntity) error { return con.printRelay(entities, asJSON, prefix) }
}

// describeEntity returns the state of an entity in one line.
func describeEntity(e client.RelayEntity) string {
	text := fmt.Sprintf("%s: %s", e.Entity, relayState(e))
	if b := e.Backlog; b != nil && b.Messages > 0 {
		text += fmt.Sprintf(", %s in the backlog", counted(int(b.Messages), "message"))
	}
	return plain(text)
}

// relayState returns the state for people.
func relayState(e client.RelayEntity) string {
	text := e.State
	if text == client.RelayFailedOver {
		text = "failed over"
	}
	if e.Throttled {
		text += ", throttled"
	}
	return text
}

// describeRelay returns a table of the entities. The backlog was counted some
// time before now, and messages that came since are not in it.
func (con *console) describeRelay(entities []client.RelayEntity, now time.Time) string {
	rows := [][]string{{"ENTITY", "STATE", "SINCE", "BACKLOG", "OLDEST", "COUNTED", "LAST ERROR"}}
	for _, e := range entities {
		since, messages, oldest, age, lastError := "-", "-", "-", "-", "-"
		if !e.Since.IsZero() {
			since = e.Since.UTC().Format(time.RFC3339)
		}
		if b := e.Backlog; b != nil && !(e.State == client.RelayFailedOver && b.Messages == 0 && b.At.Before(e.Since)) {
			messages, oldest = grouped(float64(b.Messages)), seconds(b.OldestSeconds)
			if b.More {
				messages += " or more"
			}
			if !b.At.IsZero() {
				age = ago(now.Sub(b.At))
			}
		}
		if e.LastError != "" {
			lastError = e.LastError
		}
		rows = append(rows, []string{plain(e.Entity), plain(relayState(e)), since, messages, oldest, age, plain(lastError)})
	}
	// A line is painted as a whole, because a tabwriter counts invisible bytes.
	lines := strings.Split(strings.TrimSuffix(con.drawTable(rows, 0), "\n"), "\n")
	for i, e := range entities {
		switch e.State {
		case client.RelaySuspect:
			lines[i+1] = con.paint(con.stdout, yellow, lines[i+1])
		case client.RelayFailedOver:
			lines[i+1] = con.paint(con.stdout, red, lines[i+1])
		}
	}
	return strings.Join(lines, "\n") + "\n"
}

// syphonPause is how long to wait after a call that moved nothing.
const syphonPause = 2 * time.Second

// syphon moves the backlog in calls to the app until none of it is left. If a
// call moves nothing, it gives up after wait.
func (con *console) syphon(ctx context.Context, app *app, wait time.Duration, asJSON bool) error {
	out := con.progress()
	defer out.end()
	app.say = out.say
	began := time.Now()
	var all client.SyphonRun
	out.show("moving the backlog")
	for {
		run, err := app.Syphon(ctx)
		if err != nil {
			return explained{clause(app.explain(err)) + "; " + movedMessages(all) + " so far", err}
		}
		all.Moved += run.Moved
		all.DeadLettered += run.DeadLettered
		all.Expired += run.Expired
		all.Held, all.Unreadable, all.More = run.Held, run.Unreadable, run.More
		if asJSON {
			if err := con.writeLine(string(run.JSON())); err != nil {
				return err
			}
		}
		stuck := run.Moved+run.DeadLettered+run.Expired == 0
		if !run.More || stuck && time.Since(began)+syphonPause > wait {
			break
		}
		out.report(describeMoving(all, time.Since(began)))
		if stuck {
			select {
			case <-time.After(syphonPause):
			case <-ctx.Done():
				return fmt.Errorf("%w; %s so far", ctx.Err(), movedMessages(all))
			}
		}
	}
	out.end()
	if !asJSON {
		if err := con.writeLine(movedMessages(all)); err != nil {
			return err
		}
	}
	return leftBehind(all)
}

// describeMoving returns the progress after a time.
func describeMoving(all client.SyphonRun, elapsed time.Duration) string {
	text := movedMessages(all) + rateOf(int(all.Moved), elapsed)
	if all.Held > 0 {
		text += fmt.Sprintf(", %d cannot be moved now", all.Held)
	}
	return text
}

// movedMessages describes the result of calls of the syphon.
func movedMessages(all client.SyphonRun) string {
	text := counted(int(all.Moved), "message") + " moved"
	if all.DeadLettered > 0 {
		text += fmt.Sprintf(", %d dead-lettered in the backlog", all.DeadLettered)
	}
	if all.Expired > 0 {
		text += fmt.Sprintf(", %d expired", all.Expired)
	}
	return text
}

// leftBehind returns an error if messages are left in the backlog.
func leftBehind(all client.SyphonRun) error {
	var left []string
	switch {
	case all.Held > 0:
		left = append(left, counted(int(all.Held), "message")+" cannot be moved now; see `kennel relay status`, or use --wait to try again")
	case all.More:
		left = append(left, "messages are left, which another run of the syphon may hold; see `kennel relay status`")
	}
	if all.Unreadable > 0 {
		left = append(left, counted(int(all.Unreadable), "message")+" cannot be decoded and stay in the backlog; see the app's log")
	}
	if len(left) == 0 {
		return nil
	}
	return errors.New(strings.Join(left, "\n"))
}
