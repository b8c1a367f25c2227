package main

import (
	"github.com/spf13/cobra"

	devrun "kennel/internal/dev/run"
)

// tetherCommand is used by kennel itself: see [devrun.Tether].
func (con *console) tetherCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:         "tether PROGRAM [argument…]",
		Short:       "run a program while standard input is open",
		Long:        "Runs a program, stops it at the first byte of standard input and kills it at end of file.",
		Example:     "kennel tether func start",
		Annotations: exits("stopped on request; otherwise the exit code of the program", "it did not start"),
		Hidden:      true,
		Args:        cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usagef("no program given")
			}
			code, err := devrun.Tether(cmd.Context(), args, con.stdin, con.stdout, con.stderr, devrun.TetherTime)
			if err == nil && code != exitDone {
				return exitCode(code)
			}
			return err
		},
	}
	cmd.Flags().SetInterspersed(false) // the flags that follow are the program's
	return cmd
}
