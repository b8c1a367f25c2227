// Package devbus is a small Service Bus-compatible broker for tests and local
// development. It is not for production.
//
// A test gives the SDK one end of an in-process pipe. The test, the SDK and the
// broker then run in the virtual time of testing/synctest:
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
// The administration client uses b.AdminTransport() as its Transport. Local
// runs use Listen instead, which provides a connection string.
//
// # Goals
//
//   - Serve the unmodified SDKs: AMQP 1.0 for messages, Atom for
//     administration.
//   - Behave like the service with queues, topics, subscriptions, locks,
//     sessions, dead letters, scheduled and deferred messages, duplicate
//     detection, time to live, quotas, limits of messages, idle links, expiring
//     tokens and the deletion of idle entities.
//   - Fail on request, in the ways that Kind lists.
//
// # Limitations
//
// A request for one of these receives an error, and is never ignored:
//
//   - rules and filters other than TrueFilter, and their actions
//   - forwarding, and with it the source of a dead letter
//   - transactions
//   - TLS, and AMQP over WebSockets
//   - operations of $management that operations.go does not list
//
// These are accepted, and have no effect:
//
//   - the signature of a token and the rights that it gives: Send, Listen and
//     Manage are the same
//   - partitioning, except that it multiplies the size of an entity by 16
//   - express entities, authorization rules, user metadata
//
// The service has these limits, and the broker does not: the number of
// entities, connections, links and concurrent requests; the rate of operations,
// which faults can imitate; the size of the namespace. All data is kept in
// memory, until Close. Errors do not have the service's tracking ids.
//
// # Implementation
//
// From the bottom up: package amqp is the codec, and message.go reads and
// writes Service Bus messages. A connection (wire.go, conn.go) carries sessions
// (session.go), which carry links (link.go). attach.go attaches a link to an
// entity (entity.go, queue.go, state.go, group.go, topic.go) or to a request
// node (claims.go, management.go, operations.go). atom.go answers
// administration requests.
//
// One mutex, Broker.mu, guards all state except the buffers of outgoing bytes.
// Frames are decoded before it is locked. Their effects happen while it is
// held, and never wait for a client. Future events (expiring locks, scheduled
// messages, idle entities and links) are kept in one heap of alarms (alarm.go).
package devbus
