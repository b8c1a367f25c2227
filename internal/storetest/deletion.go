package storetest

import (
	"context"
	"testing"
	"time"

	"kennel/channels"
	"kennel/internal/table"
)

// FillPartition inserts n blogs directly into a partition, without the API,
// which is faster. It returns their keys.
func FillPartition(ctx context.Context, blogs table.Store, partition string, n int) (keys []string, err error) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for len(keys) < n {
		var writes []table.Write
		for ; len(keys) < n && len(writes) < table.MaxTransaction; at = at.Add(time.Second) {
			key := at.Format("20060102T150405.000000000Z-00000000")
			keys = append(keys, key)
			writes = append(writes, insert(partition, key, values{"v": "1", "title": "t", "text0": "x", "userId": "bob", "operation": "0"}))
		}
		if _, err := blogs.Submit(ctx, writes...); err != nil {
			return nil, err
		}
	}
	return keys, nil
}

// CheckDeleted checks that only the record of an incarnation is left and that
// the record counts each blog once. rows is the number of rows of the
// incarnation in the table of blogs.
func CheckDeleted(t testing.TB, c *channels.Channels, rows int, name, incarnation string, blogs int64) {
	t.Helper()
	if rows != 0 {
		t.Errorf("%d rows are left of %s", rows, incarnation)
	}
	d, err := c.Deletion(context.Background(), name, incarnation) // the test's context may have ended
	if err != nil {
		t.Errorf("no record: %v", err)
		return
	}
	if d.Channel != name || d.Incarnation != incarnation || d.State != channels.Done || d.Deleted != blogs {
		t.Errorf("record %+v, want %d deleted of %s", d, blogs, incarnation)
	}
	if d.StartedAt.IsZero() || d.FinishedAt.Before(d.StartedAt) {
		t.Errorf("record %+v has invalid times", d)
	}
}
