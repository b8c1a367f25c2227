// Package blob is the blob service of devstore: containers, block and append
// blobs, snapshots, leases, conditions and copies within the store, held in
// memory and logged change by change.
//
// A request is checked first. What it changes is then one [change], which goes
// to the log and is applied under the same lock. Replay of the log applies the
// same changes, so state after a restart cannot differ from state before it.
//
// Content is a list of blocks whose bytes never change. Snapshots, copies and
// committed block lists share them.
package blob
