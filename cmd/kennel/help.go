package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

func (con *console) helpCommand() *cobra.Command {
	return &cobra.Command{
		Use:         "help [command]",
		Short:       "explain kennel or one of its commands",
		Long:        "Lists the commands, or explains one command with its flags and an example.",
		Example:     "kennel help up\nkennel help gate wait",
		Annotations: exits("printed", "it could not be written"),
		Args:        cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			about, rest, err := cmd.Root().Find(args)
			switch {
			case err != nil:
				return err
			case len(rest) > 0 && about.HasSubCommands():
				return unknownCommand(about, rest[0])
			case len(rest) > 0:
				return unexpected(about, rest, 0)
			}
			return con.writeHelp(con.stdout, about)
		},
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			about, rest, err := cmd.Root().Find(args)
			if err != nil || len(rest) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			var commands []cobra.Completion
			for _, c := range about.Commands() {
				if !c.Hidden {
					commands = append(commands, cobra.CompletionWithDesc(c.Name(), c.Short))
				}
			}
			return commands, cobra.ShellCompDirectiveNoFileComp
		},
	}
}

// Notes in the overview that hold for all commands.
const (
	addressNotes = `  Commands that call the app take its address from --url; else from the environment
  variable KENNEL_URL; else from the file .kennel/url in this folder or the nearest folder
  above it, which "kennel up" writes while it runs; else it is ` + defaultURL + `.`

	outputNotes = `  Results go to standard output; progress, warnings and errors go to standard error.
  Colour and lines that change appear only on a terminal. TERM=dumb switches off both, and
  NO_COLOR colour.

  With --json each result is a line of JSON. If the command fails, the last line has the
  member "error": {"code":"not_reached","message":"…"}. code is the app's, or one of usage,
  not_reached, no_response, unexpected_response, refused (by a host or proxy in front of the
  app), timeout, interrupted and failed. Where they are known, there are status (of HTTP),
  requestId, retryAfter (seconds) and items (those of a batch that are invalid). Exit codes
  are the same as without --json.`
)

// explain writes the help page of a command that was called with --help. A word
// after a group of commands is no command of it: cobra would have found it.
func (con *console) explain(cmd *cobra.Command) error {
	if words := cmd.Flags().Args(); cmd.HasSubCommands() && len(words) > 0 {
		return unknownCommand(cmd, words[0])
	}
	return con.writeHelp(con.stdout, cmd)
}

// writeHelp writes the help page of a command.
func (con *console) writeHelp(w io.Writer, cmd *cobra.Command) error {
	_, err := io.WriteString(w, helpPage(cmd, func(title string) string { return con.paint(w, bold, title) }))
	return err
}

// helpPage returns the help page of a command. heading formats titles.
func helpPage(cmd *cobra.Command, heading func(title string) string) string {
	cmd.LocalFlags() // adds the flags of its parents to its own
	var page strings.Builder
	section := func(title, text string) {
		if text != "" {
			fmt.Fprintf(&page, "\n%s\n%s\n", heading(title), strings.TrimRight(text, "\n"))
		}
	}
	if cmd.HasParent() {
		fmt.Fprintf(&page, "%s: %s\n", heading(cmd.CommandPath()), cmd.Short)
	} else {
		fmt.Fprintf(&page, "%s\n", cmd.Long)
	}
	section("Usage", indent(cmd.UseLine()))
	if cmd.HasParent() {
		fmt.Fprintf(&page, "\n%s\n", strings.TrimSpace(cmd.Long))
	}
	for _, g := range cmd.Groups() {
		section(g.Title, listCommands(cmd, g.ID))
	}
	if len(cmd.Groups()) == 0 {
		section("Commands", listCommands(cmd, ""))
	}
	section("Flags", cmd.Flags().FlagUsages())
	section("Example", indent(cmd.Example))
	if !cmd.HasParent() {
		section("Address of the app", addressNotes)
		section("Output", outputNotes)
	}
	section("Exit codes", indent(cmd.Annotations["exits"]))
	return page.String()
}

// listCommands lists the commands of a group below cmd.
func listCommands(cmd *cobra.Command, group string) string {
	width := 0
	for _, name := range commandNames(cmd) {
		width = max(width, len(name))
	}
	var list strings.Builder
	for _, c := range cmd.Commands() {
		if c.GroupID == group && slices.Contains(commandNames(cmd), c.Name()) {
			fmt.Fprintf(&list, "  %-*s  %s\n", width, c.Name(), c.Short)
		}
	}
	return list.String()
}

func indent(text string) string {
	return "  " + strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n  ")
}
