package format

import (
	"crypto/sha256"
	"fmt"
	"time"

	"kennel/internal/table"
	"kennel/work/internal/model"
)

// keyTime is how long a key stands for the batch that was submitted with it.
const keyTime = 24 * time.Hour

// KeyRow is the row of a key. It decides which of several batches that were
// submitted with the key is accepted.
type KeyRow struct {
	Batch   string
	Digest  string // of the submission
	at      time.Time
	Version string
}

// IsValid reports whether the key still stands for its batch in a submission at
// that time.
func (k KeyRow) IsValid(submitted time.Time) bool { return submitted.Before(k.at.Add(keyTime)) }

// KeyOf returns the key of the row for a caller's key, which may have any
// length and characters.
func KeyOf(key string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(key))) }

// KeyRow returns the row of the key of a batch.
func (d Details) KeyRow() table.Row {
	return table.Row{Partition: KeysIn, Key: d.Key, Values: map[string]string{
		VersionColumn: Version,
		"batch":       d.ID,
		"digest":      d.Digest,
		"at":          table.FormatTime(d.SubmittedAt),
	}}
}

// ReadKeyRow reads the row of a key. Its error is ErrCorrupt.
func ReadKeyRow(row table.Row) (KeyRow, error) {
	c := table.ReadColumns(row, Version, model.ErrCorrupt)
	k := KeyRow{Batch: c.Text("batch"), Digest: c.Text("digest"), at: c.Time("at"), Version: row.Version}
	return k, c.Err()
}
