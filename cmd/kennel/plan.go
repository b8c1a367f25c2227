package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"kennel/client"
	stored "kennel/internal/names"
	"kennel/internal/program"
)

func (con *console) planCommand() *cobra.Command {
	var (
		to   target
		drop []string
		file string
	)
	cmd := &cobra.Command{
		Use:   "plan [PACKAGE...]",
		Short: "compare the program with the one that runs, before it is deployed",
		Long: `Builds the program for this machine, has it describe itself, and compares that with the
app at --url: queues that no process would handle any more, with their messages; timers
with another schedule; and new and gone functions, settings and roles.

Queues and timers are those that the app that runs reports. Functions, settings and roles
it does not report: they are compared with infra/app.json, as "kennel functions" or
"kennel up" wrote it the last time. Where that is not what was deployed, name the file of
that with --deployed, as "git show TAG:infra/app.json" returns it. Queues that only that
file has count, too, as those of a second binary.

A queue that is left without a handler and has messages, or whose messages could not be
counted, is an error. Rename it with FormerNames, wait until it is empty, or accept that
with --drop, which deletes nothing.`,
		Example:     "kennel plan --url https://func-kennel-x.azurewebsites.net\nkennel plan --drop emails",
		Annotations: exits("compared, and no messages would be left without a handler", "messages would be left, the program does not build, or the app did not answer", interruptedExit),
		Args:        cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, packages []string) error {
			return con.plan(cmd.Context(), to, packages, drop, file)
		},
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&drop, "drop", nil, "accept that the messages of `QUEUE` are left without\na handler (repeatable)")
	flags.StringVar(&file, "deployed", "", "compare with the description in `FILE`, an infra/app.json of what runs\n(default: that of the project)")
	to.addTo(flags, "print the plan as JSON")
	completeFile(cmd, "deployed")
	return cmd
}

// strandedError is a plan that would leave messages without a handler.
type strandedError struct {
	queues []program.QueueChange
	plan   json.RawMessage // also printed by --json
}

func (s strandedError) Error() string {
	var all []string
	for _, q := range s.queues {
		remedy := "wait until it is empty before the part is removed"
		if !q.BuiltIn {
			remedy = "name it in FormerNames of the queue that replaces it, or wait until it is empty"
		}
		all = append(all, fmt.Sprintf("queue %s would have no handler, and %s: %s, or accept it with --drop %[1]s", printable(q.Queue), contentOf(q), remedy))
	}
	return strings.Join(all, "; ")
}

// contentOf says what a queue has.
func contentOf(q program.QueueChange) string {
	if q.Waiting == nil {
		return "its messages could not be counted"
	}
	return fmt.Sprintf("it has %s and %s", counted(int(*q.Waiting), "message"), letterCount(int(*q.DeadLetters)))
}

func (con *console) plan(ctx context.Context, to target, packages, drop []string, file string) error {
	p, err := openProject("")
	if err != nil {
		return err
	}
	app, err := con.openApp(to)
	if err != nil {
		return err
	}
	last, err := p.LastDescription(file)
	if err != nil {
		return err
	}
	d, err := con.describeProgram(ctx, p, packages)
	if err != nil {
		return err
	}
	if last != nil && last.Program != d.Program {
		return fmt.Errorf("the program that was deployed is %q, and this is %q: it does not start on the account of the other", last.Program, d.Program)
	}
	r, err := app.running(ctx, last)
	if err != nil {
		return err
	}
	plan, err := d.Plan(r, drop)
	if err != nil {
		return usageError(err.Error())
	}
	text, err := json.Marshal(plan)
	if err != nil {
		return err
	}
	stranded := plan.Stranded()
	switch {
	case !to.asJSON:
		if _, err := io.WriteString(con.stdout, con.describePlan(plan, last != nil)); err != nil {
			return err
		}
	case len(stranded) == 0:
		return con.writeLine(string(text))
	}
	if len(stranded) > 0 {
		return strandedError{stranded, text}
	}
	return nil
}

