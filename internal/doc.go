// Package internal is a tour of the code. It contains no code itself.
//
// # What to read first
//
// A newcomer to the code reads, in this order:
//
//  1. README.md: what the app does, how to run it, and the terms.
//  2. This page, for the rooms and what is in each.
//  3. "Rules that hold everywhere" in docs/design.md.
//  4. The smallest job: "Order numbers: compare-and-swap on one blob" in
//     docs/design.md, then ids/store.go (the contract), ids/claim.go (the
//     protocol, as pure state), ids/window.go (the hot path), ids/fill.go (the
//     reservations).
//  5. How it is proved: "Terms" in docs/testing.md, then ids/world_test.go and
//     ids/sim_test.go.
//  6. The first of the walks below, from the wire to storage.
//  7. "Rules of the house" in docs/testing.md, before the first change.
//
// An operator reads:
//
//  1. README.md, and docs/local-development.md to run it on a laptop.
//  2. docs/infrastructure.md: what is deployed, its parameters and its
//     security.
//  3. docs/operations.md up to "Sign-in": the doctor, deployment, settings. The
//     rest of it is for searching: symptoms, log lines, alerts, by job.
//  4. docs/console.md and docs/cli.md: what to watch and operate it with.
//  5. docs/costs.md, docs/releasing.md and SECURITY.md.
//  6. internal/config/config.go, if a setting is in doubt: it is the only place
//     that reads settings.
//
// An author of a program that calls the app reads docs/api.md, then
// client/doc.go (what is repeated) and client/repeat.go. An author of a program
// that does the same jobs without the app reads examples/numbers,
// examples/queuealone and examples/relayalone.
//
// # Jobs
//
// Each job that many nodes do together is a package in the root. It owns the
// storage interface that it needs, or takes it from a foundation. Otherwise it
// imports the standard library and golang.org/x/sync only, and work and queue a
// compressor. None knows the Functions host. None but relay, which uses the
// data types of the SDK, knows Azure. No job imports another, except for queue.
//
//   - ids: order numbers that never repeat, reserved a range at a time.
//   - gate: holds waiting nodes back and releases them all at once. Begin with
//     gate/store.go, gate/watch.go (what a process knows of a gate, as pure
//     state), gate/change.go (how a gate is released).
//   - channels: channels and their blogs over two tables, and a deletion that
//     always finishes. Begin with channels/doc.go (the steps of a deletion),
//     channels/accept.go, channels/rounds.go, channels/worker.go.
//   - queue: the contract of a queue and its limits; the listener of a worker;
//     claims for long bodies. Jobs use it as a foundation.
//   - work: batches of items that are processed by many workers and reduced to
//     one report. work is its face; work/work.go has the life of a batch. Below
//     it, in this order: work/internal/model (the terms, and when a message
//     becomes a dead letter), work/internal/format (how rows and messages are
//     encoded), work/internal/items (how a submission is read),
//     work/internal/store, work/internal/report, work/internal/base; and the
//     steps work/internal/submit, work/internal/process, work/internal/collect
//     and work/internal/sweep. work/processors has those of the app.
//   - deadletters: lists, redrives and deletes the messages that could not be
//     worked on. Begin with deadletters/deadletters.go (the contract),
//     deadletters/letter.go (the forms), deadletters/call.go (a redrive).
//   - relay: sends to Service Bus that survive the outage of a namespace. Begin
//     with relay/doc.go, relay/entity.go (the state of an entity).
//
// # Storage for tests and laptops
//
// Package devstore is Azure Storage in Go, public like the jobs: "In tests of
// other programs" in docs/local-development.md.
//
//   - devstore: a store, its ports, its faults, and the way of a request. Begin
//     with devstore/store.go, devstore/serve.go.
//   - devstore/internal/rest: what the services share: a call, its answer, errors.
//   - devstore/internal/auth: who calls, and what a signature allows.
//   - devstore/internal/journal: the log that survives a kill.
//   - devstore/internal/blob, devstore/internal/queue, devstore/internal/table: one
//     service each, as a state machine without clock, network and files.
//     devstore/internal/properties: the settings of a service.
//     devstore/internal/sorted: items in the order of their names.
//   - devstore/internal/azuritetest: the same random requests to devstore and to
//     Azurite, and why some answers differ.
//
// # Foundations and arithmetic
//
//   - internal/cas: a value that several processes replace by compare-and-swap,
//     and the words for the answers of stores.
//   - internal/table: the contract of a table, its limits, and the retries of
//     requests.
//   - internal/signal: the contract of signals, which wake and decide nothing.
//   - internal/trace: the spans that a request causes, and its trace in
//     messages.
//   - internal/instances: what the processes of the app report about
//     themselves. Each writes a row of one table, and the status reads them
//     all.
//   - internal/scale: how many instances and hands the queues need, by rules.
//     It is arithmetic, and imports no other package. internal/scale/check
//     requests the advice once a minute and keeps it.
//   - internal/cost: how many requests each job makes, and what a load costs in
//     a month. It computes only, and tests compare it with the jobs.
//     internal/cost/bill: what the processes of the app used, in a row of a
//     table for each process and day, and what it costs.
//   - internal/names: the names of queues, tables and containers, which infra/
//     and functions/ repeat.
//   - internal/version: the build of this program. internal/suggest: finds the
//     word that is nearest to a misspelt one. internal/retryafter: reads the
//     header Retry-After of answers.
//
// # For programs of others
//
//   - The root, package kennel: what a program declares, thin over internal/parts.
//     Begin with kennel.go, queue.go. kenneltest: a program in its author's tests,
//     on devstore behind a host whose clock the test moves. otlp: the exporter of traces, for programs
//     that want it.
//   - client: the Go client of the HTTP API. It imports the standard library
//     only.
//   - azurestore: the stores and signals of ids, gate and queue, and the
//     namespaces of relay, on Azure. It contains constructors only.
//   - examples/numbers: a program that uses ids, gate and the client.
//     examples/queuealone, examples/relayalone: programs with package queue and
//     with package relay alone.
//   - examples/emails, examples/thumbnails, examples/digest: a queue, a processor
//     and a timer on package kennel, each with its test. examples/orders: one
//     program of two binaries, examples/orders/api and examples/orders/worker.
//
// # Adapters
//
//   - internal/azure: the stores of ids and gates over blobs, and those of
//     channels, batches and queues over tables and queues. Only it, its
//     subpackages, azurestore and relay import the Azure SDK.
//     internal/azure/servicebus: the gates' signals, and the namespaces of
//     package relay. internal/azure/containerapp: the scale of a container app.
//     internal/azure/identity: how this process signs in.
//     internal/azure/requests: counts the requests.
//   - internal/customhandler: the wire between the Functions host and a custom
//     handler, in both directions.
//   - internal/config: the environment, turned into one checked struct.
//   - internal/principal: who the platform has signed in.
//   - internal/console: the page through which people operate the app.
//   - internal/metrics: what processes report, as text for Prometheus.
//   - internal/telemetry: the traces of a process. internal/telemetry/otlp:
//     their exporter.
//
// # A program
//
// Each needs only those above it.
//
//   - internal/attempt: calls the author's function for a message, a slot or an
//     item, and decides what becomes of it.
//   - internal/schedule: the schedules of timers and their slots.
//   - internal/control: which queues and timers people have paused.
//   - internal/inside: what only kenneltest and otlp do with a program.
//   - internal/program: what a program declares, whether that can be, and its
//     description.
//   - internal/observe: what a program knows about itself: problems, samples of
//     queues, processes; and from these its status, metrics and bill.
//   - internal/worker: the work of queues, without a Functions host and behind one.
//   - internal/queues: the queues of a program, behind a host and in a worker.
//     Begin with internal/queues/judge.go, then internal/queues/work.go.
//   - internal/timers: the timers of a program. Begin with
//     internal/timers/claim.go (the protocol, as pure state), then
//     internal/timers/loop.go.
//   - internal/edge: what every route of an API gets before its resource.
//   - internal/app: assembles a program from parts and runs it, behind a Functions
//     host or as a worker. Begin with internal/app/part.go, then
//     internal/app/program.go, which has the stages of the stop.
//   - internal/clients: opens what the settings name. internal/doctor: what the
//     app may do, and the command that mends what it may not.
//   - internal/api: the resources, one file for each, and one table of errors.
//   - internal/parts: the jobs as parts of a program. Begin with
//     internal/parts/assemble.go; what the author of a program declared is
//     assembled in internal/parts/own.go.
//
// # Programs
//
//   - handler: the Kennel app, a program on package kennel.
//   - cmd/kennel: the command line.
//   - functions: one folder with a function.json per function.
//   - docs: the documents, and openapi.yaml, which the handler serves.
//   - infra: the infrastructure in Azure.
//
// # Test support
//
//   - internal/memory: the stores in memory, as strict as Azure, with a hook
//     that decides what goes wrong.
//   - internal/storetest: what every store must do, as tests. Both memory and
//     Azure run them, the latter on devstore and on a real Azurite.
//   - internal/apptest: what the tests of the app's packages share.
//   - internal/chance: the random numbers of simulations, from a seed.
//   - internal/faultproxy: an HTTP proxy in front of storage that injects
//     faults.
//   - internal/otlptest: a collector of traces.
//   - internal/policy: the rules of the house as tests.
//     internal/policy/layers_test.go lists which package may import which,
//     internal/policy/words_test.go the words of the product: one for each thing.
//     internal/policy/api_test.go compares what the public packages export with
//     the files in api.
//     internal/policy/testdata/bugs has known bugs, as diffs of the source; a test
//     must find each.
//
// Domain packages are simulated in virtual time (testing/synctest) with seeds,
// against stores that refuse requests, lose replies and apply writes late. The
// protocol of ids is driven through every order of events. The real handler
// process runs on devstore, and is killed.
//
// # Tools, never deployed
//
//   - internal/dev/project: reads, checks, stages and packs a project.
//   - internal/dev/starter: writes new programs, which are copies of
//     examples/starter with a copy of this module.
//   - internal/dev/run: runs a project on this machine, for "kennel up".
//   - internal/dev/localhost: a local Functions host, for machines without
//     func.
//   - internal/dev/devbus: a broker compatible with Service Bus, over the AMQP
//     codec internal/dev/devbus/amqp.
//   - internal/dev/azurite: installs Azurite from npm once, and stops it with
//     this process; finds the storage that runs at the usual ports.
//   - internal/loopback: protects the servers of a developer's machine.
//     internal/faultapi: their faults over HTTP.
//   - internal/dev/bicep: evaluates infra/, for a test that compares it with
//     the code.
//   - internal/dev/gotest: runs go test, again where Go itself crashed.
//   - internal/dev/docs: writes the figures of docs/benchmarks.md, and takes the
//     pictures of the console. internal/dev/browser: runs the console in Chromium.
//   - internal/dev/sdktests: runs the live tests of the Azure SDK against storage
//     in this module and against Azurite.
//   - internal/dev/typecheck: checks the types of every package on other systems.
//   - internal/dev/sbom: writes which modules a binary consists of, and checks
//     their licences.
//   - internal/dev/module: renames the module.
//
// # Six walks
//
//   - One order number: internal/customhandler/forward.go,
//     internal/edge/routes.go, internal/api/sequences.go, ids/set.go, ids/ids.go.
//     If a range must be reserved: ids/fill.go, ids/claim.go, ids/send.go,
//     internal/azure/sequences.go.
//   - One wait at a gate: internal/api/gates.go, gate/wait.go, gate/read.go,
//     gate/watch.go, internal/azure/gates.go.
//   - One deletion of a channel: internal/api/channels.go,
//     channels/accept.go, channels/rounds.go; later
//     internal/parts/channelwork.go, channels/worker.go.
//   - One batch: internal/api/batches.go, work/internal/submit; later
//     internal/parts/batchwork.go, work/internal/process, work/internal/collect.
//   - One status: internal/observe/reader.go, internal/observe/view.go,
//     internal/instances/reader.go; what it reads: internal/instances/self.go,
//     internal/instances/reporter.go.
//   - One queue message on a laptop: internal/dev/localhost/queues.go,
//     internal/customhandler/client.go, internal/customhandler/app.go,
//     internal/parts/channelwork.go. In a worker: internal/worker/listening.go,
//     queue/delivery.go, internal/parts/channelwork.go.
//
// docs/design.md describes the life of a number, of a release, of a deletion,
// of a batch and of a status in numbered steps, and explains the decisions.
package internal
