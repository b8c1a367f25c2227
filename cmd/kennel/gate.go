package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os/user"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kennel/client"
	"kennel/gate"
)

// gateOptions are the flags of "kennel gate".
type gateOptions struct {
	yes, force bool
	by, reason string
	timeout    time.Duration
	generation int64
	target
}

// A gateVerb carries out a command below "kennel gate".
type gateVerb func(ctx context.Context, con *console, app *app, gate string, o gateOptions) error

func (con *console) gateCommand() *cobra.Command {
	var o gateOptions
	gates := group(&cobra.Command{
		Use:   "gate <command>",
		Short: "hold nodes at a gate and release them all at once",
		Long: `A gate is closed until it is released. Each release has a generation that is greater than
all earlier ones, even if the gate was deleted or restored in between.`,
		Example:     "kennel gate release start-orders --reason \"all nodes are warm\"\nkennel gate wait start-orders --timeout 10m && ./work",
		Annotations: requestExits("done", "3    wait: not released in time"),
	},
		con.gateListCommand(&o),
		con.gateStatusCommand(&o),
		con.gateWaitersCommand(&o),
		con.gateReleaseCommand(&o),
		con.gateCloseCommand(&o),
		con.gateWaitCommand(&o),
		con.gateWatchCommand(&o),
	)
	o.addTo(gates.PersistentFlags(), "print the gate's state as JSON, one object per line")
	completeFirst(gates, completeNames(con, &o.target, (*client.Client).Gates, func(g client.GateItem) string { return g.Name }))
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
		app, err := con.openApp(o.target)
		if err != nil {
			return err
		}
		app.lookup = "kennel gate status " + name
		return verb(cmd.Context(), con, app, name, *o)
	}
}

var oneGate = oneWord("gate name", "start-orders")

