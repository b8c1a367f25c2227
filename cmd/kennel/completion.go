package main

import (
	"bytes"
	"context"
	"io"
	"iter"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kennel/client"
)

// shells are the shells with completion, and how each is generated.
var shells = []struct {
	name  string
	write func(root *cobra.Command, w io.Writer) error
}{
	{"bash", func(root *cobra.Command, w io.Writer) error {
		if err := root.GenBashCompletionV2(w, true); err != nil {
			return err
		}
		_, err := io.WriteString(w, bashWords)
		return err
	}},
	{"zsh", (*cobra.Command).GenZshCompletion},
	{"fish", func(root *cobra.Command, w io.Writer) error { return root.GenFishCompletion(w, true) }},
	{"powershell", (*cobra.Command).GenPowerShellCompletionWithDesc},
}

// bashWords replaces a function of the generated script that works only where
// the package bash-completion is installed. Words are split at blanks: the
// script joins them again and has the shell evaluate them, so quotes have their
// effect there.
const bashWords = `
__kennel_init_completion()
{
    COMPREPLY=()
    local line=${COMP_LINE:0:COMP_POINT}
    read -ra words <<<"$line"
    [[ $line == *[[:space:]] ]] && words+=("")
    cword=$((${#words[@]} - 1))
    cur=${words[cword]}
    prev=${words[cword - 1]}
}
`

func (con *console) completionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "completion <shell>",
		Short: "print a script that completes kennel's command lines in a shell",
		Long: `Prints a script for bash, zsh, fish or powershell that completes commands, flags and
their values, and the gates, sequences, channels and batches of an app that answers within a
second. Load it in the current shell, or for each new one:

  bash        source <(kennel completion bash), in ~/.bashrc
  zsh         source <(kennel completion zsh), in ~/.zshrc after compinit
  fish        kennel completion fish >~/.config/fish/completions/kennel.fish
  powershell  kennel completion powershell | Out-String | Invoke-Expression, in $PROFILE`,
		Example:     "source <(kennel completion bash)",
		Annotations: exits("printed", "it could not be written"),
	}
	for _, s := range shells {
		cmd.ValidArgs = append(cmd.ValidArgs, s.name)
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return usagef("no shell given; use %s", or(cmd.ValidArgs))
		}
		return unexpected(cmd, args, 1)
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		for _, s := range shells {
			if s.name == args[0] {
				var script bytes.Buffer
				if err := s.write(cmd.Root(), &script); err != nil {
					return err
				}
				_, err := con.stdout.Write(script.Bytes())
				return err
			}
		}
		return usagef("unknown shell %q; use %s", printable(args[0]), or(cmd.ValidArgs))
	}
	return cmd
}

// namesWait limits how long a completion waits for the app, and maxCompletions
// the names that it offers.
const (
	namesWait      = 3 * time.Second
	maxCompletions = 100
)

// completeNames returns a function that completes a name that the app knows:
// the first argument of a command, or the value of a flag. Without an answer in
// time there is no name.
func completeNames[T any](con *console, to *target, list func(*client.Client, context.Context) iter.Seq2[T, error], name func(T) string) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, begun string) (found []cobra.Completion, _ cobra.ShellCompDirective) {
		app, err := con.openApp(*to)
		if err != nil || len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		app.notice = func(client.Notice) {} // nothing may be written now
		ctx, cancel := context.WithTimeout(context.Background(), namesWait)
		defer cancel()
		for item, err := range list(app.Client, ctx) {
			if err != nil || len(found) == maxCompletions {
				break
			}
			if n := name(item); strings.HasPrefix(n, begun) && printable(n) == n {
				found = append(found, n)
			}
		}
		return found, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeFirst makes the first argument of those commands below parent that
// take one complete to a name that the app knows.
func completeFirst(parent *cobra.Command, complete cobra.CompletionFunc) {
	for _, cmd := range parent.Commands() {
		if strings.Contains(cmd.Use, " ") {
			cmd.ValidArgsFunction = complete
		}
	}
}

func sequenceName(s client.SequenceItem) string { return s.Sequence }
func channelName(c client.Channel) string       { return c.Name }

// completeWith makes a flag complete to one of the values.
func completeWith(cmd *cobra.Command, flag string, values ...cobra.Completion) {
	mustRegister(cmd, flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

// completeFile makes a flag complete to the name of a file or folder.
func completeFile(cmd *cobra.Command, flag string) {
	mustRegister(cmd, flag, cobra.FixedCompletions(nil, cobra.ShellCompDirectiveDefault))
}

func mustRegister(cmd *cobra.Command, flag string, complete cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, complete); err != nil {
		panic(err) // the flag does not exist
	}
}

// describeFlagsPlainly prepares the descriptions of all flags for completion,
// which shows their first lines as they are: without the backquotes that mark
// the name of the value for help pages, and on one line.
func describeFlagsPlainly(cmd *cobra.Command) {
	plain := func(f *pflag.Flag) {
		f.Usage = strings.NewReplacer("`", "", "\n", " ").Replace(f.Usage)
	}
	cmd.Flags().VisitAll(plain)
	cmd.PersistentFlags().VisitAll(plain)
	for _, c := range cmd.Commands() {
		describeFlagsPlainly(c)
	}
}
