package work

import (
	"testing"
	"testing/synctest"
	"time"

	"kennel/internal/storetest"
	"kennel/work/internal/format"
)

// TestKeyLost submits a batch again after its first submission was killed before
// it took its key. The first one is not processed, even if no process runs
// until the key has expired.
func TestKeyLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, nil, 0)
		body, items := someLines(3)
		if _, _, err := s.start(&storetest.Killer{N: 3, After: true}, nil).send("k", body); err == nil || s.rows.Rows(format.ActiveIn) != 1 {
			t.Fatalf("%v, %d batches are recorded", err, s.rows.Rows(format.ActiveIn))
		}
		batch, created, err := s.start(nil, nil).send("k", body)
		if err != nil || !created {
			t.Fatal(created, err)
		}
		time.Sleep(25 * time.Hour)
		s.settled([]string{batch.ID}, true, items)
	})
}
