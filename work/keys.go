package work

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"kennel/internal/table"
)

// keyTime is how long a key stands for the batch that was submitted with it.
const keyTime = 24 * time.Hour

// keyRow is the row of a key. It decides which of several batches that were
// submitted with the key is accepted.
type keyRow struct {
	batch   string
	digest  string // of the submission
	at      time.Time
	version string
}

// isValid reports whether the key still stands for its batch in a submission at
// that time.
func (k keyRow) isValid(submitted time.Time) bool { return submitted.Before(k.at.Add(keyTime)) }

// keyOf returns the key of the row for a caller's key, which may have any
// length and characters.
func keyOf(key string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(key))) }

func (b *Batches) readKey(ctx context.Context, key string) (k keyRow, found bool, err error) {
	row, err := b.rows.Get(ctx, keysIn, key)
	switch {
	case errors.Is(err, table.ErrNotFound):
		return keyRow{}, false, nil
	case err != nil:
		return keyRow{}, false, fmt.Errorf("read the key of a batch: %w", err)
	}
	c := table.ReadColumns(row, format, ErrCorrupt)
	k = keyRow{batch: c.Text("batch"), digest: c.Text("digest"), at: c.Time("at"), version: row.Version}
	return k, c.Err() == nil, c.Err()
}

// takeKey makes the key of a batch its own. If the key is that of another
// batch, takeKey returns that one.
func (b *Batches) takeKey(ctx context.Context, d details) (winner keyRow, err error) {
	row := table.Row{Partition: keysIn, Key: d.Key, Values: map[string]string{
		formatColumn: format,
		"batch":      d.ID,
		"digest":     d.Digest,
		"at":         table.FormatTime(d.SubmittedAt),
	}}
	for {
		k, found, err := b.readKey(ctx, d.Key)
		w := table.Write{Verb: table.Insert, Row: row}
		switch {
		case err != nil:
			return keyRow{}, err
		case found && k.batch == d.ID:
			return keyRow{}, nil
		case found && k.isValid(d.SubmittedAt): // not now: its caller has got the other one
			return k, nil
		case found:
			w.Verb, w.If = table.Replace, k.version
		}
		_, err = b.rows.Submit(ctx, w)
		switch {
		case err == nil:
			return keyRow{}, nil
		case ctx.Err() != nil, !raced(err) && !errors.Is(err, table.ErrUnclear):
			return keyRow{}, fmt.Errorf("take the key of a batch: %w", err)
		}
	}
}

// dropKey deletes the row of a key if it is that of the batch.
func (b *Batches) dropKey(ctx context.Context, d details) error {
	if d.Key == "" {
		return nil
	}
	k, found, err := b.readKey(ctx, d.Key)
	if err != nil || !found || k.batch != d.ID {
		return err
	}
	_, err = b.rows.Submit(ctx, table.Write{Verb: table.Delete, Row: table.Row{Partition: keysIn, Key: d.Key}, If: k.version})
	if err != nil && !raced(err) {
		return fmt.Errorf("delete the key of batch %s: %w", d.ID, err)
	}
	return nil
}

// raced reports whether another writer was faster, or an earlier try of the same
// write.
func raced(err error) bool {
	return errors.Is(err, table.ErrExists) || errors.Is(err, table.ErrChanged) || errors.Is(err, table.ErrNotFound)
}
