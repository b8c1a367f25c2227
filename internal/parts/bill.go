package parts

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"

	"kennel/internal/app"
	"kennel/internal/azure"
	"kennel/internal/config"
	"kennel/internal/cost"
	"kennel/internal/cost/bill"
	"kennel/internal/names"
	"kennel/internal/observe"
	"kennel/internal/table"
)

// billPart writes what this process used.
type billPart struct {
	app.Idle
	ledger *bill.Ledger
}

func (b billPart) Run(ctx context.Context) error { return b.ledger.Run(ctx) }

func (b billPart) Close(ctx context.Context) error { return b.ledger.Close(ctx) }

// newBill returns the bill of the app, and what writes the share of this process.
func newBill(e *environment) (*observe.Billing, app.Part, error) {
	prices, err := readPrices(e.cfg.Prices)
	if err != nil {
		return nil, app.Part{}, err
	}
	ledger := newLedger(e)
	return &observe.Billing{Ledger: ledger, Prices: prices, Host: hostOf(e.cfg), Log: e.log}, app.Part{Runs: billPart{ledger: ledger}, Closes: app.Accounts}, nil
}

// newLedger returns the ledger of this process. Behind a host it also counts the
// messages that the host has delivered.
func newLedger(e *environment) *bill.Ledger {
	var rows table.Store // nil without tables, which is logged where the instance table is opened
	if tables, err := e.account.OpenTables(e.optionsOf("bill")); err == nil {
		if opened, err := azure.NewTable(tables, names.BillTable); err == nil {
			rows = opened
		}
	}
	hosted := e.listening == nil
	process := bill.Process{Name: e.members.Name(), Bus: e.signals != nil, Hosted: hosted}
	return bill.NewLedger(rows, process, func() bill.Counts {
		counts := bill.Counts{Operations: make(map[bill.Operation]int64)}
		for l, n := range e.counter.All() {
			counts.Operations[bill.Operation{Service: l.Service, Name: l.Operation, Job: l.Job}] = n
		}
		if hosted {
			counts.Messages = e.meter.Messages()
		}
		return counts
	}, e.log)
}

// hostOf returns what the Functions host does for the app: the functions that it
// runs receive from the queues of partitions, and from those of small
// batches and deletions; two timers sweep, one checks scaling, and one moves the
// backlog.
func hostOf(cfg config.Config) (h bill.Host) {
	runs := func(function string) bool { return !slices.Contains(cfg.Disabled, strings.ToLower(function)) }
	queues := []string{"ProcessWorkExpress", "ChannelCleanup"}
	for n := range cfg.Partitions {
		queues = append(queues, names.FunctionOfPartition(n))
	}
	for _, function := range queues {
		if runs(function) {
			h.Queues++
		}
	}
	for _, function := range []string{"BatchSweep", "ChannelSweep", "ScaleCheck", "Syphon"} {
		if runs(function) {
			h.Timers++
		}
	}
	for _, function := range []string{"ScaleCheck", "Syphon"} {
		if runs(function) {
			h.EachMinute++
		}
	}
	return h
}

// readPrices returns the prices that KENNEL_PRICES names. Its errors do not
// repeat the value, which may be a secret in the wrong setting.
func readPrices(setting string) (cost.Prices, error) {
	text := []byte(setting)
	switch {
	case setting == "" || setting == "list":
		return cost.ListPrices(), nil
	case setting == "paper":
		return cost.PaperPrices(), nil
	case !strings.HasPrefix(setting, "{"):
		var err error
		if text, err = os.ReadFile(setting); err != nil {
			return cost.Prices{}, errors.New("invalid setting: KENNEL_PRICES is neither list nor paper, nor prices in JSON, nor a file that can be read")
		}
	}
	prices, err := cost.ParsePrices(text)
	if err != nil {
		return prices, errors.New("invalid setting: KENNEL_PRICES: " + err.Error())
	}
	return prices, nil
}
