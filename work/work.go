// Package work processes batches: up to hundreds of thousands of items that
// are submitted together, processed by many workers, and reduced to one report.
//
// Every accepted item ends in exactly one result, and in the report, whatever is
// killed, delivered twice, delayed or reordered. An item may be processed more
// than once; only one of its results counts.
//
// The life of a batch, and the packages below internal/ that live it:
//
//  1. Submit reads the body once. It validates each item (items) and packs the
//     items into parcels, which it stages in blobs. After the last item was valid
//     it records the batch, and puts its parcels into the partition queues
//     (submit).
//  2. Process runs the items of a parcel through a [Processor]. It inserts a row
//     with their results, which exists once for each parcel and try (process).
//  3. Process counts the results in the row of the batch, which has a bit for each
//     parcel and try, so no result counts twice (collect). Then items that have to
//     be repeated become a smaller parcel, which is queued with a delay (process).
//  4. The results are reduced to a report when every item has one. Then the
//     processor is told of the end, if it is an [Ender], and what was staged is
//     removed (collect).
//
// Sweep completes what a crash interrupted, restarts batches without progress,
// and removes batches when their retention has ended (sweep).
//
// All of them are over base, which puts parcels into queues, store, which keeps
// rows and blobs, format, which says how messages (message.go) and rows are
// encoded, and model, the terms, which says when a message becomes a dead letter
// (deadletter.go). The built-in processors are in package processors.
package work

import (
	"kennel/work/internal/base"
	"kennel/work/internal/model"
	"kennel/work/internal/process"
	"kennel/work/internal/report"
	"kennel/work/internal/sweep"
)

// What callers and processors see of batches. The types are documented in
// package model, which the packages below this one share.
type (
	Batch    = model.Batch
	State    = model.State
	Retrying = model.Retrying

	Item    = model.Item
	Outcome = model.Outcome
	Result  = model.Result

	Processor = model.Processor
	Selective = model.Selective
	Sized     = model.Sized
	Bounded   = model.Bounded
	Later     = model.Later
	Ender     = model.Ender
	Report    = model.Report

	Submission = model.Submission
	ItemErrors = model.ItemErrors
	ItemError  = model.ItemError

	Message = model.Message
	Put     = model.Put
	Depths  = model.Depths
	Gate    = model.Gate
)

// The states of a batch. Held is reported instead of Running while the gate of
// the work queues is closed; it is not stored.
const (
	Submitting = model.Submitting // not all parcels are queued
	Running    = model.Running
	Held       = model.Held
	Gathering  = model.Gathering // every item has a result; the report is made
	Done       = model.Done
	Failed     = model.Failed // the batch cannot be finished; see its Error
)

// The outcomes of an item.
const (
	ItemDone     = model.ItemDone
	ItemRejected = model.ItemRejected // the item itself is unusable
	ItemFailed   = model.ItemFailed   // its last try failed
)

// Limits of batches.
const (
	MaxItem       = model.MaxItem       // bytes of one item
	MaxItemID     = model.MaxItemID     // bytes
	MaxName       = model.MaxName       // bytes of a batch's name
	MaxResult     = model.MaxResult     // bytes of one result
	MaxItemErrors = model.MaxItemErrors // invalid items that are reported
	MaxTries      = model.MaxTries      // attempts of an item, unless its processor is Bounded
	ParcelTries   = model.ParcelTries   // of a parcel
	ParcelItems   = model.ParcelItems   // items of one parcel, unless it is large
	LargeParcel   = model.LargeParcel   // items of a large parcel; see [Sized]
	LargeFrom     = model.LargeFrom     // items of a batch before the first large parcel
	ParcelBytes   = model.ParcelBytes   // of one parcel, compressed; a single item may be longer
)

// The errors of the package. ErrUnclear of package table reports that a write
// may have been made.
var (
	ErrNotFound     = model.ErrNotFound
	ErrRunning      = model.ErrRunning
	ErrFailed       = model.ErrFailed
	ErrProcessor    = model.ErrProcessor
	ErrName         = model.ErrName
	ErrTooLarge     = model.ErrTooLarge
	ErrKeyReused    = model.ErrKeyReused
	ErrRejected     = model.ErrRejected // of an item, by its Processor
	ErrContinuation = model.ErrContinuation
	ErrCorrupt      = model.ErrCorrupt

	ErrMessage = model.ErrMessage // the message can never be processed
	ErrHeld    = model.ErrHeld    // the message was put back
)

// NewReport returns a report for processors without one of their own. As JSON it
// is {"batch","items","done","rejected"}, and "failed" if items failed: how many
// items there are, how many are done, and the id and error of each of the others.
// As CSV it has a row id,outcome,error for each item that is not done. Both are
// in the order of the results.
func NewReport(batch string) Report { return report.New(batch) }

// What [Batches] are made of, and what they report.
type (
	Stores  = base.Stores
	Options = base.Options
	Swept   = sweep.Swept
	Stuck   = process.Stuck
	Foreign = process.Foreign
)
