package parts

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"kennel/internal/instances"
	"kennel/internal/names"
	"kennel/internal/observe"
	"kennel/internal/worker"
	"kennel/queue"
	"kennel/work"
)

// lateLasts is how long after a sweep its late batches are a problem of this
// process. The next sweep may be another process's.
const lateLasts = 2 * worker.SweepEvery

// lateness is what the last sweep of this process found.
type lateness struct {
	mu    sync.Mutex
	at    time.Time // of the sweep
	since time.Time // when a sweep first found late batches
	late  int
	most  work.Batch // late by the longest time
}

// swept takes what a sweep found.
func (l *lateness) swept(s work.Swept) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.at, l.late, l.most = time.Now(), s.Late, s.LateMost
	switch {
	case s.Late == 0:
		l.since = time.Time{}
	case l.since.IsZero():
		l.since = l.at
	}
}

// Problems returns that batches are late.
func (l *lateness) Problems() []instances.Problem {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.late == 0 || time.Since(l.at) > lateLasts {
		return nil
	}
	return []instances.Problem{{
		Code: instances.BatchLate, Since: l.since, Count: int64(l.late),
		What: fmt.Sprintf("Batches that are late: %d. Batch %s has results of %d of %d items, %v after the latency target.",
			l.late, l.most.ID, l.most.Done+l.most.Rejected+l.most.Failed, l.most.Items, time.Duration(l.most.LateBy*float64(time.Second)).Round(time.Second)),
	}}
}

// Problems returns the dead letters, the late batches, and partition queues
// that do not match the setting.
func (b *batchWork) Problems() []instances.Problem {
	var letters []instances.Problem
	for _, name := range slices.Sorted(maps.Keys(b.letters)) {
		letters = append(letters, b.letters[name].Problems()...)
	}
	return slices.Concat(observe.Oldest(letters), b.late.Problems(), b.mismatch.Problems(), b.stuck(), b.foreign())
}

// inUse returns the batches, or nil if this process has not used them yet or
// cannot.
func (b *batchWork) inUse() *openBatches {
	select {
	case <-b.opened:
	default:
		return nil
	}
	opened, err := b.open()
	if err != nil {
		return nil
	}
	return opened
}

// stuck returns that items failed repeatedly where this process tried them.
func (b *batchWork) stuck() []instances.Problem {
	opened := b.inUse()
	if opened == nil {
		return nil
	}
	batches := opened.batches.Stuck()
	if len(batches) == 0 {
		return nil
	}
	first := batches[0]
	since, items := first.Since, 0
	for _, s := range batches {
		items += s.Items
		if s.Since.Before(since) {
			since = s.Since
		}
	}
	return []instances.Problem{{
		Code: instances.BatchStuck, Since: since, Count: int64(items),
		What: fmt.Sprintf("Items of batches that failed more than once and are tried again: %d, in batches: %d. Item %.80s of batch %s had %d of %d attempts; the last error: %s.",
			items, len(batches), first.Item, first.Batch, first.Attempts, work.MaxTries, first.Error),
	}}
}

// foreign returns that this process puts back what only others can process.
func (b *batchWork) foreign() []instances.Problem {
	opened := b.inUse()
	if opened == nil {
		return nil
	}
	f := opened.batches.Foreign()
	if f.Messages == 0 {
		return nil
	}
	return []instances.Problem{{
		Code: instances.WorkForeign, Since: f.Since, Count: f.Messages,
		What: "This process puts work of batches back for another one: " + f.Reason + ".",
	}}
}

// mismatch is what this process knows of partitions that do not match
// KENNEL_PARTITIONS.
type mismatch struct {
	mu     sync.Mutex
	since  time.Time // of the first reason; zero without one
	staged string    // a sentence about the staged functions; "" if they match
	queues string    // a sentence about the queues; "" if they match
}

