package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"strings"

	"kennel/internal/suggest"
)

func helpCommand() *command {
	return &command{
		name:     "help",
		synopsis: "[command]",
		summary:  "explain kennel, or one of its commands",
		about:    "Shows what kennel can do, or what one command does, its flags and an example.",
		example:  "kennel help up",
		exits:    "0 shown, 2 there is no such command",
		flags:    flag.NewFlagSet("help", flag.ContinueOnError),
		maxArgs:  1,
		run: func(_ context.Context, con *console, args []string) error {
			if len(args) == 0 {
				writeOverview(con.stdout, con)
				return nil
			}
			cmd := findCommand(args[0])
			if cmd == nil {
				return unknownCommand(args[0])
			}
			cmd.writeHelp(con.stdout, con)
			return nil
		},
	}
}

// writeOverview writes the page of a newcomer.
func writeOverview(w io.Writer, con *console) {
	fmt.Fprintf(w, `Kennel runs an app for what many nodes do together on Azure Functions (order
numbers, gates, channels): on this machine, in Azure, and from the command line.

%s
  kennel <command> [flags]

%s
`, con.paint(w, bold, "Usage"), con.paint(w, bold, "Commands"))
	for _, cmd := range commands() {
		if !cmd.hidden {
			fmt.Fprintf(w, "  %-9s %s\n", cmd.name, cmd.summary)
		}
	}
	fmt.Fprintf(w, `
%s
  kennel up                start the app, with a storage of its own
  kennel next --count 3    in a second terminal: draw three order numbers
  kennel gate wait hounds  hold on until somebody calls kennel gate release hounds

Flags may be written with one dash or two. "kennel help <command>" says more.
Exit codes: 0 done, 1 failed, 2 the command line was not understood.
`, con.paint(w, bold, "Try it"))
}

// writeHelp writes the page of one command.
func (c *command) writeHelp(w io.Writer, con *console) {
	usage := strings.TrimRight("kennel "+c.name+" "+c.synopsis, " ")
	fmt.Fprintf(w, "%s: %s\n\n%s\n  %s\n\n%s\n", con.paint(w, bold, "kennel "+c.name), c.summary,
		con.paint(w, bold, "Usage"), usage, strings.TrimSpace(c.about))

	var rows [][2]string
	width := 0
	c.flags.VisitAll(func(f *flag.Flag) {
		value, text := flag.UnquoteUsage(f)
		left := strings.TrimRight("--"+f.Name+" "+value, " ")
		if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "0" {
			text += fmt.Sprintf(" (default %s)", f.DefValue)
		}
		rows = append(rows, [2]string{left, text})
		width = max(width, len(left))
	})
	if len(rows) > 0 {
		fmt.Fprintf(w, "\n%s\n", con.paint(w, bold, "Flags"))
	}
	for _, row := range rows {
		indented := strings.ReplaceAll(row[1], "\n", "\n"+strings.Repeat(" ", width+4))
		fmt.Fprintf(w, "  %-*s  %s\n", width, row[0], indented)
	}

	fmt.Fprintf(w, "\n%s\n", con.paint(w, bold, "Example"))
	for line := range strings.Lines(strings.TrimSpace(c.example)) {
		fmt.Fprintf(w, "  %s\n", strings.TrimSpace(line))
	}
	fmt.Fprintf(w, "\n%s\n  %s\n", con.paint(w, bold, "Exit codes"), c.exits)
}

// findCommand is the command of that name, or nil.
func findCommand(name string) *command {
	for _, cmd := range commands() {
		if cmd.name == name {
			return cmd
		}
	}
	return nil
}

// unknownCommand says that there is no such command, and which one may have
// been meant.
func unknownCommand(name string) error {
	hint := "`kennel help` lists them"
	if near := nearest(name); near != "" {
		hint = fmt.Sprintf("did you mean `kennel %s`?", near)
	}
	return usagef("there is no command %q: %s", printable(name), hint)
}

// nearest is the command that name begins, or that is at most two letters
// away; "" if none is.
func nearest(name string) string {
	var names []string
	for _, cmd := range commands() {
		if cmd.hidden {
			continue
		}
		if len(name) > 1 && strings.HasPrefix(cmd.name, name) {
			return cmd.name
		}
		names = append(names, cmd.name)
	}
	return suggest.Nearest(name, names, 2)
}
