package main

import (
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
