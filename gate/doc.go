// Package gate holds any number of waiting nodes back and lets them all go at
// once: is it released yet?
//
// A gate is one small document in a store. It says whether the gate is
// released, counts the releases (that count is its generation), and remembers
// who changed it last, when and why. A gate without a document is shut and has
// never been released. Documents change by compare-and-swap only.
//
// What holds, whatever is killed, delayed or answered wrongly:
//
//   - Nobody stays behind. A release is heard by signal, and seen by polling
//     where the signal was lost: rarely while signals are heard, often while
//     they are not. Signals count as heard only once the store has been read
//     after they began to be.
//   - There is no false start. A store that refuses, fails, answers nothing or
//     holds nonsense opens no gate, nor does a signal that goes away or says
//     nothing new. The gate stays shut, and says why.
//   - A waiter who has seen generation g passes when a release after g has
//     happened, even if the gate has been shut again since.
//   - Releasing what is released changes nothing and says so. Of two
//     administrators at once, one releases each generation. A write whose
//     reply was lost is recognised by the operation's name in the history.
//
// A signal is sent only after the store has confirmed the release, and names
// its generation, so a waiter may go by it without reading: a thousand nodes
// that all read at that moment would keep a blob busy for two seconds. They
// read afterwards, each in its turn, and the store has the last word. A signal
// can hurry what has happened; nothing can make it happen but the store.
//
// Gates watches: one watcher per gate, as long as somebody waits there.
package gate
