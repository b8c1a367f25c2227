package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kennel/internal/suggest"
)

// Groups of commands in the overview.
const (
	groupRun  = "run"
	groupCall = "call"
	groupSelf = "self"
)

// rootCommand returns the whole tree of commands.
func (con *console) rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:   "kennel <command>",
		Short: "run an app that coordinates many nodes, and call it",
		Long: `Kennel runs an app that coordinates many nodes on Azure Functions (order numbers,
gates, batches, channels, messages), on this machine or in Azure, and calls it from the
command line.`,
		Example: `kennel up                start the app with its own storage
kennel next --count 3    draw three order numbers, in a second terminal
kennel gate wait hounds  wait until "kennel gate release hounds" is called`,
		Annotations: exits("done", "failed", "3    gate wait: not released in time; status: a problem; doctor: a failed check", interruptedExit),
		Args:        knownCommand,

		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error { return checkTexts(cmd.Flags()) },
		SilenceErrors:     true, // run reports them
		SilenceUsage:      true,

		DisableFlagsInUseLine: true,
	}
	root.PersistentFlags().BoolP("help", "h", false, "explain this command")
	version := root.Flags().BoolP("version", "v", false, "print the version")
	root.RunE = func(cmd *cobra.Command, _ []string) error {
		if *version {
			return con.printVersion(false)
		}
		return usagef("no command given; begin with `kennel up`, or see `kennel help`")
	}

	root.AddGroup(
		&cobra.Group{ID: groupRun, Title: "Run the app and deploy it"},
		&cobra.Group{ID: groupCall, Title: "Call a running app"},
		&cobra.Group{ID: groupSelf, Title: "This program"},
	)
	for id, commands := range map[string][]*cobra.Command{
		groupRun:  {con.newCommand(), con.upCommand(), con.functionsCommand(), con.planCommand(), con.packageCommand(), con.storageCommand(), con.busCommand(), con.costCommand()},
		groupCall: {con.statusCommand(), con.doctorCommand(), con.nextCommand(), con.sequencesCommand(), con.gateCommand(), con.submitCommand(), con.batchCommand(), con.sampleCommand(), con.deadLettersCommand(), con.timersCommand(), con.queuesCommand(), con.scaleCommand(), con.sendCommand(), con.relayCommand(), con.channelsCommand(), con.blogsCommand()},
		groupSelf: {con.completionCommand(), con.versionCommand()},
	} {
		for _, cmd := range commands {
			cmd.GroupID = id
			root.AddCommand(cmd)
		}
	}
	root.AddCommand(con.tetherCommand())
	root.SetHelpCommand(con.helpCommand())
	root.SetHelpCommandGroupID(groupSelf)
	root.InitDefaultHelpCmd() // adds it now, for the reference in docs/cli.md
	root.SetHelpFunc(func(cmd *cobra.Command, _ []string) { con.helpErr = con.explain(cmd) })
	root.SetFlagErrorFunc(con.explainFlagError)
	root.SetArgs(con.args)
	root.SetIn(con.stdin)
	root.SetOut(con.stdout)
	root.SetErr(con.stderr)
	root.CompletionOptions.DisableDefaultCmd = true
	if len(con.args) > 0 && con.args[0] == cobra.ShellCompRequestCmd {
		describeFlagsPlainly(root)
	}
	root.CompletionOptions.SetDefaultShellCompDirective(cobra.ShellCompDirectiveNoFileComp)
	return root
}

// group makes cmd a group of commands, which does nothing itself.
func group(cmd *cobra.Command, commands ...*cobra.Command) *cobra.Command {
	cmd.Args = knownCommand
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return usagef("no %s command given; use %s; see `%s`", cmd.Name(), or(commandNames(cmd)), helpOf(cmd))
	}
	cmd.DisableFlagsInUseLine = true
	cmd.AddCommand(commands...)
	return cmd
}

// exits annotates a command with the meaning of its exit codes: of 0, of 1, and
// more lines.
func exits(done, failed string, more ...string) map[string]string {
	lines := append([]string{"0    " + done, "1    " + failed, "2    invalid command line"}, more...)
	return map[string]string{"exits": strings.Join(lines, "\n")}
}

// requestExits are the exits of commands that call the app.
func requestExits(done string, more ...string) map[string]string {
	return exits(done, "the app was not reached or returned an error", append(more, interruptedExit)...)
}

const interruptedExit = "130  interrupted by Ctrl+C; 143 by SIGTERM"

// helpOf returns the command line that explains cmd.
func helpOf(cmd *cobra.Command) string {
	return strings.TrimSpace("kennel help" + strings.TrimPrefix(cmd.CommandPath(), "kennel"))
}

// commandNames returns the names of the commands below cmd, without hidden ones.
func commandNames(cmd *cobra.Command) (list []string) {
	for _, c := range cmd.Commands() {
		if !c.Hidden {
			list = append(list, c.Name())
		}
	}
	return list
}

// or joins alternatives, as in "a, b or c".
func or(words []string) string {
	last := len(words) - 1
	if last < 1 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// noWords rejects every argument besides flags.
func noWords(cmd *cobra.Command, args []string) error { return unexpected(cmd, args, 0) }

// oneWord requires one argument besides flags, which is not empty.
func oneWord(what, example string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 || args[0] == "" {
			return usagef("no %s given; for example %s %s", what, cmd.CommandPath(), example)
		}
		return unexpected(cmd, args, 1)
	}
}

