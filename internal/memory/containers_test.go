package memory

import (
	"testing"

	"kennel/internal/storetest"
	"kennel/queue"
)

func TestContainers(t *testing.T) {
	storetest.TestContainers(t, func(t *testing.T) queue.Container { return NewContainer(nil) })
}
