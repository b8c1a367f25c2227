package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	devrun "kennel/internal/dev/run"
)

func (con *console) busCommand() *cobra.Command {
	var (
		port     int
		entities []string
		asJSON   bool
	)
	cmd := &cobra.Command{
		Use:   "bus",
		Short: "run a Service Bus for development on this machine",
		Long: `Serves a Service Bus namespace on the loopback address until Ctrl+C, with its messages in
memory: the development bus of "kennel up". It has the queues of --entity, which detect
duplicates, and the topic signals; administration clients create more. Start another one
for a secondary namespace.

It fails on request: docs/local-development.md describes what to POST to the address that
it prints for faults.`,
		Example:     "kennel bus\nkennel bus --port 5672 --entity orders --entity eu/invoices",
		Annotations: exits("stopped on request, by Ctrl+C or SIGTERM", "it did not start"),
		Args:        noWords,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkPort(port); err != nil {
				return err
			}
			names, err := devrun.EntityNames(entities)
			if err != nil {
				return usagef("--entity: %v", err)
			}
			return con.serveBus(cmd.Context(), port, names, asJSON)
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&port, "port", 0, "serve it on `PORT` of 127.0.0.1 (default: any free one)")
	flags.StringArrayVar(&entities, "entity", nil, "create the queue `NAME` (repeatable); ~ stands for /")
	flags.BoolVar(&asJSON, "json", false, "write events to standard output as lines of JSON: ready, stopped")
	return cmd
}

// A busEvent is what "kennel bus --json" writes. The key in it is not secret.
type busEvent struct {
	Event string `json:"event"` // ready, stopped

	// ready
	ServiceBus string   `json:"serviceBus,omitempty"` // the connection string
	Faults     string   `json:"faults,omitempty"`
	Entities   []string `json:"entities,omitempty"` // queues
}

// serveBus serves a development bus until ctx ends.
func (con *console) serveBus(ctx context.Context, port int, entities []string, asJSON bool) error {
	bus, err := devrun.StartBus(port, entities)
	if err != nil {
		return err
	}
	defer bus.Close()
	e := busEvent{Event: "ready", ServiceBus: bus.ConnectionString(), Faults: bus.FaultsURL(), Entities: entities}
	text := fmt.Sprintf("%s  messages in memory\n\n  connection string:\n    %s\n\n  faults     %s\n",
		con.paint(con.stdout, bold, "Service Bus"), e.ServiceBus, e.Faults)
	if len(entities) > 0 {
		text += "  queues     " + strings.Join(entities, ", ") + "\n"
	}
	if err := con.showEvent(e, text+"\n  Ctrl+C stops it.\n", asJSON); err != nil {
		return err
	}
	<-ctx.Done()
	return con.showEvent(busEvent{Event: "stopped"}, "stopped\n", asJSON)
}
