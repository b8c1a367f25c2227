package observe

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"kennel/internal/cost"
	"kennel/internal/cost/bill"
)

// Billing is the bill of the app.
type Billing struct {
	Ledger *bill.Ledger
	Prices cost.Prices
	Host   bill.Host
	Log    *slog.Logger

	reading sync.Mutex // held while this process reads the ledger

	mu     sync.Mutex
	last   *bill.Bill // guarded by mu
	readAt time.Time  // of last; guarded by mu
}

// Present returns the bill, which may be a minute old. Without an answer of
// storage it returns the last one, nil if there is none. It sends one request
// or none, and returns within ProbeTimeout.
func (b *Billing) Present(ctx context.Context) *bill.Bill {
	if b == nil || !b.isOld() || !b.reading.TryLock() {
		return b.known()
	}
	defer b.reading.Unlock()
	ctx, cancel := context.WithTimeout(ctx, ProbeTimeout)
	defer cancel()
	month, err := b.Ledger.Read(ctx)
	var priced bill.Bill
	if err == nil {
		priced, err = month.Price(b.Prices, b.Host)
	}
	if err != nil {
		b.Log.WarnContext(ctx, "cannot read the bill", "error", err)
		return b.known()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.last, b.readAt = &priced, time.Now()
	return b.last
}

func (b *Billing) isOld() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.last == nil || time.Since(b.readAt) >= OfBill.Lasts
}

func (b *Billing) known() *bill.Bill {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.last
}
