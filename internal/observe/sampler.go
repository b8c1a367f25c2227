package observe

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"time"

	"kennel/internal/instances"
	"kennel/queue"
)

// A Pace is when something is sampled.
type Pace struct {
	Every time.Duration // by one process at most; 0: whenever no sample counts
	Lasts time.Duration // for which a sample counts
}

// The paces of all samples. Each sample costs requests to storage, and nothing is
// sampled that no caller reads. Besides these, the check of scaling samples all
// queues once a minute, in one process of the app. They are never changed.
var (
	// ForStatus is of the queues. The process that answers a status samples them
	// if no process has a sample that counts, and its row shows the result to the
	// others within seconds. So queues are sampled while a status is read, by one
	// process at a time, and not at all otherwise.
	ForStatus = Pace{Lasts: 30 * time.Second}

	// withLetters is ForStatus while this process knows of dead letters, so that
	// the status is ok soon after they are gone.
	withLetters = Pace{Lasts: 2 * time.Second}

	// ForScrape is of the queues, for metrics. A process that scrapes often, or
	// during an outage, samples once a minute. A depth of last week would look
	// like that of now, so it is left out.
	ForScrape = Pace{Every: time.Minute, Lasts: 2 * time.Minute}

	// Recounts is of the dead letters of a queue, in each process that knows of
	// any, so that it notices that another process removed them. The count
	// holds until the next one.
	Recounts = Pace{Every: 30 * time.Second}

	// OfBacklog is of the backlog, in each process that moves it. A sample lasts
	// while a few of the next ones fail.
	OfBacklog = Pace{Every: 30 * time.Second, Lasts: 3 * time.Minute}

	// OfEmptyBacklog is OfBacklog while the backlog is empty: each sample costs a
	// request for each of its queues.
	OfEmptyBacklog = Pace{Every: 5 * time.Minute, Lasts: 10 * time.Minute}

	// OfBill is of the bill: a status may be read often, and the other processes
	// report to the ledger every five minutes.
	OfBill = Pace{Lasts: time.Minute}
)

// How long the requests may take, all together.
const (
	SampleTimeout  = 2 * time.Second  // of a sample of the queues
	BacklogTimeout = 10 * time.Second // of a sample of the backlog, which has many queues
	ProbeTimeout   = 2 * time.Second  // of a status, one to each service, all at once
)

// samplable is a client for queues.
type samplable interface {
	queue.Counter
	queue.Peeker
}

// SampleQueue returns the depth of a queue and of its dead letters, with three
// requests at once. Storage does not return which invisible messages are leased
// and which are delayed: all count as InFlight. It returns 32 visible messages
// at most: if there are more, all messages count as Ready.
func SampleQueue(ctx context.Context, queues samplable, dead *LetterCount) (instances.QueueSample, error) {
	name := dead.Queue
	ctx, cancel := context.WithTimeout(ctx, SampleTimeout)
	defer cancel()
	began := time.Now()
	var (
		all, poison     int64
		front           []queue.Message
		err1, err2, err error
		requests        sync.WaitGroup
	)
	requests.Go(func() { all, err1 = queues.Count(ctx, name) })
	requests.Go(func() { front, err2 = queues.Peek(ctx, name, queue.MaxReceive) })
	requests.Go(func() { poison, err = dead.CountNow(ctx, queues) })
	requests.Wait()
	if err = errors.Join(err1, err2, err); err != nil {
		return instances.QueueSample{}, fmt.Errorf("sample queue %s: %w", name, err)
	}
	return depth(began, all, front, poison), nil
}

// depth returns the sample from what the requests returned that began at a
// time.
func depth(began time.Time, all int64, front []queue.Message, poison int64) instances.QueueSample {
	sample := instances.QueueSample{At: began.UTC(), Ready: int64(len(front)), Poison: poison}
	if len(front) == queue.MaxReceive {
		sample.Ready = max(sample.Ready, all)
	}
	sample.InFlight = max(0, all-sample.Ready)
	for _, m := range front {
		sample.OldestSeconds = max(sample.OldestSeconds, began.Sub(m.Inserted).Seconds())
	}
	return sample
}

