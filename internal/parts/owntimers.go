package parts

import (
	"context"

	"kennel/internal/api"
	"kennel/internal/app"
	"kennel/internal/azure"
	"kennel/internal/customhandler"
	"kennel/internal/edge"
	"kennel/internal/names"
	"kennel/internal/program"
	"kennel/internal/table"
	"kennel/internal/timers"
)

// timerPart is the timers of a program's own as a part of it.
type timerPart struct {
	api.TimerResource
	*timers.Timers
	app.Idle
	declared []*program.Timer
	hosted   bool
}

func (t *timerPart) Routes() []edge.Route { return t.TimerResource.Routes() }

// Functions registers a function for each timer.
func (t *timerPart) Functions(host *customhandler.App) {
	for _, one := range t.declared {
		host.Timer(program.FunctionOfTimer(one.Name), "tick", func(ctx context.Context, _ customhandler.Tick) error { return t.Tick(ctx, one.Name) })
	}
}

func (t *timerPart) Run(ctx context.Context) error {
	if !t.hosted {
		return nil
	}
	return t.Timers.Run(ctx)
}

func (t *timerPart) Work(ctx context.Context) error { return t.Timers.Run(ctx) }

// newOwnTimers opens the timers that the author of the program declared. Without
// any it needs no tables.
func newOwnTimers(e *environment) (*timerPart, error) {
	var rows *table.Table
	if len(e.declared.Timers) > 0 {
		tables, err := e.account.OpenTables(e.optionsOf("timers"))
		if err != nil {
			return nil, err
		}
		store, err := azure.NewTable(tables, names.TimersTable)
		if err != nil {
			return nil, err
		}
		if rows, err = table.New(store); err != nil {
			return nil, err
		}
	}
	hosted := e.listening == nil
	o := &timers.Options{Hosted: hosted, Drain: e.cfg.WorkerDrain, Ready: e.life.wait, Log: e.log}
	if hosted {
		o.Drain = e.cfg.Drain / 2
	}
	t, err := timers.New(e.declared, rows, o)
	if err != nil {
		return nil, err
	}
	return &timerPart{TimerResource: api.TimerResource{Timers: t, People: api.People{SignedIn: e.cfg.SignedIn, Log: e.log}}, Timers: t, declared: e.declared.Timers, hosted: hosted}, nil
}
