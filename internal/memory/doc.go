// Package memory keeps what Azure would keep, in memory and as strictly.
//
// The stores obey the rules of the cloud that code is tempted to forget:
// versions never come back, names and sizes have limits, a queue delivers in
// any order and more than once, and a request whose caller has gone away is
// carried out all the same. An [Options.Fate] decides request by request what
// goes wrong on the way: delays, refusals, lost requests, lost replies and
// requests that arrive long after their caller was told that they failed.
//
// All waiting is done with package time and channels, so inside a
// testing/synctest bubble hours of faults pass in no time. Without a Fate a
// request costs one lock and starts nothing.
//
// Nothing here is durable: the stores serve tests and simulations.
package memory
