package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"kennel/client"
)

const (
	// watchEvery is the time between two requests of a watch. Problems
	// of other instances take as long to be seen.
	watchEvery = 5 * time.Second

	clearScreen = "\x1b[H\x1b[2J"

	// maxRows bounds each table on the screen, and maxNames the instances that a
	// problem names.
	maxRows  = 20
	maxNames = 3
)

func (con *console) statusCommand() *cobra.Command {
	var to target
	var watch bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "show the problems of the app with their remedies, its instances and queues",
		Long: `Shows the problems of all instances with what to do about them, then the instances and
the depths of the work queues, what waits in the backlog of the relay if anything does, and
what the app costs. The sequences and gates are those of
the instance that answers: the 20 that it reserves most often, and the 20 with the most
waiters.

With --watch it repeats the request every 5 s until Ctrl+C. On a terminal it replaces the
screen; elsewhere it prints a line for each change, or with --json each answer.`,
		Example: "kennel status || kennel status --json | jq '.problems[].code'",
		Annotations: exits("no problems, or --watch ended by Ctrl+C", "the app was not reached or returned an error",
			"3    the app has a problem", interruptedExit),
		Args: noWords,
	}
	cmd.Flags().BoolVar(&watch, "watch", false, "continue until Ctrl+C")
	to.addTo(cmd.Flags(), "print the app's answer as a line of JSON")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		app, err := con.openApp(to)
		if err != nil {
			return err
		}
		if watch {
			return con.watchStatus(cmd.Context(), app, to.asJSON)
		}
		s, err := app.Status(cmd.Context())
		if err != nil {
			return app.failed(err)
		}
		text := con.describeStatus(s)
		if to.asJSON {
			text = string(s.JSON())
		}
		if err := con.writeLine(text); err != nil {
			return err
		}
		if s.Status != "ok" {
			return exitCode(exitDegraded)
		}
		return nil
	}
	return cmd
}

func (con *console) watchStatus(ctx context.Context, app *app, asJSON bool) error {
	return watchAnswers(ctx, con, app, app.Status, func() func(client.Status) error { return con.showStatus(asJSON) })
}

// watchAnswers reads something of the app every few seconds and shows it, until
// ctx ends. It continues when the app does not respond, unless it never did.
// begin returns the function that shows an answer; after an outage another one,
// because then an answer is news even if it did not change.
func watchAnswers[T any](ctx context.Context, con *console, app *app, read func(context.Context) (T, error), begin func() func(T) error) error {
	show := begin()
	failure := "" // of the last request
	for responded := false; ; {
		v, err := read(ctx)
		switch {
		case ctx.Err() != nil:
			return nil // Ctrl+C is the normal end
		case err != nil && !responded:
			return app.failed(err)
		case err != nil:
			if text := printable(clause(app.explain(err))); text != failure {
				failure = text
				con.say("%s; still watching", failure)
			}
			show = begin()
		default:
			responded, failure = true, ""
			if err := show(v); err != nil {
				return err
			}
		}
		select {
		case <-time.After(watchEvery):
		case <-ctx.Done():
			return nil
		}
	}
}

// showStatus returns the function that shows each status of a watch.
func (con *console) showStatus(asJSON bool) func(client.Status) error {
	switch {
	case asJSON:
		return func(s client.Status) error { return con.writeLine(string(s.JSON())) }
	case isTerminal(con.stdout) && con.env["TERM"] != "dumb":
		return func(s client.Status) error { return con.writeLine(clearScreen + con.describeStatus(s)) }
	}
	return con.showChanges()
}

// showChanges returns a function that writes a line for each status that
// differs from the one before.
func (con *console) showChanges() func(client.Status) error {
	last := ""
	return func(s client.Status) error {
		line := summarize(s)
		if line == last {
			return nil
		}
		last = line
		return con.writeLine(time.Now().UTC().Format(time.RFC3339) + " " + line)
	}
}

// summarize returns the status in one line.
func summarize(s client.Status) string {
	var names []string
	for _, p := range s.Problems {
		names = append(names, nameOf(p))
	}
	return plain(strings.TrimSuffix(s.Status+": "+strings.Join(names, ", "), ": "))
}

func nameOf(p client.Problem) string { return strings.TrimSpace(p.Code + " " + p.Subject) }

