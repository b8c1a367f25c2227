package gate_test

import (
	"context"
	"fmt"
	"log"
	"sync"
	"time"

	"kennel/gate"
	"kennel/internal/memory"
)

func Example() {
	ctx, stop := context.WithCancel(context.Background())
	store := memory.NewValues(nil) // in an app: the blob store of internal/azure
	gates, err := gate.New(store, &gate.Options{Signals: memory.NewSignals(nil)})
	if err != nil {
		log.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() { gates.Run(ctx) })

	// Any number of workers wait, in any number of processes. One that cannot
	// wait for long comes back with the generation that it has seen.
	const name = "start-order-processing"
	early, err := gates.Wait(ctx, name, gate.Now, 100*time.Millisecond)
	fmt.Println("early: passed:", early.Passed, "seen:", early.Generation, err)
	passed := make(chan gate.Waited)
	go func() {
		w, err := gates.Wait(ctx, name, early.Generation, 30*time.Second)
		if err != nil {
			log.Fatal(err)
		}
		passed <- w
	}()

	// An operator releases them.
	done, err := gates.Release(ctx, name, gate.Change{By: "ann", Reason: "stock is counted"})
	fmt.Println("released:", done.Changed, err)
	fmt.Println("passed:", (<-passed).Passed)

	// A release is not missed if the gate closes again.
	gates.Close(ctx, name, gate.Change{By: "bob", Reason: "too early"})
	late, err := gates.Wait(ctx, name, early.Generation, 30*time.Second)
	fmt.Println("late: passed:", late.Passed, "released now:", late.State.Released, err)

	stop()
	running.Wait()
	// Output:
	// early: passed: false seen: 0 <nil>
	// released: true <nil>
	// passed: true
	// late: passed: true released now: false <nil>
}