func (m *mismatch) set(text *string, what string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	*text = what
	switch {
	case m.staged+m.queues == "":
		m.since = time.Time{}
	case m.since.IsZero():
		m.since = time.Now()
	}
}

// checkStaged compares the functions of partition queues in the folder of the
// app, which the Functions host has, with the setting. In another folder there
// is nothing to compare, as in that of the source, where a worker with a console
// may run.
func (b *batchWork) checkStaged(app fs.FS) {
	staged, err := fs.Glob(app, "*/function.json")
	if _, missing := fs.Stat(app, "host.json"); err != nil || missing != nil || len(staged) == 0 {
		return
	}
	count := 0
	for _, name := range staged {
		if strings.HasPrefix(name, "ProcessWork") && name != "ProcessWorkExpress/function.json" {
			count++
		}
	}
	if count != b.partitions {
		b.mismatch.set(&b.mismatch.staged, fmt.Sprintf("KENNEL_PARTITIONS is %d, and the app was packaged with %d.", b.partitions, count))
	}
}

func (m *mismatch) Problems() []instances.Problem {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.since.IsZero() {
		return nil
	}
	return []instances.Problem{{Code: instances.PartitionMismatch, What: strings.TrimSpace(m.staged + " " + m.queues), Since: m.since, Count: 1}}
}

// Sample samples the queues of batches: with one request to list them, and one
// or two for each that exists. While a queue of a partition that the app does
// not have has messages, that is a problem.
func (b *batchWork) Sample(ctx context.Context) (map[string]instances.QueueSample, error) {
	opened, err := b.open()
	if err != nil {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, observe.SampleTimeout)
	defer cancel()
	found, err := opened.queues.List(ctx, names.PartitionPrefix)
	if err != nil {
		return nil, fmt.Errorf("list the queues of batches: %w", err)
	}
	var (
		mu      sync.Mutex
		samples = make(map[string]instances.QueueSample)
		failed  error
		running sync.WaitGroup
	)
	for name, letters := range b.letters {
		if !slices.Contains(found, name) {
			continue
		}
		running.Go(func() {
			sample, err := observe.SampleCheaply(ctx, opened.queues, letters, slices.Contains(found, name+queue.PoisonSuffix))
			mu.Lock()
			defer mu.Unlock()
			if samples[name] = sample; err != nil {
				failed = fmt.Errorf("sample queue %s: %w", name, err)
			}
		})
	}
	running.Wait()
	if failed != nil {
		return nil, failed
	}
	b.mismatch.set(&b.mismatch.queues, b.surplus(samples))
	b.markHeld(ctx, samples)
	return samples, nil
}

// Wake signals work in a queue of batches.
func (b *batchWork) Wake(queue string) {
	if opened, err := b.open(); err == nil && b.letters[queue] != nil {
		opened.signals.Announce(queue)
	}
}

// markHeld marks the queues whose messages wait at the closed work gate, or at
// one that cannot be read. Without such messages it makes no request.
func (b *batchWork) markHeld(ctx context.Context, samples map[string]instances.QueueSample) {
	waits := func(name string) bool { return samples[name].Ready > 0 }
	names := slices.DeleteFunc(slices.Collect(maps.Keys(samples)), func(name string) bool { return !waits(name) })
	if b.gate == nil || len(names) == 0 {
		return
	}
	isOpen := b.gate.isOpen(ctx)
	for _, name := range names {
		sample := samples[name]
		sample.Held = !isOpen
		samples[name] = sample
	}
}

// surplus returns a sentence about queues with messages that no setting of the
// partitions explains.
func (b *batchWork) surplus(samples map[string]instances.QueueSample) string {
	var names []string
	for name, sample := range samples {
		if !slices.Contains(WorkQueues(b.partitions), name) && sample.Ready+sample.InFlight > 0 {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	return fmt.Sprintf("KENNEL_PARTITIONS is %d, and these queues have messages: %s.", b.partitions, strings.Join(names, ", "))
}
