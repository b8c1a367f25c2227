package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/user"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kennel/gate"
)

// gateOptions are the flags of "kennel gate".
type gateOptions struct {
	yes, force, asJSON bool
	by, reason         string
	timeout            time.Duration
	generation         int64
	target
}

// A gateVerb carries out a command below "kennel gate".
type gateVerb func(ctx context.Context, con *console, g gateRemote, o gateOptions) error

func (con *console) gateCommand() *cobra.Command {
	var o gateOptions
	gates := group(&cobra.Command{
		Use:   "gate <command>",
		Short: "hold nodes at a gate and release them all at once",
		Long: `A gate is closed until it is released. Each release has a generation that is greater than
all earlier ones, even if the gate was deleted or restored in between.`,
		Example:     "kennel gate release start-orders --reason \"all nodes are warm\"\nkennel gate wait start-orders --timeout 10m && ./work",
		Annotations: exits("0 done, 1 the app was not reached or returned an error, 2 usage,\n3 wait: timed out, not released"),
	},
		con.gateStatusCommand(&o),
		con.gateReleaseCommand(&o),
		con.gateCloseCommand(&o),
		con.gateWaitCommand(&o),
		con.gateWatchCommand(&o),
	)
	flags := gates.PersistentFlags()
	o.addTo(flags)
	flags.BoolVar(&o.asJSON, "json", false, "print the gate's state as JSON, one object per line")
	return gates
}

// gateRun returns the function of a command below "kennel gate".
func (con *console) gateRun(o *gateOptions, verb gateVerb) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		name := args[0]
		if err := gate.CheckName(name); err != nil {
			return usagef("%s", printable(strings.TrimPrefix(err.Error(), "invalid: ")))
		}
		if o.by == "" {
			o.by = loginName(con.env)
		}
		app, err := openRemote(con, o.target)
		if err != nil {
			return err
		}
		app.has = "gates"
		return verb(cmd.Context(), con, gateRemote{app, name}, *o)
	}
}

var oneGate = oneWord("gate name", "start-orders")

func (con *console) gateStatusCommand(o *gateOptions) *cobra.Command {
	return &cobra.Command{
		Use:         "status NAME",
		Short:       "print the gate's state",
		Long:        "Prints whether the gate is released or closed, since when, by whom and why. With --json\nthe history is included.",
		Example:     "kennel gate status start-orders --json",
		Annotations: exits("0 printed, 1 the app was not reached or returned an error, 2 usage"),
		Args:        oneGate,
		RunE:        con.gateRun(o, showGate),
	}
}

func (con *console) gateReleaseCommand(o *gateOptions) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "release NAME",
		Short: "admit all waiting nodes, and all that arrive until the gate is closed",
		Long: `Releases the gate. A release cannot be undone, so kennel asks for confirmation; --yes
skips the question. Releasing a released gate changes nothing and is not an error.`,
		Example:     "kennel gate release start-orders --reason \"all nodes are warm\"",
		Annotations: exits("0 released, 1 not confirmed, or the app was not reached or returned an error, 2 usage"),
		Args:        oneGate,
		RunE:        con.gateRun(o, releaseGate),
	}
	cmd.Flags().BoolVar(&o.yes, "yes", false, "release without confirmation")
	o.addChangeTo(cmd.Flags())
	return cmd
}

func (con *console) gateCloseCommand(o *gateOptions) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "close NAME",
		Short: "close the gate again",
		Long: `Closes the gate. Nodes that have passed are not affected. Closing a closed gate changes
nothing and is not an error.`,
		Example:     "kennel gate close start-orders",
		Annotations: exits("0 closed, 1 the app was not reached or returned an error, 2 usage"),
		Args:        oneGate,
		RunE:        con.gateRun(o, closeGate),
	}
	o.addChangeTo(cmd.Flags())
	return cmd
}

// addChangeTo adds the flags of commands that change a gate.
func (o *gateOptions) addChangeTo(flags *pflag.FlagSet) {
	flags.StringVar(&o.by, "by", "", "record `WHO` as the one who changed the gate (default: your login name)")
	flags.StringVar(&o.reason, "reason", "", "record the reason `WHY`, up to 1000 characters")
	flags.BoolVar(&o.force, "force", false, "replace the stored document if it is invalid")
}

func (con *console) gateWaitCommand(o *gateOptions) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "wait NAME",
		Short: "wait until the gate is released; return at once if it is released now",
		Long: `Waits until the gate is released, through restarts and outages of the app and its storage.
If it times out, it prints the --generation with which to continue, so that no release
between two waits is missed.`,
		Example:     "kennel gate wait start-orders --timeout 10m && ./work",
		Annotations: exits("0 released, 1 the app was not reached or returned an error, 2 usage,\n3 timed out, not released"),
		Args:        oneGate,
	}
	flags := cmd.Flags()
	flags.DurationVar(&o.timeout, "timeout", 0, "wait for at most `TIME`, for example 30s or 2h (default: no limit)")
	flags.Int64Var(&o.generation, "generation", 0, "wait for a release after generation `G` (default: any release, even a current one)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case !flags.Changed("generation"):
			o.generation = gate.Now
		case o.generation < 0 || o.generation > gate.MaxGeneration:
			return usagef("--generation is %d; use the last generation you have seen, 0 or more", o.generation)
		}
		if flags.Changed("timeout") && o.timeout <= 0 {
			return usagef("--timeout is %v; use a positive duration, or omit it to wait without limit", o.timeout)
		}
		return con.gateRun(o, waitAtGate)(cmd, args)
	}
	return cmd
}

