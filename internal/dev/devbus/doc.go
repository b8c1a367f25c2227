// Package devbus is a small Service Bus-compatible broker for tests and
// laptops. It is not for production.
//
// A test gives the SDK one end of an in-process pipe, so that all of it, SDK
// included, runs in the virtual time of testing/synctest:
//
//	b := devbus.New(nil)
//	defer b.Close()
//	b.CreateQueue("orders", nil)
//	client, err := azservicebus.NewClientFromConnectionString(anyConnectionString, &azservicebus.ClientOptions{
//		NewWebSocketConn: func(context.Context, azservicebus.NewWebSocketConnArgs) (net.Conn, error) {
//			return b.Dial(), nil
//		},
//	})
//
// The administration client takes b.AdminTransport() as its Transport. Local
// runs use Listen instead, which has its own connection string.
//
// # Goals
//
//   - Serve the unmodified SDKs: AMQP 1.0 for messages, ATOM for administrators.
//   - Behave as the service does in queues, topics, subscriptions, locks,
//     sessions, dead letters, scheduled and deferred messages, duplicate
//     detection, time to live, quotas and the deletion of idle entities.
//   - Fail on request, in the ways that Kind lists.
//
// # Limitations
//
//   - Rules and filters, forwarding and transactions are answered with "not
//     implemented", never ignored.
//   - Clients must put tokens, but every token is valid for everything.
//   - TLS, WebSockets, peeking on topics, the detachment of idle links, and the
//     service's limits of properties are missing.
//   - Everything is kept in memory until Close.
//
// # Implementation
//
// From the bottom up: package amqp is the codec; message.go knows Service Bus's
// messages. A connection (wire.go, conn.go) carries sessions (session.go),
// which carry links (link.go); attach.go decides what a link is attached to:
// an entity (queue.go, lock.go, topic.go and their neighbours) or requests
// (management.go). atom.go answers administrators.
//
// One mutex, Broker.mu, guards everything except the bytes on their way out.
// Frames are decoded before it is locked; their effects happen while it is
// held, and never wait for a client. Later events (locks that expire, scheduled
// messages, idle entities) are kept in one heap of alarms.
package devbus