// SampleCheaply is [SampleQueue] with one request for a queue that is empty and
// has no dead letters.
func SampleCheaply(ctx context.Context, queues samplable, dead *LetterCount, hasLetters bool) (sample instances.QueueSample, err error) {
	began := time.Now()
	all, err := queues.Count(ctx, dead.Queue)
	var front []queue.Message
	if err == nil && all > 0 {
		front, err = queues.Peek(ctx, dead.Queue, queue.MaxReceive)
	}
	var poison int64
	if err == nil && hasLetters {
		poison, err = dead.CountNow(ctx, queues)
	}
	return depth(began, all, front, poison), err
}

// Recount counts the letters of this process's queue while any are known, until
// ctx ends.
func (d *LetterCount) Recount(ctx context.Context, queues queue.Counter) {
	Every(ctx, Recounts.Every, func() {
		if d.Known() {
			d.CountNow(ctx, queues) // an error is a problem of storage
		}
	})
}

// CountNow counts the letters with one request.
func (d *LetterCount) CountNow(ctx context.Context, queues queue.Counter) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, SampleTimeout)
	defer cancel()
	began := time.Now()
	count, err := queues.Count(ctx, d.Queue+queue.PoisonSuffix)
	if err == nil {
		d.counted(began, count)
	}
	return count, err
}

// SampleAll samples the queues of all sources at once, and publishes what it
// could sample.
func (m *Members) SampleAll(ctx context.Context) (map[string]instances.QueueSample, error) {
	var (
		mu       sync.Mutex
		all      = make(map[string]instances.QueueSample) // guarded by mu
		failed   error                                    // guarded by mu
		sampling sync.WaitGroup
	)
	for s := range m.sampled() {
		sampling.Go(func() {
			samples, err := s.Sample(ctx)
			mu.Lock()
			defer mu.Unlock()
			failed = errors.Join(failed, err)
			if err == nil {
				m.Publish(samples)
				maps.Copy(all, samples)
			}
		})
	}
	sampling.Wait()
	return all, failed
}

// sampled returns the sources with queues.
func (m *Members) sampled() iter.Seq[sampled] {
	return func(yield func(sampled) bool) {
		for _, s := range m.sources {
			if queues, ok := s.(sampled); ok && !yield(queues) {
				return
			}
		}
	}
}

// Wake signals waiting work in a queue.
func (m *Members) Wake(queue string) {
	for s := range m.sampled() {
		s.Wake(queue)
	}
}

// LetterCount returns what this process knows of the dead letters of a queue,
// nil for nothing.
func (m *Members) LetterCount(queue string) *LetterCount {
	for s := range m.sampled() {
		if known := s.LetterCounts()[queue]; known != nil {
			return known
		}
	}
	return nil
}

// probeBySampling samples the queues, unless a recent sample is known or this
// process is sampling already.
func (m *Members) probeBySampling(ctx context.Context, v *view, probe Probe) error {
	known := view{directory: v.directory, others: m.without(slices.Clone(v.directory.Live))}
	known.own.At = time.Now()
	instances.QueueSection.Add(&known.own, m.Samples())
	pace := ForStatus
	if slices.ContainsFunc(m.Report().Problems, func(p instances.Problem) bool { return p.Code == instances.DeadLetters }) {
		pace = withLetters
	}
	if _, ages := known.samples(); newest(ages) < pace.Lasts || !m.sampling.TryLock() {
		return probe(ctx)
	}
	defer m.sampling.Unlock()
	sampled := false
	for queues := range m.sampled() {
		samples, err := queues.Sample(ctx)
		m.Publish(samples)
		if err != nil {
			return err
		}
		sampled = true
	}
	if !sampled {
		return probe(ctx)
	}
	return nil
}

// sampleForScrape samples all queues, unless this process did it lately: a
// scrape during an outage then waits once a minute for the timeout of samples,
// and no scrape waits for another one. What fails is a problem of storage.
func (m *Members) sampleForScrape(ctx context.Context) {
	m.mu.Lock()
	due := time.Since(m.scrapedAt) >= ForScrape.Every
	if due {
		m.scrapedAt = time.Now()
	}
	m.mu.Unlock()
	if !due {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, SampleTimeout)
	defer cancel()
	_, _ = m.SampleAll(ctx)
}

// Every calls do at intervals until ctx ends.
func Every(ctx context.Context, interval time.Duration, do func()) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			do()
		case <-ctx.Done():
			return
		}
	}
}
