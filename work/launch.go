package work

import (
	"context"
	"errors"
	"fmt"
	"time"

	"kennel/internal/table"
	"kennel/work/internal/model"
)

// complete completes the submission of a batch that was recorded. It may be
// called by several processes at once, and again after a crash: what was done is
// found, except that parcels may be queued twice. known is the ledger, or nil if
// the batch has none yet.
//
// If another batch has the key, complete removes this one and returns the winner.
// After an error with a ledger, the batch is accepted.
func (b *Batches) complete(ctx context.Context, d details, known *ledger) (l ledger, winner keyRow, err error) {
	ctx, spent := withTally(ctx)
	isNew := false
	if known != nil {
		l = *known
	} else {
		if d.Key != "" {
			winner, err = b.takeKey(ctx, d)
			if err == nil && winner.batch != "" {
				err = b.abandon(ctx, d)
			}
			if err != nil || winner.batch != "" {
				return ledger{}, winner, err
			}
		}
		if l, isNew, err = b.accept(ctx, d); err != nil {
			return ledger{}, keyRow{}, err
		}
	}
	if l.state != Submitting {
		return l, keyRow{}, nil
	}
	err = b.launch(ctx, l, isNew)
	if errors.Is(err, ErrCorrupt) {
		l, err = b.damaged(ctx, l, err)
		return l, keyRow{}, err
	}
	if err != nil {
		return l, keyRow{}, err
	}
	now := time.Now().UTC()
	launched, err := b.change(ctx, d.ID, func(l *ledger) bool {
		if !l.queuedAt.IsZero() {
			return false
		}
		l.queuedAt, l.queuedTo = now, 0
		if l.operations += spent.total(); l.state == Submitting {
			l.state = Running
		}
		return true
	})
	if err != nil {
		return l, keyRow{}, err
	}
	return launched, keyRow{}, nil
}

// abandon removes a batch whose key is that of another one. The row goes last: it
// lets the sweep continue after a crash.
func (b *Batches) abandon(ctx context.Context, d details) error {
	if err := b.unstage(ctx, d); err != nil {
		return err
	}
	_, err := b.rows.Submit(ctx, table.Write{Verb: table.Delete, Row: table.Row{Partition: activeIn, Key: d.ID}, If: table.AnyVersion})
	if err != nil && !errors.Is(err, table.ErrNotFound) {
		return fmt.Errorf("abandon batch %s: %w", d.ID, err)
	}
	return nil
}

// accept inserts the ledger, or returns the one that exists.
func (b *Batches) accept(ctx context.Context, d details) (l ledger, isNew bool, err error) {
	l = newLedger(d)
	versions, err := b.rows.Submit(ctx, table.Write{Verb: table.Insert, Row: l.row()})
	if err == nil {
		l.version = versions[0]
		return l, true, nil
	}
	row, found, readErr := b.rows.ReadBack(ctx, err, d.ID, ledgerKey)
	if readErr == nil && found {
		l, err = readLedger(row)
		return l, false, err
	}
	if readErr != nil {
		err = readErr
	}
	return ledger{}, false, fmt.Errorf("insert the ledger of batch %s: %w", d.ID, err)
}

// launch adds a batch to the lists, and puts the parcels that are not queued
// yet into their queues. If it fails, the ledger keeps how far it came, so that
// the sweep continues there however slow the queues are.
func (b *Batches) launch(ctx context.Context, l ledger, isNew bool) error {
	d := l.details
	_, err := b.rows.Submit(ctx, listRows(d, nil)...)
	if err != nil && !errors.Is(err, table.ErrExists) {
		return fmt.Errorf("add batch %s to the lists: %w", d.ID, err)
	}
	missing := missing{results: new(results), from: l.queuedTo}
	if !isNew {
		// Parcels that another process queued may have results by now.
		if missing.results, err = b.readResults(ctx, l, nil); err != nil {
			return err
		}
	}
	queuedTo, err := b.putParcels(ctx, d, missing)
	if err == nil || errors.Is(err, ErrCorrupt) || queuedTo == l.queuedTo {
		return err
	}
	// Recorded although ctx has probably ended: that is why the launch failed.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), discardTime)
	defer cancel()
	_, recordErr := b.change(ctx, d.ID, func(l *ledger) bool {
		if l.state != Submitting || l.queuedTo >= queuedTo {
			return false
		}
		l.queuedTo = queuedTo
		return true
	})
	return errors.Join(err, recordErr)
}

// damaged ends a batch whose staged parcels are missing or cannot be read,
// unless they are missing because it went on meanwhile.
func (b *Batches) damaged(ctx context.Context, l ledger, cause error) (ledger, error) {
	now := time.Now().UTC()
	state := l.state
	l, err := b.change(ctx, l.details.ID, func(l *ledger) bool {
		if l.state != state {
			return false
		}
		l.state, l.err, l.finishedAt = Failed, model.ShortError(cause.Error()), now
		return true
	})
	if err != nil || l.state != Failed {
		return l, err
	}
	b.opt.Log.ErrorContext(ctx, "batch failed", "batch", l.details.ID, "error", cause)
	return l, b.cleanUp(ctx, l)
}
