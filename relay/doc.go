// Package relay keeps sends to Service Bus working while the namespace that
// they go to, the primary, is out of order.
//
// A [Sender] sends to an entity (a queue or topic) of the primary. Once sends
// to an entity failed for the failover interval, it sends to a backlog queue of
// a second namespace instead, and probes the primary until it answers again. A
// [Syphon] moves the backlog to the entities of the primary.
//
// What holds:
//
//   - A message whose Send returned nil is delivered to its entity at least
//     once, unless its time to live ends first. In the backlog, a message whose
//     entity does not exist or refuses it becomes a dead letter.
//   - It is delivered more than once at most as often as an attempt to send it
//     ended without an answer, or a syphon stopped between sending and
//     completing it. Every copy has the same message ID, so duplicate detection
//     on the entity removes the others.
//   - A throttled entity never fails over: its sends wait.
//   - Entities are independent: one that fails over leaves the others alone.
//
// What does not hold: messages without a session are not kept in order. With a
// session they are in order as sent by one Sender.
//
// The state of an entity, in each process by itself:
//
//	Healthy --failed attempt--> Suspect --interval over--> FailedOver
//	   ^----------successful attempt---'                        |
//	   '---------------------two good pings in a row------------'
//
// After a failback the entity is Healthy on trial: one send at a time goes to
// the primary, and the others still go to the backlog. The first answer ends the
// trial. If the attempt fails instead, the entity fails over again at once.
//
// The package is the policy only. It makes no connection: the program passes
// in each [Namespace], such as one of package azurestore. Messages are those of
// module azservicebus, so the exported names follow the major versions of
// azservicebus and are not part of what this module keeps stable. The life of a message while the primary is out of order:
//
//  1. Send checks the message (check.go), copies it, and gives it a message ID
//     if it has none.
//  2. The state machine (entity.go) admits one attempt at a time while the
//     entity is suspect; the other sends wait for its outcome.
//  3. After failover, seal (envelope.go) keeps the entity's path, the session,
//     the expiry and the schedule in application properties, and the copy goes
//     to a backlog queue (backlog.go).
//  4. A syphon receives it, opens the envelope, sends the message to its entity
//     and completes it in the backlog queue (syphon.go).
package relay