// running reads what is known of the program that runs.
func (a *app) running(ctx context.Context, last *program.Description) (r program.Running, err error) {
	r.Last = last
	status, err := a.Status(ctx) // which every program has: then a 404 means that it has no queues or timers
	if err != nil {
		return r, a.failed(err)
	}
	queues, err := a.Queues(ctx)
	if err = unlessAbsent(err); err != nil {
		return r, a.failed(err)
	}
	timers, err := a.Timers(ctx)
	if err = unlessAbsent(err); err != nil {
		return r, a.failed(err)
	}
	for _, t := range timers.Items {
		r.Timers = append(r.Timers, program.RunningTimer{Name: t.Timer, Schedule: t.Schedule, Zone: t.Zone})
	}
	for _, q := range queues.Items {
		one := program.RunningQueue{
			Name: q.Queue, StorageQueue: q.StorageQueue, BuiltIn: !q.Own, Handled: !q.Own || q.Concurrency > 0, Counted: true,
			Waiting: q.Ready + q.InFlight + q.Delayed, DeadLetters: q.DeadLetters,
		}
		if !one.Handled {
			if one.Handled, err = a.isHandled(ctx, q.Queue, last); err != nil {
				return r, err
			}
		}
		r.Queues = append(r.Queues, one)
	}
	if last == nil {
		return r, nil
	}
	unlisted, err := a.unlisted(ctx, *last, status, r.Queues)
	r.Queues = append(r.Queues, unlisted...)
	return r, err
}

// isHandled reports whether another process of the app works on a queue, or the
// one that was deployed does, which may have stopped. Without a description of
// that it may.
func (a *app) isHandled(ctx context.Context, name string, last *program.Description) (bool, error) {
	if last == nil {
		return true, nil
	}
	if slices.ContainsFunc(last.Queues, func(q program.QueueDescription) bool { return q.Name == name && q.Handled }) {
		return true, nil
	}
	q, err := a.Queue(ctx, name)
	if err != nil {
		return false, a.failed(err)
	}
	return q.Handled, nil
}

// unlisted returns the queues that were deployed and that the process which
// answers does not declare, as those of a second binary.
func (a *app) unlisted(ctx context.Context, last program.Description, status client.Status, listed []program.RunningQueue) (all []program.RunningQueue, err error) {
	letters := make(map[string]int64)
	for _, q := range last.Queues {
		if !q.Handled || slices.ContainsFunc(listed, func(r program.RunningQueue) bool { return r.Name == q.Name }) {
			continue
		}
		if len(all) == 0 {
			dead, err := a.DeadLetterQueues(ctx)
			if err = unlessAbsent(err); err != nil {
				return nil, a.failed(err)
			}
			for _, d := range dead {
				letters[d.Queue] = d.Messages
			}
		}
		one := program.RunningQueue{Name: q.Name, StorageQueue: q.StorageQueue, Handled: true, DeadLetters: letters[q.StorageQueue+stored.PoisonSuffix]}
		if sample, ok := status.Queues[q.StorageQueue]; ok {
			one.Counted, one.Waiting = true, sample.Ready+sample.InFlight+sample.Delayed
		}
		all = append(all, one)
	}
	return all, nil
}

// unlessAbsent ignores that the app does not have a route.
func unlessAbsent(err error) error {
	if refused, ok := errors.AsType[*client.Error](err); ok && refused.Status == http.StatusNotFound {
		return nil
	}
	return err
}

// describePlan returns a plan for people.
func (con *console) describePlan(p program.Plan, compared bool) string {
	var b strings.Builder
	section := func(title string, rows [][]string) {
		if len(rows) > 0 {
			fmt.Fprintf(&b, "%s\n%s", title, con.drawTable(rows, 0))
		}
	}
	var queues [][]string
	for _, q := range p.Queues {
		text := ""
		switch {
		case q.Is == program.IsNew:
		case q.Strands && q.Dropped:
			text = contentOf(q) + ", which is accepted"
		case q.Strands:
			text = contentOf(q) + ": they would be left"
		case q.Waiting != nil && *q.Waiting+*q.DeadLetters == 0:
			text = "it is empty"
		default:
			text = "another program works on it"
		}
		queues = append(queues, []string{"  " + q.Is, plain(q.Queue), text})
	}
	section("queues", queues)
	for _, list := range []struct {
		title string
		all   []program.Change
	}{{"timers", p.Timers}, {"settings", p.Settings}, {"roles", p.Roles}, {"functions", p.Functions}} {
		var rows [][]string
		for _, c := range list.all {
			text := c.To
			switch {
			case c.Is == program.IsGone:
				text = c.From
			case c.Is == program.IsChanged && c.From+c.To != "":
				text = c.From + " -> " + c.To
			}
			rows = append(rows, []string{"  " + c.Is, plain(c.Name), plain(text)})
		}
		section(list.title, rows)
	}
	if b.Len() == 0 {
		b.WriteString("nothing changes\n")
	}
	if !compared {
		b.WriteString("there is no infra/app.json of what runs, so all functions, settings and roles are new\n")
	}
	return b.String()
}
