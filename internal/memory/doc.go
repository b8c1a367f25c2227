// Package memory implements the stores in memory, with the same rules as Azure.
//
// The stores enforce the rules that code easily violates: a version is never
// reused, names and sizes are limited, a queue delivers in any order and more
// than once, and a request takes effect even if its caller has given up. An
// [Options.Fault] injects faults per request: delays, errors, lost requests,
// lost replies, and requests that take effect long after their caller received
// an error.
//
// All waiting uses package time and channels, so that hours of faults take no
// time in a testing/synctest bubble. Without a Fault, a request costs one lock
// and starts no goroutine.
//
// The stores are not durable. They serve tests and simulations.
package memory
