package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"kennel/internal/azure"
	"kennel/internal/azure/requests"
	"kennel/internal/instances"
	"kennel/internal/names"
	"kennel/internal/table"
	"kennel/internal/version"
)

// members is this process among the processes of the app.
type members struct {
	*instances.Self
	rows table.Store // nil without tables: then this process knows only itself
	log  *slog.Logger
}

// openInstanceTable returns the instance table. Without tables it logs that,
// and each instance reports only about itself.
func openInstanceTable(account azure.Account, o azure.Options, log *slog.Logger) table.Store {
	o.Job = "instances"
	tables, err := account.OpenTables(&o)
	var rows *azure.Table
	if err == nil {
		rows, err = azure.NewTable(tables, names.InstancesTable)
	}
	if err != nil {
		log.Warn("the status covers only the instance that answers: the app needs tables to know the others", "error", err)
		return nil
	}
	return rows
}

// newMembers makes this process, of one of the kinds, known. jobs returns the jobs of the app, which
// are wired later.
func newMembers(rows table.Store, kind string, started time.Time, jobs func() []job, log *slog.Logger) *members {
	process := instances.Process{
		Instance:  instances.NewName(),
		Kind:      kind,
		Version:   version.Read().Version,
		StartedAt: started.UTC(),
	}
	problems := func() (all []instances.Problem) {
		for _, j := range jobs() {
			if j.problems != nil {
				all = append(all, j.problems()...)
			}
		}
		return all
	}
	collect := func(r *instances.Report) {
		for _, j := range jobs() {
			if j.facts != nil {
				j.facts(r)
			}
		}
	}
	return &members{instances.NewSelf(process, problems, collect), rows, log}
}

// job reports this process to the others.
func (m *members) job() job {
	if m.rows == nil {
		return job{}
	}
	reporter := instances.NewReporter(m.Self, m.rows, m.log)
	return job{run: reporter.Run, close: reporter.Close}
}

// directoryTimeout limits a read of the instance table by other calls than the
// status.
const directoryTimeout = 4 * time.Second

// errUnknown reports that this process cannot know the others: there is no
// instance table.
var errUnknown = errors.New("the app has no tables, so an instance does not know the others")

// read returns what the other processes have reported, with these parts.
func (m *members) read(ctx context.Context, parts ...instances.Part) (instances.Directory, error) {
	directory, err := m.readTable(ctx, parts...)
	directory.Live, directory.Gone = m.without(directory.Live), m.without(directory.Gone)
	return directory, err
}

// readTable is read with what this process has reported.
func (m *members) readTable(ctx context.Context, parts ...instances.Part) (instances.Directory, error) {
	if m.rows == nil {
		return instances.Directory{}, errUnknown
	}
	rows, err := table.New(m.rows)
	if err != nil {
		return instances.Directory{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, directoryTimeout)
	defer cancel()
	directory, err := instances.Read(ctx, rows, parts...)
	if err != nil {
		return directory, fmt.Errorf("read the instance table: %w", err)
	}
	return directory, nil
}

// live returns the other live processes, with these parts of their reports. It
// returns false, and logs why, if they are not known.
func (m *members) live(ctx context.Context, parts ...instances.Part) (others []instances.Instance, known bool) {
	directory, err := m.read(ctx, parts...)
	return m.known(ctx, directory, err)
}

// known returns what live does of what read has returned.
func (m *members) known(ctx context.Context, directory instances.Directory, err error) (others []instances.Instance, known bool) {
	if err != nil && !errors.Is(err, errUnknown) { // which is logged at the start
		m.log.WarnContext(ctx, "the answer covers only this instance", "error", err)
	}
	return directory.Live, err == nil
}

// without removes this process from a list: what it knows itself is newer.
func (m *members) without(all []instances.Instance) []instances.Instance {
	return slices.DeleteFunc(all, func(i instances.Instance) bool { return i.Instance == m.Name() })
}

// requestFacts returns what a counter counted.
func requestFacts(counter *requests.Counter) func(*instances.Report) {
	return func(r *instances.Report) {
		for l, n := range counter.All() {
			r.Requests = append(r.Requests, instances.Requests{Service: l.Service, Operation: l.Operation, Job: l.Job, Count: n})
		}
		slices.SortFunc(r.Requests, func(a, b instances.Requests) int {
			return cmp.Or(strings.Compare(a.Service, b.Service), strings.Compare(a.Operation, b.Operation), strings.Compare(a.Job, b.Job))
		})
	}
}
