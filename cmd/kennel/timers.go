package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kennel/client"
)

func (con *console) timersCommand() *cobra.Command {
	var to target
	cmd := group(&cobra.Command{
		Use:         "timers <command>",
		Short:       "list the timers of a program, run and pause them",
		Long:        `Lists the timers that the program declares, runs one now, and pauses and resumes them.`,
		Example:     "kennel timers list\nkennel timers run digest\nkennel timers pause digest",
		Annotations: requestExits("done"),
	}, con.timersListCommand(&to), con.timersShowCommand(&to), con.timersRunCommand(&to), con.pauseCommand(&to, pausableTimer), con.resumeCommand(&to, pausableTimer))
	to.addTo(cmd.PersistentFlags(), responsesAsJSON)
	return cmd
}

func (con *console) timersListCommand(to *target) *cobra.Command {
	return &cobra.Command{
		Use:         "list",
		Short:       "list the timers of the program",
		Long:        `Prints each timer with its next slot and how the last one ended.`,
		Example:     "kennel timers list",
		Annotations: requestExits("printed"),
		Args:        noWords,
		RunE: func(cmd *cobra.Command, _ []string) error {
			app, err := con.openApp(*to)
			if err != nil {
				return err
			}
			l, err := app.Timers(cmd.Context())
			if err != nil {
				return app.failed(err)
			}
			return con.print(l.JSON(), con.describeTimers(l.Items), to.asJSON)
		},
	}
}

func (con *console) timersShowCommand(to *target) *cobra.Command {
	return &cobra.Command{
		Use:         "show TIMER",
		Short:       "show a timer and how its last slot ended",
		Long:        `Prints the schedule of a timer, its next slot, and how the last one ended.`,
		Example:     "kennel timers show digest",
		Annotations: requestExits("printed"),
		Args:        oneWord("timer", "digest"),
		RunE: func(cmd *cobra.Command, args []string) error {
			app, err := con.openApp(*to)
			if err != nil {
				return err
			}
			t, err := app.Timer(cmd.Context(), args[0])
			if err != nil {
				return app.failed(err)
			}
			text := con.describeTimers([]client.Timer{t})
			if t.Last != nil && t.Last.Error != "" {
				text += "\n" + oneLine(firstLine(t.Last.Error)) + describeStack(t.Last.Error)
			}
			if t.Paused != nil {
				text += "\nit " + describePause(t.Paused)
			}
			return con.print(t.JSON(), text, to.asJSON)
		},
	}
}

func (con *console) timersRunCommand(to *target) *cobra.Command {
	return &cobra.Command{
		Use:         "run TIMER",
		Short:       "run a timer now",
		Long:        `Requests a run now, in addition to the slots of the schedule. It does not wait for its end.`,
		Example:     "kennel timers run digest",
		Annotations: requestExits("requested"),
		Args:        oneWord("timer", "digest"),
		RunE: func(cmd *cobra.Command, args []string) error {
			app, err := con.openApp(*to)
			if err != nil {
				return err
			}
			run, err := app.RunTimer(cmd.Context(), args[0])
			if err != nil {
				return app.failed(err)
			}
			return con.print(run.JSON(), fmt.Sprintf("%s runs: its slot is %s", run.Timer, run.Slot.UTC().Format(time.RFC3339Nano)), to.asJSON)
		},
	}
}

// describeTimers returns timers as a table.
func (con *console) describeTimers(all []client.Timer) string {
	rows := [][]string{{"TIMER", "SCHEDULE", "ZONE", "NEXT", "RUNS SINCE", "LAST", "LAST DONE", "PAUSED"}}
	for _, t := range all {
		last := "-"
		if t.Last != nil {
			last = t.Last.Outcome + " " + timeOrNone(&t.Last.At)
		}
		rows = append(rows, []string{plain(t.Timer), plain(t.Schedule), plain(t.Zone), timeOrNone(&t.NextAt), timeOrNone(t.RunningSince), plain(last), timeOrNone(t.LastOKAt), pausedSince(t.Paused)})
	}
	if len(all) == 0 {
		return "the program declares no timers"
	}
	return strings.TrimRight(con.drawTable(rows, 0), "\n")
}
