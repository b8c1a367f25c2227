package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"kennel/client"
)

// pausable is a kind of thing that a person can pause.
type pausable struct {
	kind, example string // such as timer and digest
	stops, goesOn string // what a pause does, and a resume
	pause, resume pauseCall

	// read returns the pause before a change.
	read func(ctx context.Context, app *app, name string) (*client.Pause, error)
}

// pauseCall calls the app for a pause or a resume.
type pauseCall func(ctx context.Context, app *app, name string, by client.PauseChange) (paused *client.Pause, json string, err error)

var pausableTimer = pausable{
	kind: "timer", example: "digest",
	stops:  "takes no slot of its schedule until it is resumed.\nAn attempt that runs goes on.",
	goesOn: "goes on with its next slot.\nOne that catches up first does the slots that it missed.",
	pause:  ofTimer((*client.Client).PauseTimer),
	resume: ofTimer((*client.Client).ResumeTimer),
	read: func(ctx context.Context, app *app, name string) (*client.Pause, error) {
		t, err := app.Timer(ctx, name)
		return t.Paused, err
	},
}

var pausableQueue = pausable{
	kind: "queue", example: "emails",
	stops:  "begins no attempt of its messages until it is resumed.\nAttempts that run go on, messages can be sent, and none loses an attempt. Processes know\nof it within 30 s.",
	goesOn: "goes on with its messages. Behind a Functions host,\nand where queues share a storage queue, they come back within ten minutes.",
	pause:  ofQueue((*client.Client).PauseQueue),
	resume: ofQueue((*client.Client).ResumeQueue),
	read: func(ctx context.Context, app *app, name string) (*client.Pause, error) {
		q, err := app.Queue(ctx, name)
		return q.Paused, err
	},
}

func ofTimer(call func(*client.Client, context.Context, string, client.PauseChange) (client.Timer, error)) pauseCall {
	return func(ctx context.Context, app *app, name string, by client.PauseChange) (*client.Pause, string, error) {
		t, err := call(app.Client, ctx, name, by)
		if err != nil {
			err = app.failed(err)
		}
		return t.Paused, string(t.JSON()), err
	}
}

func ofQueue(call func(*client.Client, context.Context, string, client.PauseChange) (client.Queue, error)) pauseCall {
	return func(ctx context.Context, app *app, name string, by client.PauseChange) (*client.Pause, string, error) {
		q, err := call(app.Client, ctx, name, by)
		if err != nil {
			err = app.queueFailed(ctx, err, name, isOwn)
		}
		return q.Paused, string(q.JSON()), err
	}
}

// isOwn reports whether the program declares a queue.
func isOwn(q client.Queue) bool { return q.Own }

func (con *console) pauseCommand(to *target, p pausable) *cobra.Command {
	return con.pauseOrResume(to, p, &cobra.Command{
		Use:   "pause NAME",
		Short: "pause a " + p.kind,
		Long: fmt.Sprintf(`Pauses a %s, which then %s
Pausing a paused %s changes nothing and is not an error.`, p.kind, p.stops, p.kind),
		Example:     fmt.Sprintf("kennel %ss pause %s --reason \"the mail server is down\"", p.kind, p.example),
		Annotations: requestExits("paused"),
	}, p.pause)
}

func (con *console) resumeCommand(to *target, p pausable) *cobra.Command {
	return con.pauseOrResume(to, p, &cobra.Command{
		Use:   "resume NAME",
		Short: "resume a paused " + p.kind,
		Long: fmt.Sprintf(`Ends the pause of a %s, which %s
Resuming a %s that is not paused changes nothing and is not an error.`, p.kind, p.goesOn, p.kind),
		Example:     fmt.Sprintf("kennel %ss resume %s", p.kind, p.example),
		Annotations: requestExits("resumed"),
	}, p.resume)
}

func (con *console) pauseOrResume(to *target, p pausable, cmd *cobra.Command, change pauseCall) *cobra.Command {
	var by client.PauseChange
	cmd.Args = oneWord(p.kind, p.example)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		app, err := con.openApp(*to)
		if err != nil {
			return err
		}
		if by.By == "" {
			by.By = loginName(con.env)
		}
		// The app answers the same whether or not something changed. If this read
		// fails, the answer is enough, or it has the same error.
		before, readErr := p.read(cmd.Context(), app, args[0])
		paused, json, err := change(cmd.Context(), app, args[0], by)
		if err != nil {
			return err
		}
		if to.asJSON {
			return con.writeLine(json)
		}
		state := "is resumed"
		switch {
		case paused != nil && before != nil:
			state = "was paused already: it " + describePause(paused)
		case paused != nil:
			state = describePause(paused)
		case readErr == nil && before == nil:
			state = "was not paused"
		}
		_, err = fmt.Fprintf(con.stdout, "%s %s %s\n", p.kind, printable(args[0]), state)
		return err
	}
	cmd.Flags().StringVar(&by.By, "by", "", "record `WHO` as the one who makes the change (default: your login name)")
	cmd.Flags().StringVar(&by.Reason, "reason", "", "record the reason `WHY`, up to 1000 characters")
	return cmd
}

// pausedSince returns a pause in a table.
func pausedSince(p *client.Pause) string {
	if p == nil {
		return "-"
	}
	return timeOrNone(&p.At)
}

// describePause returns since when something is paused, by whom and why.
func describePause(p *client.Pause) string {
	text := fmt.Sprintf("is paused since %s by %s", p.At.UTC().Format(time.RFC3339), printable(oneLine(p.By.Name)))
	if !p.By.Verified {
		text += " (not verified)"
	}
	if p.Reason != "" {
		text += ": " + printable(oneLine(p.Reason))
	}
	return text
}
