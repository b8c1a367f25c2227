// Package bill adds up what the app costs while it runs: the operations that
// its processes have counted, and those of the Functions host for them.
//
// Each process keeps a row for each day in a table ([Ledger]). The row has the
// usage of the process on that day, and each write replaces it by newer sums,
// so a repeated write is harmless. Rows of processes that ended are folded into
// one row of their day, so that a month has about as many rows as days and
// processes that run, and is read with one request.
//
// # What a kill loses
//
// A process writes its row every five minutes, and earlier if it has counted a
// hundred operations more, up to twice a minute. A clean stop writes the rest.
// A process that is killed loses its counts since the last write. Nothing
// counts twice: a row and its fold change in one transaction. If a process
// could not write for an hour and its row was folded, the last write that it
// tried counts as applied.
//
// # Days
//
// A day and a month are those of UTC, by the clock of the process. Counts
// between midnight and the first write after it belong to the day before; it
// takes ten seconds if storage responds.
package bill
