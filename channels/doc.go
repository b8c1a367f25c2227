// Package channels keeps channels and their blogs in two tables, and deletes
// a channel with all its blogs so that the deletion always finishes.
//
// # Fence and incarnation
//
// Each creation of a channel is an incarnation, and the blogs of one incarnation
// share a partition. The name's row names the incarnation that has the name. The
// blogs' partition has one more row, the fence: a blog is inserted in one
// transaction with a touch of the fence, so that without it nothing gets in. The
// fence is put up before the channel's rows. Before the fence, the incarnation is
// announced by a row, so that [Channels.Sweep] finds creations that never became
// a channel.
//
// # Deletion
//
// [Channels.Delete] and [Channels.Handle] take these steps, in this order:
//
//  1. A message is put that names channel and incarnation. It is delivered
//     after a delay; if the process dies here, Handle does all the rest.
//  2. One transaction deletes the name's row and marks the incarnation's. The
//     name is free, and readers do not find the channel any more.
//  3. The fence is removed. From here on there can only be fewer blogs.
//  4. The first blogs of the partition are read, counted and deleted, by the
//     hundred, until a read finds none. Each read begins at the first row: what
//     is in front is what is left, so no position has to be kept, and none can
//     be wrong.
//  5. The incarnation's row becomes the record of the deletion.
//  6. The message is deleted.
//
// Delete answers after the third step at the earliest, and has done them all
// for a channel that is small. Every step may be repeated, by any number of
// processes at once and at any time later; [Channels.Sweep] finds deletions that
// no process continues.
//
// What holds, whatever is killed, lost, delayed or delivered twice:
//
//   - A deletion that has begun ends, with no row left but its record.
//   - After Delete has returned without an error, no blog of the channel
//     survives and none is added.
//   - The name can be used at once. No late message or request harms the
//     channel that has it then: rows of another incarnation have other keys.
//   - The record counts each blog once. Blogs are counted before they are
//     deleted, up to a mark that moves with the count in one write.
//
// # Faults
//
// Requests are repeated by package table, except for the few writes that are
// unsafe to repeat. After a write with an unknown outcome the row is read back.
// [ErrUnclear] reports that a call may have changed something; after any other
// error it has not. Refused requests ([ErrRefused]) are not repeated. The package
// starts no goroutine that outlives a call, and does not log.
package channels
