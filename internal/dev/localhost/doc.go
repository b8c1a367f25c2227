// Package localhost is a small Azure Functions host for machines without `func`.
// It runs a function app with a custom handler: it reads host.json and the
// function.json files, starts the handler, and serves HTTP, storage queue and
// timer triggers.
//
// It does to the handler what the real host does, including what hurts: payloads
// encoded twice and metadata shadowed (package customhandler), messages retried
// at once and moved to a poison queue, a timeout or a stop that is SIGKILL
// without notice, exit code 0 never restarted, the third crash stopping the whole
// host, function.json files invisible below a second folder. Where the real host
// is silent and this costs people days, it reports loudly what happens. An empty
// answer fails at once instead of hanging, unless Options.StrictHang is set.
//
// It is for development: one instance, timers by UTC, no retry policies, no
// change detection, no proxying mode. An app that needs other binding types, or
// more of ASP.NET's route templates than text and parameters, is refused.
package localhost
