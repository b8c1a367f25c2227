package observe

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"kennel/internal/instances"
	"kennel/internal/table"
	"kennel/internal/version"
)

// Members is this process among the processes of the app.
type Members struct {
	*instances.Self
	Started time.Time
	Rows    table.Store // nil without tables: then this process knows only itself
	sources []Source    // all of this process; set before it starts
	Log     *slog.Logger
	reader  instances.Reader

	sampling  sync.Mutex // held while a status samples the queues
	mu        sync.Mutex
	samples   map[string]instances.QueueSample // the newest of this process; is replaced, never changed; guarded by mu
	scrapedAt time.Time                        // when a scrape last sampled the queues; guarded by mu
}

// NewMembers makes this process, of one of the kinds, known.
func NewMembers(rows table.Store, kind string, started time.Time, log *slog.Logger) *Members {
	m := &Members{Started: started, Rows: rows, Log: log}
	m.Self = instances.NewSelf(instances.Process{
		Instance:  instances.NewName(),
		Kind:      kind,
		Version:   version.Read().Version,
		StartedAt: started.UTC(),
	}, m.problems, m.facts)
	return m
}

// Watch sets the sources of this process, before it starts.
func (m *Members) Watch(sources ...Source) { m.sources = sources }

func (m *Members) problems() (all []instances.Problem) {
	for _, s := range m.sources {
		all = append(all, s.Problems()...)
	}
	return all
}

func (m *Members) facts(r *instances.Report) {
	for _, s := range m.sources {
		s.Facts(r)
	}
	instances.QueueSection.Add(r, m.Samples())
}

// Publish adds samples of queues to the report of this process, which is stored
// soon.
func (m *Members) Publish(samples map[string]instances.QueueSample) {
	if len(samples) == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make(map[string]instances.QueueSample)
	maps.Copy(all, m.samples)
	maps.Copy(all, samples)
	m.samples = all
	m.Renew()
}

// Samples returns the newest samples that this process published.
func (m *Members) Samples() map[string]instances.QueueSample {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.samples
}

// directoryTimeout limits a read of the instance table by other calls than the
// status.
const directoryTimeout = 4 * time.Second

// ErrUnknown reports that this process cannot know the others: there is no
// instance table.
var ErrUnknown = errors.New("the app has no tables, so an instance does not know the others")

// Read returns what the other processes have reported, with these parts.
func (m *Members) Read(ctx context.Context, parts ...instances.Part) (instances.Directory, error) {
	directory, err := m.ReadTable(ctx, parts...)
	directory.Live, directory.Gone = m.without(directory.Live), m.without(directory.Gone)
	return directory, err
}

// ReadTable is [Members.Read] with the last report of this process.
func (m *Members) ReadTable(ctx context.Context, parts ...instances.Part) (instances.Directory, error) {
	if m.Rows == nil {
		return instances.Directory{}, ErrUnknown
	}
	rows, err := table.New(m.Rows)
	if err != nil {
		return instances.Directory{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, directoryTimeout)
	defer cancel()
	directory, err := m.reader.Read(ctx, rows, parts...)
	if err != nil {
		return directory, fmt.Errorf("read the instance table: %w", err)
	}
	return directory, nil
}

// Live returns the other live processes, with these parts of their reports. It
// returns false, and logs why, if they are not known.
func (m *Members) Live(ctx context.Context, parts ...instances.Part) (others []instances.Instance, known bool) {
	directory, err := m.Read(ctx, parts...)
	return m.Known(ctx, directory, err)
}

// Known returns the result of [Members.Live] for that of [Members.Read].
func (m *Members) Known(ctx context.Context, directory instances.Directory, err error) (others []instances.Instance, known bool) {
	if err != nil && !errors.Is(err, ErrUnknown) { // which is logged at the start
		m.Log.WarnContext(ctx, "the answer covers only this instance", "error", err)
	}
	return directory.Live, err == nil
}

// without removes this process from a list: what it knows itself is newer.
func (m *Members) without(all []instances.Instance) []instances.Instance {
	return slices.DeleteFunc(all, func(i instances.Instance) bool { return i.Instance == m.Name() })
}
