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
	reach
}

// A gateVerb is something to do with a gate.
type gateVerb struct {
	name  string
	flags []string // of its own
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
	flags.BoolVar(&o.yes, "yes", false, "release without being asked")
	flags.StringVar(&o.by, "by", "", "release or close in the name of `WHO` (default: your login name)")
	flags.StringVar(&o.reason, "reason", "", "release or close for the reason `WHY`, up to 1000 characters")
	flags.BoolVar(&o.force, "force", false, "release or close although the stored document cannot be used: replace it")
	flags.DurationVar(&o.timeout, "timeout", 0, "wait for at most `TIME`, such as 30s or 2h (default: as long as it takes)")
	flags.Int64Var(&o.generation, "generation", gate.Now, "wait for a release after generation `G`")
	o.addTo(flags)
	flags.BoolVar(&o.asJSON, "json", false, "print the gate's state as JSON, an object a line")
	return &command{
		name:     "gate",
		synopsis: "status|release|close|wait|watch NAME [flags]",
		summary:  "hold nodes back at a gate, and let them all go at once",
		about: `A gate is shut until it is released. Each release has a generation, which is greater
than all before, also if the gate was deleted or restored since.

  status    print the gate's state
  release   admit all nodes that wait there, and those that come until it is closed
  close     shut it again; nodes that have passed are not called back
  wait      end as soon as the gate is released, at once if it is released now
  watch     print the gate's state and then each change, until Ctrl+C

A release cannot be undone, so kennel asks for confirmation; --yes confirms it.
Releasing a released gate, and closing a shut one, changes nothing and is no error.

A wait goes on through restarts and outages of the app and of its storage. When its
time is over, it prints the --generation to go on with: no release is missed between
two waits.`,
		example: "kennel gate release start-orders --reason \"all nodes are warm\"\nkennel gate wait start-orders --timeout 10m && ./work",
		exits:   "0 done (wait: it was released), 1 the app was not reached or refused, 2 usage,\n  3 wait: its time was over, and the gate is shut",
		flags:   flags,
		mixed:   true,
		maxArgs: 2,
		run: func(ctx context.Context, con *console, args []string) error {
			return runGate(ctx, con, flags, o, args)
		},
	}
}

func runGate(ctx context.Context, con *console, flags *flag.FlagSet, o gateOptions, args []string) error {
	if len(args) < 2 {
		return usagef("say what to do with which gate, for instance kennel gate status start-orders; see `kennel help gate`")
	}
	at := slices.IndexFunc(gateVerbs, func(v gateVerb) bool { return v.name == args[0] })
	if at < 0 {
		return usagef("%q is nothing to do with a gate: say status, release, close, wait or watch", printable(args[0]))
	}
	verb := gateVerbs[at]
	if err := onlyFlags(flags, verb.name, verb.flags); err != nil {
		return err
	}
	given := make(map[string]bool)
	flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	switch {
	case gate.CheckName(args[1]) != nil:
		return usagef("%s", printable(strings.TrimPrefix(gate.CheckName(args[1]).Error(), "invalid: ")))
	case given["timeout"] && o.timeout <= 0:
		return usagef("--timeout is %v: give more than nothing, or leave it out to wait as long as it takes", o.timeout)
	case given["generation"] && (o.generation < 0 || o.generation > gate.MaxGeneration):
		return usagef("--generation is %d: give the generation that was seen last, 0 or more", o.generation)
	}
	if o.by == "" {
		o.by = loginName(con.env)
	}
	app, err := openRemote(con, o.reach)
	if err != nil {
		return err
	}
	app.has = "gates"
	if err := verb.run(ctx, con, gateRemote{app, args[1]}, o); err != nil {
		return fmt.Errorf("%s: %w", verb.name, err)
	}
	return nil
}

// loginName is who runs this program, "" if nobody knows.
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
			return usagef("there is no terminal to ask at whether gate %s is to be released: give --yes", g.gate)
		}
		question := fmt.Sprintf("Release gate %s at %s? Whoever waits there goes on, which cannot be undone.", g.gate, g.base)
		if err := con.confirm(ctx, question, "not released, as you wish"); err != nil {
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
		con.say("nothing to %s: the gate was like that already", change)
	}
	if c.Signalled != nil && !*c.Signalled {
		con.say("the signal could not be sent: other instances see the change when they poll, within 33 s; %s again to send it again", change)
	}
	return con.printGate(c.State, o.asJSON)
}

func waitAtGate(ctx context.Context, con *console, g gateRemote, o gateOptions) error {
	w, err := g.wait(ctx, o.generation, o.timeout)
	if err != nil {
		return err
	}
	if err := con.printGate(w.state, o.asJSON); err != nil || w.passed {
		return err
	}
	if w.seen >= 0 {
		con.say("not released within %v; to go on where this wait ends: --generation %d", o.timeout, w.seen)
	} else {
		con.say("not released within %v, as far as is known", o.timeout)
	}
	return exitCode(exitShut)
}

func watchGate(ctx context.Context, con *console, g gateRemote, o gateOptions) error {
	err := g.watch(ctx, func(s gate.State) error { return con.printGate(s, o.asJSON) })
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil // Ctrl+C is how one ends it
	}
	return err
}

// confirm asks a question, and fails with otherwise unless the answer is yes.
func (con *console) confirm(ctx context.Context, question, otherwise string) error {
	fmt.Fprintf(con.stderr, "%s [y/N] ", question)
	answers := make(chan string, 1)
	go func() { // ends with the program, if nobody answers
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

// printGate writes one line: the state in words, or as JSON.
func (con *console) printGate(s gate.State, asJSON bool) error {
	if asJSON {
		encoder := json.NewEncoder(con.stdout)
		encoder.SetEscapeHTML(false)
		return encoder.Encode(s)
	}
	_, err := io.WriteString(con.stdout, describeGate(s)+"\n")
	return err
}

// describeGate says in a line how a gate is, and why.
func describeGate(s gate.State) string {
	text := s.Gate + " is shut"
	if s.Released {
		text = s.Gate + " is released"
	}
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
