// Package channels keeps channels and their blogs in two tables, and deletes
// a channel with all its blogs so that the deletion always finishes.
//
// # Fence and incarnation
//
// Each creation of a channel is an incarnation of its own, and the blogs of
// one incarnation share a partition. The name's row says which incarnation a
// name stands for. In the blogs' partition there is a row more, the fence: a
// blog is inserted in one transaction with a touch of it, so that without the
// fence nothing gets in. It is put up before the channel's rows, and before it
// the incarnation is announced by a row of its own, so that [Channels.Sweep]
// finds what never became a channel.
//
// # Deletion
//
// [Channels.Delete] and [Channels.Handle] take these steps, in this order:
//
//  1. A message is put that names channel and incarnation. Nobody sees it for
//     a while; if everything else dies here, it does it all.
//  2. One transaction deletes the name's row and marks the incarnation's. The
//     name is free, and the channel is gone for its readers.
//  3. The fence is removed. From here on there can only be fewer blogs.
//  4. The first blogs of the partition are read, counted and deleted, by the
//     hundred, over and over, until a read finds none. It begins at the first
//     row each time: what is in front is what is left, so no place to go on
//     from has to be kept, and none can be wrong.
//  5. The incarnation's row becomes the record of the deletion.
//  6. The message goes.
//
// Delete answers after the third step at the earliest, and has done them all
// for a channel that is small. Every step may be repeated, by any number of
// processes at once and at any time later; [Channels.Sweep] finds what nobody
// repeats.
//
// What holds, whatever is killed, lost, delayed or delivered twice:
//
//   - A deletion once begun ends, with no row left but its record.
//   - After Delete has returned without an error, no blog of the channel
//     survives and none is added.
//   - The name can be used at once. No late message or request harms the
//     channel that has it then: rows of another incarnation have other keys.
//   - The record counts each blog once. Blogs are counted before they are
//     deleted, up to a mark that moves with the count in one write.
//
// # Faults
//
// The package repeats requests that fail in passing, but for the few writes
// that could spoil something if they arrived twice, and reads back what became
// of a write whose answer got lost; the stores do not retry. What storage has
// refused ([ErrRefused]) it does not repeat. It starts nothing and does not log.
package channels
