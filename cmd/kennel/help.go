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
		summary:  "explain kennel or one of its commands",
		about:    "Lists the commands, or explains one command with its flags and an example.",
		example:  "kennel help up",
		exits:    "0 printed, 2 unknown command",
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

// writeOverview writes the first page for a new user.
func writeOverview(w io.Writer, con *console) {
	fmt.Fprintf(w, `Kennel runs an app that coordinates many nodes on Azure Functions (order numbers,
gates, channels), on this machine or in Azure, and calls it from the command line.

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
  kennel up                start the app with its own storage
  kennel next --count 3    draw three order numbers, in a second terminal
  kennel gate wait hounds  wait until "kennel gate release hounds" is called

Flags may be written with one dash or two. "kennel help <command>" explains a
command. Exit codes: 0 done, 1 failed, 2 invalid command line.
`, con.paint(w, bold, "Try it"))
}

// writeHelp writes the help of one command.
func (c *command) writeHelp(w io.Writer, con *console) {
	usage := strings.TrimRight("kennel "+c.name+" "+c.synopsis, " ")
	fmt.Fprintf(w, "%s: %s\n\n%s\n  %s\n\n%s\n", con.paint(w, bold, "kennel "+c.name), c.summary,
		con.paint(w, bold, "Usage"), usage, strings.TrimSpace(c.about))

	var rows [][2]string
	width := 0
	c.flags.VisitAll(func(f *flag.Flag) {
		value, text := flag.UnquoteUsage(f)
		left := strings.TrimRight("--"+f.Name+" "+value, " ")
		if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "0" && !strings.Contains(text, "(default") {
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

// findCommand returns the command of that name, or nil.
func findCommand(name string) *command {
	for _, cmd := range commands() {
		if cmd.name == name {
			return cmd
		}
	}
	return nil
}

// unknownCommand reports an unknown command and suggests a similar one.
func unknownCommand(name string) error {
	hint := "`kennel help` lists the commands"
	if near := nearest(name); near != "" {
		hint = fmt.Sprintf("did you mean `kennel %s`?", near)
	}
	return usagef("unknown command %q; %s", printable(name), hint)
}

// nearest returns the command that starts with name, or one that differs in at
// most two letters. It returns "" if there is none.
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
