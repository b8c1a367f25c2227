package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"kennel/client"
	"kennel/internal/scale"
)

// maxRulesFile is more bytes than rules can have.
const maxRulesFile = 1 << 20

func (con *console) scaleCommand() *cobra.Command {
	var to target
	cmd := group(&cobra.Command{
		Use:   "scale [<command>]",
		Short: "show how many instances and hands the queues need, and change the rules",
		Long: `Prints how many instances the queues of the app need, and how many hands each instance
should use for each queue, with the reasons: the advice of the last check. The app checks
once a minute. A hand works on one message at a time.`,
		Example:     "kennel scale\nkennel scale history --since 6h",
		Annotations: requestExits("printed"),
	}, con.scaleHistoryCommand(&to), con.scaleRulesCommand(&to))
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		app, err := con.openApp(to)
		if err != nil {
			return err
		}
		s, err := app.Scale(cmd.Context())
		if err != nil {
			return app.failed(err)
		}
		if to.asJSON {
			return con.writeLine(string(s.JSON()))
		}
		_, err = io.WriteString(con.stdout, con.describeScale(s))
		return err
	}
	to.addTo(cmd.PersistentFlags(), responsesAsJSON)
	return cmd
}

// describeScale returns the advice, and the samples as a table.
func (con *console) describeScale(s client.ScaleCheck) string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s, %s running\n", s.At.UTC().Format(time.RFC3339), counted(s.Running, "instance"))
	for _, a := range s.Advice {
		line := a.Reason
		if a.Queue != "" {
			line = a.Queue + ": " + line
		}
		fmt.Fprintf(&text, "%s\n", printable(oneLine(line)))
	}
	if o := s.Outcome; o != nil {
		fmt.Fprintf(&text, "minimum of the target: %s\n", printable(oneLine(describeOutcome(*o))))
	}
	if len(s.Samples) == 0 {
		return text.String()
	}
	text.WriteString("\n")
	rows := [][]string{{"QUEUE", "READY", "OLDEST", "WORKING", "DONE/S", "TAKES", "P95", ""}}
	for _, q := range s.Samples {
		held := ""
		if q.Held {
			held = " held"
		}
		rows = append(rows, []string{plain(q.Queue), grouped(float64(q.Ready)), seconds(q.OldestSeconds), fmt.Sprint(q.Working),
			fmt.Sprintf("%.1f", q.CompletionsPerSecond), seconds(q.ResponseSeconds), seconds(q.P95LatencySeconds), held})
	}
	return text.String() + con.drawTable(rows, tabwriter.AlignRight)
}

// describeOutcome returns whether the advice reached its target.
func describeOutcome(o client.ScaleOutcome) string {
	text := fmt.Sprintf("%d", o.Instances)
	switch {
	case o.State == "dryRun" && o.Minimum != nil:
		text = fmt.Sprintf("%d, and would be %d (a dry run)", *o.Minimum, o.Instances)
	case o.State == "applied" && o.Minimum != nil:
		text = fmt.Sprintf("%d, it was %d", o.Instances, *o.Minimum)
	case o.State != "unchanged":
		text = fmt.Sprintf("not set to %d, %s", o.Instances, o.State)
	}
	if o.Error != "" {
		text += ": " + o.Error
	}
	return text + " (since " + o.At.UTC().Format(time.RFC3339) + ")"
}

