// Package kennel is a tour of the code, from the bottom up. It holds none
// itself.
//
// # The jobs
//
// Each job that many nodes do together is a package in the root. It owns the
// storage interface it needs, or takes it from a foundation, imports nothing
// else but the standard library and golang.org/x/sync, and knows neither Azure
// nor the Functions host.
//
//   - ids: order numbers that never repeat, reserved a range at a time.
//   - gate: is it released yet? Signalled, and polled to be sure.
//   - channels: channels and their blogs over two tables, and a deletion that
//     always finishes.
//
// The foundations are:
//
//   - table: the contract of a table, its limits, and repeated requests.
//   - queue: the contract of a queue and its limits.
//
// Begin with ids/store.go (the contract), then ids/claim.go (the protocol, as
// pure state), ids/window.go (the hot path), ids/fill.go (what keeps it fed).
// Likewise gate/store.go, gate/watch.go (what a process knows of a gate, as pure
// state), gate/change.go (how one is released); and channels/doc.go (the steps of
// a deletion), channels/accept.go, channels/rounds.go, channels/worker.go.
//
// # How the jobs reach the world
//
//   - internal/azure: the stores of ids and gates over blobs, and those of
//     channels over tables and queues. internal/azure/servicebus: the gates'
//     signals. Nothing else imports the Azure SDK.
//   - internal/memory: the same stores in memory, as strict as Azure, with a
//     hook that decides what goes wrong.
//   - internal/storetest: what every store must do, as tests. Memory and
//     Azure both run them, the latter on a real Azurite.
//   - internal/dev/devbus: a Service Bus-compatible broker for tests and laptops,
//     over the AMQP codec internal/dev/devbus/amqp.
//   - internal/faultproxy: an HTTP proxy before Azurite at which requests fail.
//   - internal/chance: the random numbers of simulations, from a seed.
//   - internal/customhandler: the wire between the Functions host and a custom
//     handler, in both directions.
//   - internal/config: the environment, turned into one checked struct.
//   - internal/suggest: the word that a misspelt one was meant to be.
//
// # How it runs
//
//   - handler: the app itself. The only place that knows everything: wiring,
//     and one thin file per function.
//   - functions: one folder with a function.json per function.
//   - cmd/kennel: the command line.
//   - internal/dev/project: reads, checks, stages and packs a project.
//   - internal/dev/run: runs a project on this machine, for `kennel up`.
//   - internal/dev/localhost: a local Functions host, for machines without func.
//   - internal/dev/azurite: Azurite from npm, installed once and never orphaned.
//
// # How it is tested
//
// Domain packages are simulated in virtual time (testing/synctest) with seeds,
// against stores that refuse, lose replies and let writes arrive late. The
// protocol of ids is driven through every order of events. The diffs of
// testdata/bugs put known bugs into the real source, one at a time, and a test
// must find each. The real handler process runs on a real Azurite, and is killed.
//
// layers_test.go says who may import whom, and fails when that is not so.
// docs/design.md says why things are as they are.
package kennel
