package main

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"sync"
	"time"

	"kennel/internal/instances"
	"kennel/internal/metrics"
)

// What scrapes cause. The depths of queues are sampled for a scrape if no
// process did it lately, at most every sampleEvery in this process.
const (
	sampleEvery = time.Minute

	// depthLasts is how long a sample is reported. A depth of last week would
	// look like that of now.
	depthLasts = 2 * time.Minute
)

// sampler samples the queues for scrapes.
type sampler struct {
	jobs    []job
	members *members

	mu      sync.Mutex
	triedAt time.Time // guarded by mu
}

// sample samples all queues, unless this process did it lately: a scrape during
// an outage then waits once a minute for the timeout of samples, and no scrape
// waits for another one. What fails is a problem of storage.
func (s *sampler) sample(ctx context.Context) {
	s.mu.Lock()
	due := time.Since(s.triedAt) >= sampleEvery
	if due {
		s.triedAt = time.Now()
	}
	s.mu.Unlock()
	if !due {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, sampleTimeout)
	defer cancel()
	_, _ = sampleAll(ctx, s.jobs, s.members)
}

// sampleAll samples the queues of all jobs at once, and publishes what it could
// sample.
func sampleAll(ctx context.Context, jobs []job, m *members) (map[string]instances.QueueSample, error) {
	var (
		mu       sync.Mutex
		all      = make(map[string]instances.QueueSample) // guarded by mu
		failed   error                                    // guarded by mu
		sampling sync.WaitGroup
	)
	for _, j := range jobs {
		if j.sample == nil {
			continue
		}
		sampling.Go(func() {
			samples, err := j.sample(ctx)
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

// depths returns the depths of queues in the recent samples of a view.
func (v *view) depths() map[string]instances.QueueSample {
	hands := v.hands()
	recent := make(map[string]instances.QueueSample)
	samples, ages := v.samples()
	for queue, s := range samples {
		if ages[queue] < depthLasts {
			recent[queue] = corrected(s, hands[queue])
		}
	}
	return recent
}

// appMetrics serve GET /api/metrics.
type appMetrics struct {
	sampler
	bill *billing // nil: the metrics have none
}

func newMetrics(jobs []job, m *members, b *billing) http.Handler {
	served := &appMetrics{sampler{jobs: jobs, members: m}, b}
	return serve([]failure{storageUnavailable}, func(r *http.Request) (reply, error) { return limited(r, served.serve) })
}

// serve answers with the metrics of all live processes of the app.
//
// Of this process, too, it returns what is stored and not what is new. Otherwise
// the counts of a process would go down whenever another process answers the
// next scrape, which looks like a restart: all that it ever counted would seem
// to have happened since.
func (m *appMetrics) serve(r *http.Request) (reply, error) {
	v := view{own: m.members.Report()}
	stored := []instances.Report{v.own}
	if m.members.rows != nil {
		var err error
		if v.directory, err = m.members.readTable(r.Context(), instances.AllParts()...); err != nil {
			return reply{}, err
		}
		stored = nil
		for _, i := range v.directory.Live {
			stored = append(stored, i.Report)
		}
		v.others = m.members.without(v.directory.Live)
	}
	if _, ages := v.samples(); newest(ages) >= sampleEvery {
		m.sample(r.Context())
		v.own = m.members.Report()
	}
	text := metrics.Set{Reports: stored, Queues: v.depths(), Bill: m.bill.present(r.Context()), Backlog: newestBacklog(v.reports()), ByProcess: true}.Text()
	return reply{status: http.StatusOK, body: content{kind: []string{metrics.ContentType}, bytes: text}}, nil
}

// workerMetrics serve GET /metrics of a worker.
type workerMetrics struct{ sampler }

// ServeHTTP answers with the metrics of this process.
func (m *workerMetrics) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.sample(r.Context())
	v := view{own: m.members.Report()}
	w.Header().Set("Content-Type", metrics.ContentType)
	w.Write(metrics.Set{Reports: []instances.Report{v.own}, Queues: v.depths(), Backlog: v.own.Backlog, Runtime: true}.Text())
}
