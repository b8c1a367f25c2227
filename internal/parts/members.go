package parts

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"kennel/internal/app"
	"kennel/internal/azure"
	"kennel/internal/azure/requests"
	"kennel/internal/instances"
	"kennel/internal/names"
	"kennel/internal/observe"
	"kennel/internal/table"
)

// openInstanceTable returns the instance table. Without tables it logs that,
// and each instance reports only about itself.
func openInstanceTable(e *environment) table.Store {
	tables, err := e.account.OpenTables(e.optionsOf("instances"))
	var rows *azure.Table
	if err == nil {
		rows, err = azure.NewTable(tables, names.InstancesTable)
	}
	if err != nil {
		e.log.Warn("the status covers only the instance that answers: the app needs tables to know the others", "error", err)
		return nil
	}
	return rows
}

// reporting is the runner that reports this process to the others.
type reporting struct {
	app.Idle
	*instances.Reporter
}

func (r reporting) Run(ctx context.Context) error { return r.Reporter.Run(ctx) }

func (r reporting) Close(ctx context.Context) error { return r.Reporter.Close(ctx) }

// reportMembers returns what reports this process to the others, or does
// nothing without a table.
func reportMembers(m *observe.Members) app.Runner {
	if m.Rows == nil {
		return app.Idle{}
	}
	return reporting{Reporter: instances.NewReporter(m.Self, m.Rows, m.Log)}
}

// requestFacts is what a counter counted.
type requestFacts struct {
	observe.NoProblems
	*requests.Counter
}

func (c requestFacts) Facts(r *instances.Report) {
	var all []instances.Requests
	for l, n := range c.All() {
		all = append(all, instances.Requests{Service: l.Service, Operation: l.Operation, Job: l.Job, Count: n})
	}
	slices.SortFunc(all, func(a, b instances.Requests) int {
		return cmp.Or(strings.Compare(a.Service, b.Service), strings.Compare(a.Operation, b.Operation), strings.Compare(a.Job, b.Job))
	})
	instances.RequestSection.Add(r, all)
}
