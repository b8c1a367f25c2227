package localhost

import (
	"context"
	"testing"
	"time"

	"kennel/internal/memory"
)

// testQueues are queues in memory, in which every request has a deadline.
type testQueues struct {
	*memory.Queues
	refuse func(memory.Call) error // the error of a request that is not carried out; nil: all are
}

func newQueues(t *testing.T) *testQueues {
	q := &testQueues{}
	q.Queues = memory.NewQueues(&memory.Options{
		Police: func(problem string) { t.Error(problem) },
		Fate: func(c memory.Call) (fate memory.Fate) {
			if q.refuse != nil {
				fate.Err = q.refuse(c)
				fate.Lost = fate.Err != nil
			}
			return fate
		},
	})
	return q
}

func (q *testQueues) put(t *testing.T, queue, body string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := q.Put(ctx, queue, body, 0); err != nil {
		t.Fatal(err)
	}
}

// bodies are those of all messages of a queue, visible or not.
func (q *testQueues) bodies(queue string) (bodies []string) {
	for _, m := range q.All(queue) {
		bodies = append(bodies, m.Body)
	}
	return bodies
}
