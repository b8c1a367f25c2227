package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os/user"
	"slices"
	"strings"
	"time"

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

// A gateVerb is a word after "kennel gate".
type gateVerb struct {
	name  string
	flags []string // besides those of all verbs
	run   func(ctx context.Context, con *console, g gateRemote, o gateOptions) error
}

var gateVerbs = []gateVerb{
	{"status", nil, showGate},
	{"release", []string{"yes", "by", "reason", "force"}, releaseGate},
	{"close", []string{"by", "reason", "force"}, closeGate},
	{"wait", []string{"timeout", "generation"}, waitAtGate},
	{"watch", nil, watchGate},
}

func gateCommand() *command {
	var o gateOptions
	flags := flag.NewFlagSet("gate", flag.ContinueOnError)
	flags.BoolVar(&o.yes, "yes", false, "release without confirmation")
	flags.StringVar(&o.by, "by", "", "record `WHO` as the one who releases or closes (default: your login name)")
	flags.StringVar(&o.reason, "reason", "", "record the reason `WHY`, up to 1000 characters")
	flags.BoolVar(&o.force, "force", false, "replace the stored document if it is invalid")
	flags.DurationVar(&o.timeout, "timeout", 0, "wait for at most `TIME`, for example 30s or 2h (default: no limit)")
	flags.Int64Var(&o.generation, "generation", gate.Now, "wait for a release after generation `G` (default: any release, even a current one)")
	o.addTo(flags)
	flags.BoolVar(&o.asJSON, "json", false, "print the gate's state as JSON, one object per line")
	return &command{
		name:     "gate",
		synopsis: "status|release|close|wait|watch NAME [flags]",
		summary:  "hold nodes at a gate and release them all at once",
		about: `A gate is shut until it is released. Each release has a generation that is greater than
all earlier ones, even if the gate was deleted or restored in between.

  status    print the gate's state
  release   admit all waiting nodes, and all that arrive until the gate is closed
  close     shut the gate again; nodes that have passed are not affected
  wait      wait until the gate is released; return at once if it is released now
  watch     print the gate's state and then each change, until Ctrl+C

A release cannot be undone, so kennel asks for confirmation; --yes skips the question.
Releasing a released gate or closing a shut gate changes nothing and is not an error.

A wait continues through restarts and outages of the app and its storage. If it times
out, it prints the --generation with which to continue, so that no release between two
waits is missed.`,
		example: "kennel gate release start-orders --reason \"all nodes are warm\"\nkennel gate wait start-orders --timeout 10m && ./work",
		exits:   "0 done (wait: released), 1 the app was not reached or returned an error, 2 usage,\n  3 wait: timed out, not released",
		flags:   flags,
		mixed:   true,
		maxArgs: 2,
		run: func(ctx context.Context, con *console, args []string) error {
			return runGate(ctx, con, flags, o, args)
		},
	}
}

func runGate(ctx context.Context, con *console, flags *flag.FlagSet, o gateOptions, args []string) error {
	if len(args) == 0 {
		return usagef("no gate command given; use status, release, close, wait or watch; see `kennel help gate`")
	}
	at := slices.IndexFunc(gateVerbs, func(v gateVerb) bool { return v.name == args[0] })
	if at < 0 {
		return usagef("unknown gate command %q; use status, release, close, wait or watch", printable(args[0]))
	}
	verb := gateVerbs[at]
	if len(args) < 2 {
		return usagef("%s: no gate name given; for example kennel gate %[1]s start-orders", verb.name)
	}
	if err := onlyFlags(flags, verb.name, verb.flags); err != nil {
		return err
	}
	given := make(map[string]bool)
	flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	switch {
	case gate.CheckName(args[1]) != nil:
		return usagef("%s", printable(strings.TrimPrefix(gate.CheckName(args[1]).Error(), "invalid: ")))
	case given["timeout"] && o.timeout <= 0:
		return usagef("--timeout is %v; use a positive duration, or omit it to wait without limit", o.timeout)
	case given["generation"] && (o.generation < 0 || o.generation > gate.MaxGeneration):
		return usagef("--generation is %d; use the last generation you have seen, 0 or more", o.generation)
	}
	if o.by == "" {
		o.by = loginName(con.env)
	}
	app, err := openRemote(con, o.target)
	if err != nil {
		return err
	}
	app.has = "gates"
	if err := verb.run(ctx, con, gateRemote{app, args[1]}, o); err != nil {
		return fmt.Errorf("%s: %w", verb.name, err)
	}
	return nil
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
		con.say("nothing changed: the gate was already %s", map[string]string{"release": "released", "close": "shut"}[change])
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
		return con.writeLine(describeGateAs(w.state, "was released, and is shut again"))
	}
	if err := con.printGate(w.state, o.asJSON); err != nil || w.passed {
		return err
	}
	if w.seen >= 0 {
		con.say("not released within %v; to continue this wait, use --generation %d", o.timeout, w.seen)
	} else {
		con.say("not released within %v; the app did not report the gate's state", o.timeout)
	}
	return exitCode(exitShut)
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
	return describeGateAs(s, "is shut")
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
