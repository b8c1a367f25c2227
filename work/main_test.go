package work_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"kennel/internal/memory"
	"kennel/internal/storetest"
	"kennel/queue"
	"kennel/table"
	"kennel/work"
)

// TestMain compresses and decompresses a batch before the tests. What the
// package creates with its first use belongs to a synctest bubble if it is
// created there.
func TestMain(m *testing.M) {
	if err := warmUp(); err != nil {
		fmt.Fprintln(os.Stderr, "warm up:", err)
		os.Exit(1)
	}
	os.Exit(storetest.Main(m))
}

func warmUp() error {
	rows, err := table.New(memory.NewTable(nil))
	if err != nil {
		return err
	}
	claims, err := queue.NewClaims(rows, memory.NewContainer(nil), nil)
	if err != nil {
		return err
	}
	queues := memory.NewQueues(nil)
	publisher, err := queue.NewPublisher(queues, nil)
	if err != nil {
		return err
	}
	b, err := work.New(work.Stores{
		Rows: memory.NewTable(nil), Staging: memory.NewContainer(nil), Reports: memory.NewContainer(nil),
		Claims: claims, Put: publisher.Publish, Depths: queues,
	}, map[string]work.Processor{processor: newSums()}, nil)
	if err != nil {
		return err
	}
	ctx := context.Background()
	o := order{items: someItems("warm up", 2, claimed)}
	if _, _, err := o.submit(ctx, &process{Batches: b, Process: storetest.NewProcess(nil)}); err != nil {
		return err
	}
	for _, m := range queues.All(work.ExpressQueue) {
		if err := b.Process(ctx, work.ExpressQueue, work.Message{Text: m.Body}); err != nil {
			return err
		}
	}
	return nil
}
