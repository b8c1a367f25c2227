package main

import (
	"context"
	"flag"

	devrun "kennel/internal/dev/run"
)

// tetherCommand is used by kennel itself: see [devrun.Tether].
func tetherCommand() *command {
	return &command{
		name:     "tether",
		hidden:   true,
		synopsis: "PROGRAM [argument…]",
		summary:  "run a program while standard input is open",
		about:    "Runs a program, stops it at the first byte of standard input and kills it at end of file.",
		example:  "kennel tether func start",
		exits:    "0 stopped on request, otherwise the exit code of the program, 1 it did not start",
		flags:    flag.NewFlagSet("tether", flag.ContinueOnError),
		maxArgs:  1 << 10, // in effect unlimited
		run: func(ctx context.Context, con *console, args []string) error {
			if len(args) == 0 {
				return usagef("no program given")
			}
			code, err := devrun.Tether(ctx, args, con.stdin, con.stdout, con.stderr, devrun.TetherTime)
			if err == nil && code != exitDone {
				return exitCode(code)
			}
			return err
		},
	}
}
