// Package channels keeps channels and their blogs in two tables, and deletes
// a channel with all its blogs so that the deletion always finishes.
//
// # Fence and incarnation
//
// Each creation of a channel is an incarnation. The blogs of one incarnation
// share a partition. The name row holds the incarnation that has the name now.
// The blogs' partition has one more row, the fence. A blog is inserted in one
// transaction with an update of the fence, so no blog can be added without it.
// The fence is created before the name row. Before the fence, a row announces
// the incarnation, so that [Channels.Sweep] finds creations that never became a
// channel.
//
// # Keys
//
// If a post has a key, a third row of its transaction holds the hash of the
// key, the blog and a hash of the draft. Whichever post with that key arrives
// first adds the blog; the others find the row. The row is kept for a day, even
// if the blog is removed, and is deleted with the channel.
//
// # Deletion
//
// [Channels.Delete] and [Channels.Handle] take these steps, in this order:
//
//  1. Put a message that names the channel and the incarnation. It is
//     delivered after a delay. If the process dies here, Handle does the rest.
//  2. Delete the name row and mark the incarnation's row, in one transaction.
//     The name is free, and readers do not find the channel any more.
//  3. Delete the fence. No blog can be added any more.
//  4. Read the first rows of the partition, count the blogs among them and
//     delete all of them in transactions of up to 100, until a read finds none.
//     Each read begins at the first row, because deleted rows are gone. So no
//     position is stored that could be wrong.
//  5. Turn the incarnation's row into the record of the deletion.
//  6. Delete the message.
//
// Delete returns after the third step at the earliest. For a small channel it
// does all steps. Every step may be repeated, by any number of processes at
// once and at any time later. [Channels.Sweep] finds deletions that no process
// continues.
//
// What holds, whatever is killed, lost, delayed or delivered twice:
//
//   - Every deletion that began finishes, and only its record is left.
//   - After Delete returned without an error, no blog of the channel survives
//     and none is added.
//   - The name can be used again at once. No late message or request changes
//     the next channel of that name, because rows of different incarnations
//     have different keys.
//   - The record counts each blog once. Blogs are counted before they are
//     deleted. One write updates the count together with the key of the last
//     counted blog.
//
// # Faults
//
// Package table repeats requests, except for the few writes that are unsafe to
// repeat. After a write with an unknown outcome this package reads the row
// back. [ErrUnclear] reports that a call may have changed something; after any
// other error it changed nothing. Refused requests ([ErrRefused]) are not
// repeated. The package starts no goroutine that outlives a call, and does not
// log.
package channels
