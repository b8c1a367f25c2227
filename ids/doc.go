// Package ids hands out order numbers that never repeat, to any number of
// nodes, from one small blob per sequence.
//
// The blob holds the next free number. A node reserves a range by moving that
// number forward with compare-and-swap, and only then issues from the range,
// out of memory: without a lock, without a request. The next range is reserved
// before the last is used up, so that callers do not wait for storage.
//
// What holds, whatever is killed, delayed or answered wrongly:
//
//   - No number is issued twice, by any node, ever. Nothing is issued that a
//     confirmed write has not reserved: a write whose reply was lost is
//     recognised by the writer's name beside the blob, or its numbers are
//     given up.
//   - Numbers may be skipped. A kill loses at most the two ranges in hand;
//     Close gives the unused tail back when nobody has reserved since.
//   - A blob that does not read as a number, has gone back or has vanished
//     stops the sequence with an error. It is never guessed at.
//
// Numbers of one node grow, but for leases larger than what is left in hand;
// between nodes there is no order.
//
// The package does not log, and retries only its own reservations.
package ids
