package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"kennel/client"
)

func (con *console) gateListCommand(o *gateOptions) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "print all gates, one per line",
		Long: `Prints the gates that were released at least once, with the nodes that wait at them in all
instances, one per line. A gate before its first release is not listed.`,
		Example:     "kennel gate list --json",
		Annotations: requestExits("printed"),
		Args:        noWords,
		RunE: func(cmd *cobra.Command, _ []string) error {
			app, err := con.openApp(o.target)
			if err != nil {
				return err
			}
			for item, err := range app.Gates(cmd.Context()) {
				if err != nil {
					return app.failed(err)
				}
				if err := con.print(item.JSON(), describeGateItem(item), o.asJSON); err != nil {
					return err
				}
			}
			app.listed()
			return nil
		},
	}
}

func describeGateItem(g client.GateItem) string {
	text := "is closed"
	if g.Released {
		text = "is released"
	}
	if g.Generation == nil {
		return fmt.Sprintf("%s %s: its stored document is invalid; %s", g.Name, text, counted(g.Waiters, "waiter"))
	}
	return fmt.Sprintf("%s %s (generation %d) since %s; %s", g.Name, text, *g.Generation, g.ChangedAt.UTC().Format(time.RFC3339), counted(g.Waiters, "waiter"))
}

func (con *console) gateWaitersCommand(o *gateOptions) *cobra.Command {
	return &cobra.Command{
		Use:   "waiters NAME",
		Short: "print who waits at the gate",
		Long: `Prints the instances of the app that have waiting nodes, and how many, one per line, those
with most of them first. It prints nothing if no node waits. With --json it is one object.`,
		Example:     "kennel gate waiters start-orders",
		Annotations: requestExits("printed"),
		Args:        oneGate,
		RunE:        con.gateRun(o, printWaiters),
	}
}

func printWaiters(ctx context.Context, con *console, app *app, name string, o gateOptions) error {
	w, err := app.Waiters(ctx, name)
	if err != nil {
		return app.failed(err)
	}
	app.partial = w.Partial
	defer app.listed()
	if o.asJSON {
		return con.writeLine(string(w.JSON()))
	}
	for _, at := range w.Items {
		if err := con.writeLine(printable(at.Instance) + ": " + counted(at.Waiters, "waiter")); err != nil {
			return err
		}
	}
	return nil
}
