package doctor

import (
	"context"
	"errors"

	"kennel/internal/clients"
	"kennel/internal/config"
	"kennel/relay"
)

// backlogChecks returns the checks of the secondary namespace: the app may send
// to the first backlog queue, and receive from it. No message is sent, because
// the syphon would find it, and none is locked. The queue is created if it is
// missing, as the app does after its start.
func backlogChecks(cfg config.Config, m mender) [][]Check {
	bus, queue := cfg.ServiceBusSecondary, clients.BacklogQueues(cfg)[0]
	fix := func(err error) string { return m.namespace(bus, "ServiceBusSecondary", err) }
	right := func(name string, do func(context.Context, relay.Connection) error) []Check {
		return []Check{{Name: "backlog " + name, limit: busTimeout, fix: fix, Do: func(ctx context.Context) (string, error) {
			namespace, err := clients.Relay(bus, nil)
			if err != nil {
				return "", err
			}
			connection, err := namespace.Connect()
			if err != nil {
				return "", err
			}
			defer connection.Close(ctx) // ignore the error: the check has its answer
			ctx, cancel := context.WithTimeout(ctx, busTimeout/2)
			defer cancel()
			err = do(ctx, connection)
			if e, ok := errors.AsType[*relay.Error](err); ok && e.Class == relay.NotFound {
				if err = namespace.Ensure(ctx, queue); err == nil {
					err = do(ctx, connection)
				}
			}
			return "queue " + queue + " of " + bus.Host(), err
		}}}
	}
	return [][]Check{
		right("send", func(ctx context.Context, c relay.Connection) error { return c.Ping(ctx, queue) }),
		right("receive", func(ctx context.Context, c relay.Connection) error {
			_, err := c.Peek(ctx, queue, 0, 1)
			return err
		}),
	}
}