func unexpected(cmd *cobra.Command, args []string, maxArgs int) error {
	if len(args) > maxArgs {
		return usagef("unexpected %q; see `%s`", printable(args[maxArgs]), helpOf(cmd))
	}
	return nil
}

// knownCommand rejects every argument of a command that only has commands below
// it.
func knownCommand(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return unknownCommand(cmd, args[0])
	}
	return nil
}

// unknownCommand reports a word that is not a command below parent, and
// suggests a similar one.
func unknownCommand(parent *cobra.Command, word string) error {
	kind, hint := "command", "`kennel help` lists the commands"
	if parent.HasParent() {
		kind, hint = parent.Name()+" command", "use "+or(commandNames(parent))
	}
	near := nearest(word, commandNames(parent))
	if usual := usualWords[word]; usual != "" && !parent.HasParent() {
		hint, near = usual, ""
	}
	if near != "" {
		hint = fmt.Sprintf("did you mean `%s %s`?", parent.CommandPath(), near)
	}
	return usagef("unknown %s %q; %s", kind, printable(word), hint)
}

// usualWords maps commands of other programs to the same ones here.
var usualWords = map[string]string{
	"run":     "`kennel up` runs the app",
	"start":   "`kennel up` starts the app",
	"serve":   "`kennel up` runs the app",
	"dev":     "`kennel up` runs the app",
	"init":    "`kennel new` writes a program",
	"create":  "`kennel new` writes a program",
	"stop":    "Ctrl+C ends `kennel up`",
	"down":    "Ctrl+C ends `kennel up`",
	"build":   "`kennel package` builds the app",
	"deploy":  "`kennel package` builds the package",
	"publish": "`kennel package` builds the package",
	"log":     "`kennel up --verbose` shows the log",
	"logs":    "`kennel up --verbose` shows the log",
}

// nearest returns the candidate that starts with word, or one that differs in
// one letter, or two of a long word. It returns "" if there is none.
func nearest(word string, candidates []string) string {
	for _, candidate := range candidates {
		if len(word) > 1 && strings.HasPrefix(candidate, word) {
			return candidate
		}
	}
	return suggest.Nearest(word, candidates, min(len(word)/2, 2))
}

// explainFlagError explains why the flags of cmd cannot be read.
func (con *console) explainFlagError(cmd *cobra.Command, err error) error {
	hint := fmt.Sprintf("see `%s`", helpOf(cmd))
	if cmd.HasSubCommands() {
		if depth := strings.Count(cmd.CommandPath(), " "); !strings.HasPrefix(con.args[depth], "-") {
			return unknownCommand(cmd, con.args[depth])
		}
		hint = fmt.Sprintf("write flags after the command; `%s` lists the commands", helpOf(cmd))
	}
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		flag := con.asWritten(unknown)
		if near := nearestFlag(cmd, flag); near != "" && !cmd.HasSubCommands() {
			hint = fmt.Sprintf("did you mean %s?", near)
		}
		return usagef("unknown flag %s; %s", printable(flag), hint)
	}
	if missing, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		return usagef("flag --%s needs a value; %s", missing.GetSpecifiedName(), hint)
	}
	if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		return usagef("invalid value %q for flag --%s; use %s", printable(invalid.GetValue()), invalid.GetFlag().Name, wanted(invalid))
	}
	return usagef("%v; %s", err, hint)
}

// asWritten returns an unknown flag as the user wrote it. One dash introduces
// single letters, so -count fails at its c.
func (con *console) asWritten(unknown *pflag.NotExistError) string {
	letters := unknown.GetSpecifiedShortnames()
	if letters == "" {
		return "--" + unknown.GetSpecifiedName()
	}
	for _, arg := range con.args {
		if strings.HasPrefix(arg, "-") && strings.HasSuffix(arg, letters) {
			return arg
		}
	}
	return "-" + letters
}

// nearestFlag returns the flag of cmd that is nearest to an unknown one, ""
// if there is none.
func nearestFlag(cmd *cobra.Command, unknown string) string {
	var known []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
	word, _, _ := strings.Cut(strings.TrimLeft(unknown, "-"), "=")
	if near := nearest(word, known); near != "" {
		return "--" + near
	}
	return ""
}

// wanted describes the values that a flag accepts.
func wanted(invalid *pflag.InvalidValueError) string {
	switch invalid.GetFlag().Value.Type() {
	case "duration":
		return "a duration, for example 30s or 2h"
	case "bool":
		return "true or false"
	case "float64":
		return "a number"
	}
	if errors.Is(invalid, strconv.ErrRange) {
		return "a smaller number"
	}
	return "a whole number"
}

// checkTexts rejects flags whose values JSON would alter.
func checkTexts(flags *pflag.FlagSet) (err error) {
	flags.Visit(func(f *pflag.Flag) {
		if !utf8.ValidString(f.Value.String()) {
			err = usagef("the value of --%s is not valid UTF-8", f.Name)
		}
	})
	return err
}
