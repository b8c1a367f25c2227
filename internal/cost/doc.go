// Package cost computes what the app costs: the operations that a load causes
// each month, in three designs side by side, and their prices.
//
// It has three parts, which know nothing of each other:
//
//   - The jobs (numbers.go, deletions.go, batches.go, queues.go, site.go): how
//     many requests each job makes, worked out from its code. Tests of these
//     jobs count their requests and compare.
//   - The designs (naive.go, kennel.go): which of these requests a [Profile]
//     causes in a month: in the design that polls with many threads, in the
//     optimised one of the same paper, and in this app.
//   - The prices (prices.go, classes.go): a table of classes, and the class of
//     each operation as the counter of requests names it. They also price the
//     counts of a process.
//
// A line that is Modelled is an estimate: of what other programs do on behalf of
// the app, such as the Functions host, or of how the load is spread over time.
//
// The package computes only: it reads no file, clock or environment.
package cost
