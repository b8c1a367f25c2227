package main

import (
	"context"
	"flag"

	devrun "kennel/internal/dev/run"
)

// tetherCommand is for kennel's own use: see [devrun.Tether].
func tetherCommand() *command {
	return &command{
		name:     "tether",
		hidden:   true,
		synopsis: "PROGRAM [argument…]",
		summary:  "run a program for as long as standard input is open",
		about:    "Runs a program, stops it at the first byte of standard input and kills it at the end.",
		example:  "kennel tether func start",
		exits:    "0 stopped as asked, else the exit code of the program, 1 it was not started",
		flags:    flag.NewFlagSet("tether", flag.ContinueOnError),
		maxArgs:  1 << 10, // as many as there are
		run: func(ctx context.Context, con *console, args []string) error {
			if len(args) == 0 {
				return usagef("name the program to run")
			}
			code, err := devrun.Tether(ctx, args, con.stdin, con.stdout, con.stderr, devrun.TetherTime)
			if err == nil && code != exitDone {
				return exitCode(code)
			}
			return err
		},
	}
}
