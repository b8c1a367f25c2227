// Package devbus is a Service Bus-compatible broker for tests and laptops: it
// speaks AMQP 1.0 to the unmodified SDKs and ATOM to their administration
// clients, keeps everything in memory, and can be told to fail.
//
// A test gives the SDK one end of an in-process pipe, so that the whole of it,
// SDK included, runs in the virtual time of testing/synctest:
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
// runs use Listen instead, which has a connection string of its own.
//
// # What it does
//
// Queues, topics, subscriptions; locks and their renewal; dead-letter queues;
// scheduled and deferred messages; peeking; batches; duplicate detection;
// sessions with state; time to live; quotas; deletion of idle entities. The
// faults it injects are the kinds of Fault.
//
// # What it refuses
//
// Rules and filters, forwarding, and transactions are answered with "not
// implemented", never ignored. Tokens are asked for, as by the service, but
// any token will do. Nothing survives Close.
//
// # How it is built
//
// From the bottom up: package amqp is the codec, message.go knows Service Bus's
// messages. A connection (wire.go,
// conn.go) carries sessions (session.go), which carry links: inlink.go for
// those on which the client sends, outlink.go for those on which it receives,
// attach.go for how they come to be. Links end in entities: queue.go, lock.go,
// topic.go and their neighbours. cbs.go and management.go answer requests,
// atom.go administrators.
//
// One mutex, Broker.mu, guards everything except the bytes on their way out.
// Frames are taken apart before it is locked; whatever they cause happens
// while it is held, and never waits for a client. What happens later (locks
// that run out, scheduled messages, idle entities) hangs in one heap of alarms.
package devbus
