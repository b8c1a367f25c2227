// Package check checks how many instances and hands the queues of the app need,
// and keeps the advice.
//
// The life of a check:
//
//  1. A process of the app calls Run, once a minute. Run reads the row of the
//     check, and does nothing if another process wrote it lately. Otherwise it
//     writes the row on condition that it has not changed, so only one process
//     goes on.
//  2. It reads the facts: the depths of all queues, and the reports of the
//     processes. It signals work in each queue whose messages are ready, in
//     case a signal was lost.
//  3. It reads the rules (rules.go) and requests advice of package scale.
//  4. It stores the advice, the state of package scale and a row of the history,
//     in one transaction.
//  5. If a target is set, it compares the advice with the target, and changes the
//     target if it may (apply.go).
//
// A check that ends in between costs its advice and nothing else: the next one
// begins with the state before it. Each write that depends on an earlier read
// has that row's version as its condition.
//
// All times are the store's, so the clocks of the processes do not matter.
package check
