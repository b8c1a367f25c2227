package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"kennel/internal/azure"
	"kennel/internal/azure/requests"
	"kennel/internal/config"
	"kennel/internal/cost"
	"kennel/internal/cost/bill"
	"kennel/internal/names"
	"kennel/internal/table"
)

// billLasts is how long a bill answers: a status may be read often, and the
// other processes report every five minutes.
const billLasts = time.Minute

// newLedger returns the ledger of this process. messages returns how many
// messages a Functions host has delivered; nil without a host.
func newLedger(account azure.Account, o azure.Options, process bill.Process, counter *requests.Counter, messages func() int64, log *slog.Logger) *bill.Ledger {
	o.Job = "bill"
	var rows table.Store // nil without tables, which is logged where the instance table is opened
	if tables, err := account.OpenTables(&o); err == nil {
		if opened, err := azure.NewTable(tables, names.BillTable); err == nil {
			rows = opened
		}
	}
	process.Hosted = messages != nil
	return bill.NewLedger(rows, process, func() bill.Counts {
		counts := bill.Counts{Operations: make(map[bill.Operation]int64)}
		for l, n := range counter.All() {
			counts.Operations[bill.Operation{Service: l.Service, Name: l.Operation, Job: l.Job}] = n
		}
		if messages != nil {
			counts.Messages = messages()
		}
		return counts
	}, log)
}

// hostOf returns what the Functions host does for the app: the functions that it
// runs receive from the queues of partitions, and from those of single parcels,
// results and deletions; two timers sweep, one checks scaling, and one moves the
// backlog.
func hostOf(cfg config.Config) (h bill.Host) {
	runs := func(function string) bool { return !slices.Contains(cfg.Disabled, strings.ToLower(function)) }
	queues := []string{"ProcessWorkExpress", "CollectResults", "ChannelCleanup"}
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

// billing is the bill of the app.
type billing struct {
	ledger *bill.Ledger
	prices cost.Prices
	host   bill.Host
	log    *slog.Logger

	reading sync.Mutex // held while this process reads the ledger

	mu     sync.Mutex
	last   *bill.Bill // guarded by mu
	readAt time.Time  // of last; guarded by mu
}

// present returns the bill, which may be a minute old. Without an answer of
// storage it returns the last one, nil if there is none. It sends one request
// or none, and returns within probeTimeout.
func (b *billing) present(ctx context.Context) *bill.Bill {
	if b == nil || !b.isOld() || !b.reading.TryLock() {
		return b.known()
	}
	defer b.reading.Unlock()
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	month, err := b.ledger.Read(ctx)
	var priced bill.Bill
	if err == nil {
		priced, err = month.Price(b.prices, b.host)
	}
	if err != nil {
		b.log.WarnContext(ctx, "cannot read the bill", "error", err)
		return b.known()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last, b.readAt = &priced, time.Now()
	return b.last
}

func (b *billing) isOld() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.last == nil || time.Since(b.readAt) >= billLasts
}

func (b *billing) known() *bill.Bill {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.last
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
