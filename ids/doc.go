// Package ids issues order numbers that never repeat, on any number of nodes,
// from one small blob per sequence.
//
// The blob holds the next free number. A node reserves a range: it moves that
// number forward with compare-and-swap. Only then does it issue the numbers of
// the range, from memory, without a lock or a request. It reserves the next
// range before the last one is used up, so that callers do not wait for
// storage.
//
// What holds, whatever is killed, delayed or answered wrongly:
//
//   - No number is issued twice, on any node. A number is issued only after a
//     confirmed write reserved it. A write whose reply was lost is recognized
//     by the writer's name in the blob's metadata; otherwise its numbers are
//     given up.
//   - Numbers may be skipped. A kill loses at most the two ranges that the node
//     has available. Set.Run returns what is unused after a minute without
//     callers, and Close what is left, as far as no other node holds numbers
//     above.
//   - The sequence stops with an error if its blob does not hold a number, was
//     deleted, or was restored from a copy that lacks what this node has
//     reserved, although other nodes have moved it on since. The package never
//     guesses a number.
//
// The numbers that one node issues increase, except for a lease that is larger
// than the rest of the current range. Numbers of different nodes have no order.
//
// The package does not log, and retries only its own reservations.
package ids
