// Package scale turns samples of queues into advice: how many instances a worker
// needs, and how many hands each instance should use for each queue. A hand
// works on one message at a time.
//
// [Advise] is a pure function of the [Rules], of a [Reading] and of the [State]
// that it returned the last time. It knows no clock but that of the reading and
// draws no random numbers, so the same input always returns the same advice. The
// caller samples, stores the State and applies the advice. A lost State or a
// missed reading costs a few minutes of precision and nothing else.
//
// These hold for all rules:
//
//   - The approximate count of a queue, which lags behind and includes messages
//     that are leased, decides nothing alone. To add instances, full peeks, the
//     age of the oldest message or busy hands must confirm it; to remove some, no
//     peek is full and hands are idle. Only a row of the rules for a depth counts
//     as it is.
//   - Instances are added at once, by a bounded step. They are removed when fewer
//     were enough for the whole cool-down. No change is reversed within the
//     cool-down, and there are at most six changes in an hour.
//   - Delayed messages and those of a held queue are not late. A queue that
//     completes nothing while others do is stuck: more instances would not help
//     it, so it does not count.
package scale
