package queues

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kennel/internal/memory"
	"kennel/internal/storetest"
	"kennel/internal/worker"
	"kennel/queue"
)

// TestIdle: with signals, a worker receives from an idle queue a few times an
// hour, and begins a message when the signal has come and two requests have
// passed.
func TestIdle(t *testing.T) {
	const way, trip = 10 * time.Millisecond, 10 * time.Millisecond // of a signal, and of a request
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(&memory.Options{Fault: func(memory.Call) memory.Fault { return memory.Fault{Delay: trip / 2, Back: trip / 2} }})
		signals := memory.NewQueueSignals(&memory.QueueSignalOptions{Fault: func(int, queue.Signal) memory.SignalFault { return memory.SignalFault{Delay: way} }})
		sender := w.open(t, storetest.NewProcess(nil), true, &Options{Signals: signals})
		works := w.open(t, storetest.NewProcess(nil), false, &Options{Signals: signals})
		var begun atomic.Int64
		works.declared["orders"].Work = func(context.Context, []byte) error {
			begun.Store(time.Now().UnixNano())
			return nil
		}
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { sender.publisher.Run(ctx) })
		running.Go(func() { worker.Together(ctx, works.publisher.Run, works.Work) })
		time.Sleep(10 * time.Minute)
		worst := int64(0)
		for range 5 {
			before := w.queues.CallsOf("Receive")
			time.Sleep(time.Hour)
			worst = max(worst, w.queues.CallsOf("Receive")-before)
		}
		slowest := time.Duration(0)
		for range 5 {
			time.Sleep(10 * time.Minute)
			if _, err := sender.Send(ctx, "orders", order{}.text(), 0); err != nil {
				t.Error(err)
			}
			sent := time.Now()
			time.Sleep(time.Minute)
			slowest = max(slowest, time.Unix(0, begun.Load()).Sub(sent))
		}
		stop()
		running.Wait()
		const all = 2 // storage queues
		t.Logf("figure: receives an hour of an idle queue of a program, with signals | %d | ≤ 6", worst/all)
		t.Logf("figure: wake-up of an idle worker of a program, signals of %v and requests of %v | %v | ≤ %v", way, trip, slowest, way+40*time.Millisecond)
		if worst > 6*all || worst == 0 {
			t.Errorf("%d receives an hour of %d idle queues", worst, all)
		}
		if slowest > way+40*time.Millisecond || slowest <= 0 {
			t.Errorf("begun %v after the send", slowest)
		}
	})
}