func (con *console) gateStatusCommand(o *gateOptions) *cobra.Command {
	return &cobra.Command{
		Use:         "status NAME",
		Short:       "print the gate's state",
		Long:        "Prints whether the gate is released or closed, since when, by whom and why. With --json\nthe history is included.",
		Example:     "kennel gate status start-orders --json",
		Annotations: requestExits("printed"),
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
		Annotations: requestExits("released"),
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
		Annotations: requestExits("closed"),
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
between two waits is missed. If the app does not answer then, it ends 5 s later.`,
		Example:     "kennel gate wait start-orders --timeout 10m && ./work",
		Annotations: requestExits("released", "3    not released in time"),
		Args:        oneGate,
	}
	flags := cmd.Flags()
	flags.DurationVar(&o.timeout, "timeout", 0, "wait for at most `TIME`, for example 30s or 2h (default: no limit)")
	flags.Int64Var(&o.generation, "generation", 0, "wait for a release after generation `G` (default: any release,\neven a current one)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		switch {
		case !flags.Changed("generation"):
			o.generation = client.Now
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
		Annotations: exits("ended by Ctrl+C", "the app was not reached or returned an error"),
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

func showGate(ctx context.Context, con *console, app *app, name string, o gateOptions) error {
	g, err := app.Gate(ctx, name)
	if err != nil {
		return app.failed(err)
	}
	return con.printGate(g, o.asJSON)
}

func releaseGate(ctx context.Context, con *console, app *app, name string, o gateOptions) error {
	if !o.yes {
		if !isTerminal(con.stdin) {
			return usagef("standard input is not a terminal; use --yes to release gate %s without confirmation", name)
		}
		question := fmt.Sprintf("Release gate %s at %s? All waiting nodes continue. This cannot be undone.", name, app.Address())
		if err := con.confirm(ctx, question, "not released"); err != nil {
			return err
		}
	}
	changed, err := app.Release(ctx, name, o.change())
	return con.printChange(app, changed, err, "released", "release", o.asJSON)
}

func closeGate(ctx context.Context, con *console, app *app, name string, o gateOptions) error {
	changed, err := app.Close(ctx, name, o.change())
	return con.printChange(app, changed, err, "closed", "close", o.asJSON)
}

func (o gateOptions) change() client.Change {
	return client.Change{By: o.by, Reason: o.reason, Force: o.force}
}

// printChange prints the state of a gate after a change; state and verb name
// the change.
func (con *console) printChange(app *app, c client.GateChange, err error, state, verb string, asJSON bool) error {
	if err != nil {
		return app.failed(err)
	}
	if !c.Changed {
		con.say("nothing changed: the gate was already %s", state)
	}
	if c.Signalled != nil && !*c.Signalled {
		con.say("the signal could not be sent; other instances see the change when they poll, within 33 s; %s the gate again to resend the signal", verb)
	}
	return con.printGate(c.Gate, asJSON)
}

// answerTime is how long after --timeout the last answer of the app may arrive.
const answerTime = 5 * time.Second

func waitAtGate(ctx context.Context, con *console, app *app, name string, o gateOptions) error {
	limited := ctx
	if o.timeout > 0 {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeout(ctx, o.timeout+answerTime)
		defer cancel()
	}
	w, err := app.Wait(limited, name, o.generation, o.timeout)
	next := ""
	if w.Generation != client.Now {
		next = fmt.Sprintf("; to continue this wait, use --generation %d", w.Generation)
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return fmt.Errorf("%w%s", ctx.Err(), next)
	case err != nil && limited.Err() != nil:
		if app.outage == nil {
			app.outage = fmt.Errorf("no response from %s", app.Address())
		}
	case err != nil:
		return app.failed(err)
	case w.Passed && !w.Gate.Released && !o.asJSON:
		return con.writeLine(describeGateAs(w.Gate, "was released, and is closed again"))
	case w.Passed:
		return con.printGate(w.Gate, o.asJSON)
	}
	// The state is printed only if it was read now. The gate may have changed
	// since an earlier answer.
	expired := tooLate{text: fmt.Sprintf("not released within %v", o.timeout) + next}
	switch {
	case app.outage != nil:
		expired.text = fmt.Sprintf("not released within %v as far as is known: %s", o.timeout, clause(app.explain(app.outage))) + next
	case o.asJSON:
		expired.state = w.Gate.JSON()
	default:
		if err := con.printGate(w.Gate, false); err != nil {
			return err
		}
	}
	return expired
}

func watchGate(ctx context.Context, con *console, app *app, name string, o gateOptions) error {
	for g, err := range app.Watch(ctx, name) {
		if err == nil {
			err = con.printGate(g, o.asJSON)
		}
		if ctx.Err() != nil {
			return nil // Ctrl+C is the normal end
		}
		if err != nil {
			return app.failed(err)
		}
	}
	return nil
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
func (con *console) printGate(g client.Gate, asJSON bool) error {
	if asJSON {
		return con.writeLine(string(g.JSON()))
	}
	return con.writeLine(describeGate(g))
}

func (con *console) writeLine(text string) error {
	_, err := io.WriteString(con.stdout, text+"\n")
	return err
}

// describeGate returns a line with the state of a gate and the last change.
func describeGate(g client.Gate) string {
	if g.Released {
		return describeGateAs(g, "is released")
	}
	return describeGateAs(g, "is closed")
}

func describeGateAs(g client.Gate, state string) string {
	text := g.Name + " " + state
	if g.Generation == 0 && g.ChangedAt.IsZero() {
		return text + ", and has never been released"
	}
	text += fmt.Sprintf(" (release %d, generation %d)", g.Releases, g.Generation)
	if !g.ChangedAt.IsZero() {
		text += fmt.Sprintf(" since %s by %s", g.ChangedAt.UTC().Format(time.RFC3339), g.By)
	}
	if g.Reason != "" {
		text += ": " + strings.Join(strings.Fields(g.Reason), " ")
	}
	return printable(text)
}
