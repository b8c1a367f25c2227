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
	"kennel/queue"
)

// lateness returns that batches are late.
func (b *batchWork) lateness() (all []instances.Problem) {
	for _, p := range b.late.All() {
		most := p.Cause.LateMost // late by the longest time
		all = append(all, instances.Problem{
			Code: instances.BatchLate, Since: p.Since, Count: int64(p.Cause.Late),
			What: fmt.Sprintf("Batches that are late: %d. Batch %s has results of %d of %d items, %v after the latency target.",
				p.Cause.Late, most.ID, most.Done+most.Rejected+most.Failed, most.Items, time.Duration(most.LateBy*float64(time.Second)).Round(time.Second)),
		})
	}
	return all
}

// endFailures returns that processors failed when they were told of the end of
// batches.
func (b *batchWork) endFailures() (all []instances.Problem) {
	for _, p := range b.untold.All() {
		most := p.Cause.UntoldMost
		all = append(all, instances.Problem{
			Code: instances.BatchEndFailed, Since: p.Since, Count: int64(p.Cause.Untold),
			What: fmt.Sprintf("Ended batches of which OnEnd of their processor fails: %d. That of processor %s failed %d times for batch %s; the last error: %s.",
				p.Cause.Untold, most.Processor, most.Tries, most.Batch, instances.OneLine(most.Error)),
		})
	}
	return all
}

// Problems returns the dead letters, the late batches, those whose end cannot be
// told, and partition queues that do not match the setting.
func (b *batchWork) Problems() []instances.Problem {
	var letters []instances.Problem
	for _, name := range slices.Sorted(maps.Keys(b.letters)) {
		letters = append(letters, b.letters[name].Problems()...)
	}
	return slices.Concat(observe.Oldest(letters), b.lateness(), b.endFailures(), b.mismatched(), b.stuck(), b.foreign())
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
			items, len(batches), first.Item, first.Batch, first.Attempts, first.MaxAttempts, instances.OneLine(first.Error)),
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

// The subjects that must match KENNEL_PARTITIONS.
const (
	stagedFunctions = "staged"
	partitionQueues = "queues"
)

// match records whether a subject matches. The sentence is "" if it does.
func (b *batchWork) match(subject, sentence string) {
	if sentence == "" {
		b.mismatch.Solved(subject)
	} else {
		b.mismatch.Occurred(subject, sentence, 0)
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
		b.match(stagedFunctions, fmt.Sprintf("KENNEL_PARTITIONS is %d, and the app was packaged with %d.", b.partitions, count))
	}
}

// mismatched returns that the partitions do not match the setting.
func (b *batchWork) mismatched() []instances.Problem {
	all := b.mismatch.All()
	var since time.Time
	var what []string
	for _, subject := range []string{stagedFunctions, partitionQueues} {
		p, ok := all[subject]
		if !ok {
			continue
		}
		if what = append(what, p.Cause); since.IsZero() || p.Since.Before(since) {
			since = p.Since
		}
	}
	if len(what) == 0 {
		return nil
	}
	return []instances.Problem{{Code: instances.PartitionMismatch, What: strings.Join(what, " "), Since: since, Count: 1}}
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
	b.match(partitionQueues, b.surplus(samples))
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