// describeStatus returns the screen: problems first.
func (con *console) describeStatus(s client.Status) string {
	now := time.Now()
	for _, i := range s.Instances {
		if i.Instance == s.Instance {
			now = i.SeenAt // the clock that the other times are of
		}
	}
	var screen strings.Builder
	headline := con.paint(con.stdout, green, s.Status)
	if s.Status != "ok" {
		headline = con.paint(con.stdout, red, plain(s.Status))
	}
	fmt.Fprintf(&screen, "%s: %s, %s\n", headline, counted(max(len(s.Problems), s.ProblemCount), "problem"), counted(max(len(s.Instances), s.InstanceCount), "instance"))
	for _, p := range s.Problems {
		fmt.Fprintf(&screen, "\n%s: %s\n  %s, first %s, in %s\n  %s\n", con.paint(con.stdout, bold, plain(nameOf(p))), plain(p.What),
			counted(int(p.Count), "time"), ago(now.Sub(p.Since)), someOf(p.Instances, p.InstanceCount), plain(p.Help))
	}
	if more := s.ProblemCount - len(s.Problems); more > 0 {
		fmt.Fprintf(&screen, "\n%s left out, which have the codes of these\n", counted(more, "more problem"))
	}
	writeTable(con, &screen, "INSTANCE\tKIND\tVERSION\tSTARTED\tSEEN\tCPU\tMEMORY\tHANDS", s.Instances, s.InstanceCount, func(i client.Instance) []any {
		return []any{i.Instance, i.Kind, i.Version, ago(now.Sub(i.StartedAt)), ago(now.Sub(i.SeenAt)),
			fmt.Sprintf("%.2f", i.CPU), fmt.Sprintf("%.0f MB", float64(i.Memory)/1e6), i.Hands}
	})
	if s.LeftOut > 0 {
		fmt.Fprintf(&screen, "%s left out: a newer build wrote their reports, or another program\n", counted(s.LeftOut, "instance"))
	}
	writeTable(con, &screen, "QUEUE\tREADY\tIN FLIGHT\tDELAYED\tOLDEST\tDEAD LETTERS", sorted(s.Queues), len(s.Queues), func(queue string) []any {
		q := s.Queues[queue]
		return []any{queue, q.Ready, q.InFlight, q.Delayed, fmt.Sprintf("%.0f s", q.OldestSeconds), q.Poison}
	})
	for i, queue := range sorted(s.Paused) {
		if i == 0 {
			screen.WriteString("\n")
		}
		pause := s.Paused[queue]
		fmt.Fprintf(&screen, "queue %s %s\n", plain(queue), describePause(&pause))
	}
	here := " of " + plain(s.Instance)
	writeTable(con, &screen, "SEQUENCE"+here+"\tISSUED\tAVAILABLE\tLOST\tPROBLEM", sorted(s.Sequences), s.SequenceCount, func(sequence string) []any {
		q := s.Sequences[sequence]
		return []any{sequence, q.Issued, q.Available, q.Lost, cmp.Or(q.Problem, "none")}
	})
	writeTable(con, &screen, "GATE"+here+"\tSTATE\tWAITERS\tERROR", sorted(s.Gates), s.GateCount, func(gate string) []any {
		g := s.Gates[gate]
		state := map[bool]string{true: "released", false: "closed"}[g.State.Released]
		return []any{gate, state, g.Waiting, cmp.Or(g.Error, "none")}
	})
	if r := s.Relay; r != nil && (r.FailedOver > 0 || r.Backlog != nil && r.Backlog.Messages > 0) {
		fmt.Fprintf(&screen, "\nrelay: %s; see `kennel relay status`\n", describeBacklog(r, now))
	}
	if b := s.Bill; b != nil {
		fmt.Fprintf(&screen, "\nbill: %s %s today, %s this month, for storage and Service Bus (prices %s of %s)\n",
			plain(b.Today), plain(b.Currency), plain(b.Month), plain(b.Prices.Name), plain(b.Prices.Date))
	}
	return strings.TrimRight(screen.String(), "\n")
}

// describeBacklog summarizes an outage of Service Bus.
func describeBacklog(r *client.RelayStatus, now time.Time) string {
	text := "the backlog was not counted lately"
	if b := r.Backlog; b != nil {
		text = counted(int(b.Messages), "message")
		if b.More {
			text += " or more"
		}
		text += " in the backlog, counted " + ago(now.Sub(b.At))
	}
	if r.FailedOver > 0 {
		text += fmt.Sprintf("; failed over: %d", r.FailedOver)
	}
	return text
}

// plain makes a text of the app safe for a line of the screen.
func plain(text string) string { return printable(oneLine(text)) }

// writeTable writes rows in columns under a heading, and nothing without rows.
// The app has total of them, or has sent all.
func writeTable[T any](con *console, screen *strings.Builder, heading string, rows []T, total int, cells func(T) []any) {
	if len(rows) == 0 {
		return
	}
	table := [][]string{strings.Split(heading, "\t")}
	for _, row := range rows[:min(len(rows), maxRows)] {
		var texts []string
		for _, cell := range cells(row) {
			texts = append(texts, plain(fmt.Sprint(cell)))
		}
		table = append(table, texts)
	}
	screen.WriteString("\n" + con.drawTable(table, 0))
	switch shown := min(len(rows), maxRows); {
	case total > len(rows):
		fmt.Fprintf(screen, "… and %d more\n", total-shown)
	case len(rows) > shown:
		fmt.Fprintf(screen, "… and %d more; --json has all\n", len(rows)-shown)
	}
}

// drawTable returns rows in columns, not wider than the terminal that shows them.
// align is 0 or [tabwriter.AlignRight].
func (con *console) drawTable(rows [][]string, align uint) string {
	const gap = 2
	width := columns(con.stdout)
	if align != 0 {
		width -= gap // which is then also before the first column
	}
	fit(rows, gap, width)
	var text strings.Builder
	table := tabwriter.NewWriter(&text, 0, 0, gap, ' ', align)
	for _, row := range rows {
		fmt.Fprintln(table, strings.Join(row, "\t"))
	}
	table.Flush() // to memory
	return text.String()
}

func sorted[T any](all map[string]T) []string { return slices.Sorted(maps.Keys(all)) }

// someOf names the first of them. There are total, or those that are given.
func someOf(names []string, total int) string {
	text := plain(strings.Join(names[:min(len(names), maxNames)], ", "))
	if more := max(len(names), total) - maxNames; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// counted returns a number with its noun.
func counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// ago describes how long ago something was.
func ago(d time.Duration) string {
	switch {
	case d < 5*time.Second:
		return "now"
	case d < 2*time.Minute:
		return fmt.Sprintf("%.0f s ago", d.Seconds())
	case d < 2*time.Hour:
		return fmt.Sprintf("%.0f min ago", d.Minutes())
	case d < 48*time.Hour:
		return fmt.Sprintf("%.0f h ago", d.Hours())
	}
	return fmt.Sprintf("%.0f days ago", d.Hours()/24)
}