func (con *console) gateWatchCommand(o *gateOptions) *cobra.Command {
	return &cobra.Command{
		Use:         "watch NAME",
		Short:       "print the gate's state and then each change, until Ctrl+C",
		Long:        "Prints the gate's state and then each change, one per line, until Ctrl+C.",
		Example:     "kennel gate watch start-orders --json",
		Annotations: exits("0 ended by Ctrl+C, 1 the app was not reached or returned an error, 2 usage"),
		Args:        oneGate,
		RunE:        con.gateRun(o, watchGate),
	}
}

// loginName returns the user who runs this program, "" if unknown.
func loginName(env map[string]string) string {
	if name := cmp.Or(env["USER"], env["LOGNAME"], env["USERNAME"]); name != "" {
		return name
	}
	if me, err := user.Current(); err == nil {
		return me.Username
	}
	return ""
}

func showGate(ctx context.Context, con *console, g gateRemote, o gateOptions) error {
	s, err := g.state(ctx)
	if err != nil {
		return err
	}
	return con.printGate(s, o.asJSON)
}

func releaseGate(ctx context.Context, con *console, g gateRemote, o gateOptions) error {
	if !o.yes {
		if !isTerminal(con.stdin) {
			return usagef("standard input is not a terminal; use --yes to release gate %s without confirmation", g.gate)
		}
		question := fmt.Sprintf("Release gate %s at %s? All waiting nodes continue. This cannot be undone.", g.gate, g.base)
		if err := con.confirm(ctx, question, "not released"); err != nil {
			return err
		}
	}
	return changeGate(ctx, con, g, o, "release")
}

func closeGate(ctx context.Context, con *console, g gateRemote, o gateOptions) error {
	return changeGate(ctx, con, g, o, "close")
}

func changeGate(ctx context.Context, con *console, g gateRemote, o gateOptions, change string) error {
	c, err := g.change(ctx, change, o)
	if err != nil {
		return err
	}
	if !c.Changed {
		con.say("nothing changed: the gate was already %s", map[string]string{"release": "released", "close": "closed"}[change])
	}
	if c.Signalled != nil && !*c.Signalled {
		con.say("the signal could not be sent; other instances see the change when they poll, within 33 s; %s the gate again to resend the signal", change)
	}
	return con.printGate(c.State, o.asJSON)
}

func waitAtGate(ctx context.Context, con *console, g gateRemote, o gateOptions) error {
	w, err := g.wait(ctx, o.generation, o.timeout)
	if err != nil {
		return err
	}
	if w.passed && !w.state.Released && !o.asJSON {
		return con.writeLine(describeGateAs(w.state, "was released, and is closed again"))
	}
	if err := con.printGate(w.state, o.asJSON); err != nil || w.passed {
		return err
	}
	if w.seen >= 0 {
		con.say("not released within %v; to continue this wait, use --generation %d", o.timeout, w.seen)
	} else {
		con.say("not released within %v; the app did not report the gate's state", o.timeout)
	}
	return exitCode(exitClosed)
}

func watchGate(ctx context.Context, con *console, g gateRemote, o gateOptions) error {
	err := g.watch(ctx, func(s gate.State) error { return con.printGate(s, o.asJSON) })
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil // Ctrl+C is the normal end
	}
	return err
}

// confirm asks a question and returns the error otherwise unless the answer is
// yes.
func (con *console) confirm(ctx context.Context, question, otherwise string) error {
	fmt.Fprintf(con.stderr, "%s [y/N] ", question)
	answers := make(chan string, 1)
	go func() { // ends with the program if there is no answer
		line, _ := bufio.NewReader(io.LimitReader(con.stdin, 1<<10)).ReadString('\n')
		answers <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case answer := <-answers:
		if answer == "y" || answer == "yes" {
			return nil
		}
		return errors.New(otherwise)
	case <-ctx.Done():
		fmt.Fprintln(con.stderr)
		return ctx.Err()
	}
}

// printGate writes one line: the state as text or as JSON.
func (con *console) printGate(s gate.State, asJSON bool) error {
	if asJSON {
		encoder := json.NewEncoder(con.stdout)
		encoder.SetEscapeHTML(false)
		return encoder.Encode(s)
	}
	return con.writeLine(describeGate(s))
}

func (con *console) writeLine(text string) error {
	_, err := io.WriteString(con.stdout, text+"\n")
	return err
}

// describeGate returns a line with the state of a gate and the last change.
func describeGate(s gate.State) string {
	if s.Released {
		return describeGateAs(s, "is released")
	}
	return describeGateAs(s, "is closed")
}

func describeGateAs(s gate.State, state string) string {
	text := s.Gate + " " + state
	if s.Generation == 0 && s.ChangedAt.IsZero() {
		return text + ", and has never been released"
	}
	text += fmt.Sprintf(" (release %d, generation %d)", s.Releases, s.Generation)
	if !s.ChangedAt.IsZero() {
		text += fmt.Sprintf(" since %s by %s", s.ChangedAt.UTC().Format(time.RFC3339), s.By)
	}
	if s.Reason != "" {
		text += ": " + strings.Join(strings.Fields(s.Reason), " ")
	}
	return printable(text)
}
