package memory

import (
	"testing"

	"kennel/internal/storetest"
	"kennel/queue"
)

func TestContainers(t *testing.T) {
	storetest.TestContainers(t, func(t *testing.T) queue.Container { return NewContainer(nil) })
}

func TestClaims(t *testing.T) {
	storetest.TestClaims(t, func(t *testing.T) storetest.ClaimStores {
		return storetest.ClaimStores{Rows: NewTable(nil), Blobs: NewContainer(nil)}
	})
}
