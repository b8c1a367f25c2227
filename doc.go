// Package kennel is a tour of the code, from the bottom up. It contains no code
// itself.
//
// # The jobs
//
// Each job that many nodes do together is a package in the root. It owns the
// storage interface that it needs, or takes it from a foundation. Otherwise it
// imports the standard library and golang.org/x/sync only, and work a
// compressor. None knows Azure or the Functions host.
//
//   - ids: order numbers that never repeat, reserved a range at a time.
//   - gate: holds waiting nodes back and releases them all at once.
//   - work: batches of items that are processed by many workers and reduced to
//     one report.
//   - channels: channels and their blogs over two tables, and a deletion that
//     always finishes.
//   - deadletters: lists, redrives and deletes the messages that could not be
//     worked on.
//
// The foundations are:
//
//   - internal/table: the contract of a table, its limits, and the retries of requests.
//   - queue: the contract of a queue and its limits; claims for long bodies.
//   - internal/trace: the spans that a request causes, and its trace in messages.
//   - internal/instances: what the processes of the app report about themselves. Each
//     writes a row of one table, and the status reads them all.
//   - internal/cost: how many requests each job makes, and what a load costs in a month.
//     It computes only, and tests compare it with the jobs.
//   - internal/cost/bill: what the processes of the app used, in a row of a table for each
//     process and day, and what it costs.
//   - relay: sends to Service Bus that survive the outage of a namespace.
//   - internal/scale: how many instances and hands the queues need, by rules. It is
//     arithmetic, and imports no other package.
//
// Begin with ids/store.go (the contract), then ids/claim.go (the protocol, as
// pure state), ids/window.go (the hot path), ids/fill.go (the reservations).
// Then gate/store.go, gate/watch.go (what a process knows of a gate, as pure
// state), gate/change.go (how a gate is released). Then channels/doc.go (the
// steps of a deletion), channels/accept.go, channels/rounds.go,
// channels/worker.go. Then work/work.go (the life of a batch), work/submit.go,
// work/process.go, work/collect.go, work/gather.go, work/sweep.go. Then
// deadletters/deadletters.go (the contract), deadletters/letter.go (the forms),
// deadletters/call.go (a redrive).
//
// Programs that call the app over HTTP use
//
//   - client: the Go client of the HTTP API. It imports the standard library
//     only. Begin with client/doc.go (what is repeated), then
//     client/repeat.go.
//
// Programs that do the same jobs without the app use ids and gate with
//
//   - azurestore: their stores and signals on Azure. It contains constructors
//     only.
//   - examples/numbers: a program that uses all of them.
//
// # Six walks
//
//   - One order number: internal/customhandler/forward.go,
//     internal/edge/routes.go, internal/api/sequences.go, ids/set.go, ids/ids.go.
//     If a range must be reserved: ids/fill.go, ids/claim.go,
//     internal/azure/sequences.go.
//   - One wait at a gate: internal/api/gates.go, gate/wait.go, gate/read.go,
//     gate/watch.go, internal/azure/gates.go.
//   - One deletion of a channel: internal/api/channels.go,
//     channels/accept.go, channels/rounds.go; later
//     internal/parts/channelwork.go, channels/worker.go.
//   - One batch: internal/api/batches.go, work/submit.go, work/launch.go;
//     later internal/parts/batchwork.go, work/process.go, work/collect.go, work/gather.go.
//   - One status: internal/observe/status.go, internal/observe/view.go,
//     internal/instances/directory.go; what it reads: internal/instances/self.go,
//     internal/instances/reporter.go.
//   - One queue message on a laptop: internal/dev/localhost/queues.go,
//     internal/customhandler/client.go, internal/customhandler/app.go,
//     internal/parts/channelwork.go. In a worker: internal/worker/listening.go,
//     queue/delivery.go, internal/parts/channelwork.go.
//
// docs/design.md describes the life of a number, of a release, of a deletion, of
// a batch and of a status in numbered steps.
//
// # How the jobs are connected
//
//   - internal/azure: the stores of ids and gates over blobs, and those of
//     channels over tables and queues. internal/azure/servicebus: the gates'
//     signals, and the namespaces of package relay. Only azurestore and relay
//     import the Azure SDK too.
//   - internal/memory: the same stores in memory, as strict as Azure, with a
//     hook that decides what goes wrong.
//   - internal/storetest: what every store must do, as tests. Both memory and
//     Azure run them, the latter on a real Azurite.
//   - internal/dev/devbus: a broker compatible with Service Bus, for tests and
//     laptops, over the AMQP codec internal/dev/devbus/amqp.
//   - internal/faultproxy: an HTTP proxy in front of Azurite that injects faults.
//   - internal/chance: the random numbers of simulations, from a seed.
//   - internal/customhandler: the wire between the Functions host and a custom
//     handler, in both directions.
//   - internal/config: the environment, turned into one checked struct.
//   - internal/names: the names of queues, tables and containers, which infra/ and
//     functions/ repeat.
//   - internal/suggest: finds the word that is nearest to a misspelt one.
//   - internal/version: the build of this program.
//
// # How it runs
//
//   - internal/app: assembles a program from parts, and runs it behind a Functions
//     host or as a worker. Its file program.go has the stages of the stop.
//   - internal/edge: what every route of an API gets before its resource.
//   - internal/api: the resources, one file for each, and one table of errors.
//   - internal/observe: what a program knows about itself: problems, samples,
//     processes; its status, metrics and bill.
//   - internal/worker: the work of queues, without a Functions host and behind one.
//   - internal/doctor: what the app may do, and the command that mends what it may
//     not. internal/clients opens what the settings name.
//   - internal/parts: the jobs as parts of a program: the Kennel app.
//   - internal/apptest: what the tests of these share.
//   - handler: the app's main, and its processors of batches.
//   - functions: one folder with a function.json per function.
//   - docs: the documents, and openapi.yaml, which the handler serves.
//   - cmd/kennel: the command line.
//   - internal/dev/project: reads, checks, stages and packs a project.
//   - internal/dev/run: runs a project on this machine, for `kennel up`.
//   - internal/dev/localhost: a local Functions host, for machines without func.
//   - internal/dev/bicep: evaluates infra/, for a test that compares it with the
//     code.
//   - internal/dev/gotest: runs go test, again where Go itself crashed.
//   - internal/dev/figures: writes docs/benchmarks.md.
//   - internal/dev/sbom: writes which modules a binary consists of, and checks
//     their licences.
//   - internal/dev/azurite: installs Azurite from npm once, and stops it with
//     this process.
//
// # How it is tested
//
// Domain packages are simulated in virtual time (testing/synctest) with seeds,
// against stores that refuse requests, lose replies and apply writes late. The
// protocol of ids is driven through every order of events. The diffs of
// testdata/bugs put known bugs into the real source, one at a time, and a test
// must find each. The real handler process runs on a real Azurite, and is
// killed.
//
// internal/policy/layers_test.go lists which package may import which, and fails on any other
// import. internal/policy/words_test.go holds the words of the product: one for each thing.
// docs/design.md explains the decisions.
package kennel
