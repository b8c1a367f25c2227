package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"kennel/client"
)

var oneSequence = oneWord("sequence name", "orders")

func (con *console) sequencesCommand() *cobra.Command {
	var to target
	sequences := group(&cobra.Command{
		Use:         "sequences <command>",
		Short:       "list the sequences of order numbers, show one and raise it",
		Long:        `A sequence begins with its first request; "kennel next" draws its numbers.`,
		Example:     "kennel sequences list\nkennel sequences raise orders --at-least 20000 --reason \"taken over\"",
		Annotations: requestExits("done"),
	},
		con.sequencesListCommand(&to),
		con.sequencesShowCommand(&to),
		con.sequencesRaiseCommand(&to),
	)
	to.addTo(sequences.PersistentFlags(), responsesAsJSON)
	completeFirst(sequences, completeNames(con, &to, (*client.Client).Sequences, sequenceName))
	return sequences
}

func (con *console) sequencesListCommand(to *target) *cobra.Command {
	return &cobra.Command{
		Use:         "list",
		Short:       "print all sequences, one per line",
		Long:        "Prints all sequences with their next free numbers, one per line.",
		Example:     "kennel sequences list --json",
		Annotations: requestExits("printed"),
		Args:        noWords,
		RunE: func(cmd *cobra.Command, _ []string) error {
			app, err := con.openApp(*to)
			if err != nil {
				return err
			}
			for item, err := range app.Sequences(cmd.Context()) {
				if err != nil {
					return app.failed(err)
				}
				text := fmt.Sprintf("%s: the stored text is not a number", item.Sequence)
				if item.Next != nil {
					text = describeNext(item.Sequence, *item.Next, item.UpdatedAt)
				}
				if err := con.print(item.JSON(), text, to.asJSON); err != nil {
					return err
				}
			}
			if to.asJSON { // the text has no values of instances
				app.listed()
			}
			return nil
		},
	}
}

func (con *console) sequencesShowCommand(to *target) *cobra.Command {
	return &cobra.Command{
		Use:   "show NAME",
		Short: "print the next free number and the reservations of instances",
		Long: `Prints the next free number of the sequence, and what instances have reserved. Numbers
that are reserved are below the next free number.`,
		Example:     "kennel sequences show orders",
		Annotations: requestExits("printed"),
		Args:        oneSequence,
		RunE: func(cmd *cobra.Command, args []string) error {
			app, err := con.openApp(*to)
			if err != nil {
				return err
			}
			s, err := app.SequenceState(cmd.Context(), args[0])
			if err != nil {
				return app.failed(err)
			}
			return con.print(s.JSON(), describeSequence(s), to.asJSON)
		},
	}
}

func (con *console) sequencesRaiseCommand(to *target) *cobra.Command {
	var raise client.Raise
	cmd := &cobra.Command{
		Use:   "raise NAME",
		Short: "move the next free number forward",
		Long: `Makes the next free number of the sequence at least --at-least, and never lowers it. Use
it to begin a sequence at a number of your own, and to repair one whose stored number was
deleted or restored from an older copy: then raise it above every number issued.
Instances first issue the numbers that they have reserved.

The app rejects a number that an instance has reserved (raise_too_low), and any if it cannot
read what the instances have reserved (instances_unknown). --force raises the sequence all
the same, and replaces a stored text that is not a number.`,
		Example:     "kennel sequences raise orders --at-least 20000 --reason \"taken over\"",
		Annotations: requestExits("the number is high enough"),
		Args:        oneWord("sequence name", "orders --at-least 20000"),
	}
	flags := cmd.Flags()
	flags.Int64Var(&raise.AtLeast, "at-least", 0, "raise the next free number to `N`, if it is lower")
	flags.StringVar(&raise.Reason, "reason", "", "record the reason `WHY` in the log, up to 1000 characters")
	flags.BoolVar(&raise.Force, "force", false, "ignore the reservations of instances, and replace an invalid text")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !flags.Changed("at-least") || raise.AtLeast < 0 {
			return usagef("--at-least is missing or negative; use the lowest number that may be issued next, for example --at-least 20000")
		}
		app, err := con.openApp(*to)
		if err != nil {
			return err
		}
		app.lookup = fmt.Sprintf("kennel sequences show %q", args[0])
		s, err := app.RaiseSequence(cmd.Context(), args[0], raise)
		if err != nil {
			return app.failed(err)
		}
		if !s.Changed {
			con.say("nothing changed: the next free number was high enough")
		}
		return con.print(s.JSON(), describeSequence(s.SequenceState), to.asJSON)
	}
	return cmd
}

func describeNext(name string, next int64, updated time.Time) string {
	return fmt.Sprintf("%s: next free number %d, written at %s", name, next, updated.UTC().Format(time.RFC3339))
}

func describeSequence(s client.SequenceState) string {
	text := describeNext(s.Sequence, s.Next, s.UpdatedAt)
	for _, i := range s.Instances {
		text += fmt.Sprintf("\n  %s has %d reserved numbers, up to %d", i.Instance, i.Available, i.Highest)
		if i.Seconds != nil {
			text += fmt.Sprintf(", for %.0f s", *i.Seconds)
		}
		if i.PerSecond > 0 {
			text += fmt.Sprintf(", issues %.1f per second", i.PerSecond)
		}
		if i.Lost > 0 {
			text += fmt.Sprintf(", gave up %d", i.Lost)
		}
		if i.LastError != "" {
			text += "; last error: " + oneLine(i.LastError)
		}
	}
	if s.Partial {
		text += "\n  what other instances have reserved is not known"
	}
	return text
}