// seconds returns a duration of a sample, "-" for none.
func seconds(s float64) string {
	d := time.Duration(min(s, 1e9) * float64(time.Second))
	switch {
	case d <= 0:
		return "-"
	case d < 10*time.Second:
		return d.Round(10 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

func (con *console) scaleHistoryCommand(to *target) *cobra.Command {
	var since time.Duration
	cmd := &cobra.Command{
		Use:   "history",
		Short: "draw a chart of the checks of the last hours",
		Long: `Draws the messages that were ready, and the instances as advised and as they ran. On a
terminal it is a small chart; elsewhere, and with --json, one line for each check.`,
		Example:     "kennel scale history --since 6h",
		Annotations: requestExits("printed"),
		Args:        noWords,
	}
	cmd.Flags().DurationVar(&since, "since", time.Hour, "begin `DURATION` ago")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if since <= 0 {
			return usagef("--since is %s; use a duration such as 6h", since)
		}
		app, err := con.openApp(*to)
		if err != nil {
			return err
		}
		var checks []client.ScaleCheck
		for check, err := range app.ScaleHistory(cmd.Context(), time.Now().Add(-since), time.Time{}) {
			if err != nil {
				return app.failed(err)
			}
			checks = append(checks, check)
		}
		return con.printHistory(checks, to.asJSON)
	}
	return cmd
}

func (con *console) printHistory(checks []client.ScaleCheck, asJSON bool) error {
	if len(checks) == 0 {
		con.say("there was no check in this time")
		return nil
	}
	if !asJSON && isTerminal(con.stdout) && con.env["TERM"] != "dumb" {
		_, err := io.WriteString(con.stdout, drawScale(checks))
		return err
	}
	for _, c := range checks {
		p := pointOf(c)
		line := fmt.Sprintf("%s: %d ready, %d advised, %d running", c.At.UTC().Format(time.RFC3339), int64(p.ready), int(p.advised), int(p.running))
		if err := con.print(c.JSON(), line, asJSON); err != nil {
			return err
		}
	}
	return nil
}

func (con *console) scaleRulesCommand(to *target) *cobra.Command {
	get := &cobra.Command{
		Use:         "get",
		Short:       "print the rules in use, as JSON",
		Long:        "Prints the rules in use as indented JSON, with all defaults filled in: a file to edit and\nstore with \"put\". With --json it is one line.",
		Example:     "kennel scale rules get > rules.json",
		Annotations: requestExits("printed"),
		Args:        noWords,
		RunE: func(cmd *cobra.Command, _ []string) error {
			app, err := con.openApp(*to)
			if err != nil {
				return err
			}
			rules, err := app.ScaleRules(cmd.Context())
			if err != nil {
				return app.failed(err)
			}
			return con.printRules(rules.JSON(), to.asJSON)
		},
	}
	var dryRun bool
	put := &cobra.Command{
		Use:   "put FILE",
		Short: "store the rules of a file",
		Long: `Stores the rules of FILE, or of standard input if FILE is -, and prints them with all
defaults. The next check uses them. If they are invalid, kennel prints each fault with its
row, and nothing is changed. With --dry-run the app only checks them.`,
		Example:     "kennel scale rules put rules.json",
		Annotations: requestExits("stored"),
		Args:        oneWord("file", "rules.json"),
		RunE: func(cmd *cobra.Command, args []string) error {
			_, text, err := con.readRules(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			app, err := con.openApp(*to)
			if err != nil {
				return err
			}
			send := app.PutScaleRules
			if dryRun {
				send = app.TryScaleRules
			}
			rules, err := send(cmd.Context(), text)
			if err != nil {
				return app.failed(err)
			}
			return con.printRules(rules.JSON(), to.asJSON)
		},
	}
	put.Flags().BoolVar(&dryRun, "dry-run", false, "store nothing, and print the rules as they would be stored")
	check := &cobra.Command{
		Use:         "check FILE",
		Short:       "check the rules of a file",
		Long:        "Checks the rules of FILE, or of standard input if FILE is -, and prints them with all\ndefaults. It calls no app.",
		Example:     "kennel scale rules check rules.json",
		Annotations: exits("valid", "invalid, or the file could not be read"),
		Args:        oneWord("file", "rules.json"),
		RunE: func(cmd *cobra.Command, args []string) error {
			rules, _, err := con.readRules(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			line, err := json.Marshal(rules)
			if err != nil {
				return err
			}
			return con.printRules(line, to.asJSON)
		},
	}
	return group(&cobra.Command{
		Use:         "rules <command>",
		Short:       "print the rules of scaling, store them and check a file of them",
		Long:        "The rules decide what a check advises. docs/operations.md describes them.",
		Example:     "kennel scale rules get > rules.json\nkennel scale rules put rules.json",
		Annotations: requestExits("done"),
	}, get, put, check)
}

// printRules prints rules as JSON: as a file to edit, or with --json on one line.
func (con *console) printRules(rules []byte, asJSON bool) error {
	if asJSON {
		return con.writeLine(string(rules))
	}
	var text bytes.Buffer
	if err := json.Indent(&text, rules, "", "  "); err != nil {
		return err
	}
	return con.writeLine(text.String())
}

// readRules reads rules from a file and checks them.
func (con *console) readRules(ctx context.Context, path string) (rules scale.Rules, text []byte, err error) {
	in := con.stdin
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return rules, nil, err
		}
		defer file.Close()
		in = file
	}
	if text, err = io.ReadAll(io.LimitReader(interruptible(ctx, in), maxRulesFile)); err != nil {
		return rules, nil, fmt.Errorf("read the rules: %w", err)
	}
	if rules, err = scale.ParseRules(text); err != nil {
		return rules, nil, fmt.Errorf("%s: %w", printable(path), err)
	}
	return rules, text, nil
}
