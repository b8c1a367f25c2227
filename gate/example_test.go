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
	store := memory.NewGates(nil) // in an app: the blob store of internal/azure
	gates, err := gate.New(store, &gate.Options{Signals: memory.NewSignals(nil)})
	if err != nil {
		log.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		if err := gates.Run(ctx); err != nil {
			log.Fatal(err)
		}
	})

	// Any number of workers, in any number of processes, wait for the start.
	var workers sync.WaitGroup
	for range 3 {
		workers.Go(func() {
			w, err := gates.Wait(ctx, "start-order-processing", gate.Now, 30*time.Second)
			if err != nil {
				log.Fatal(err)
			}
			fmt.Println("passed:", w.Passed)
		})
	}

	// An operator releases them.
	done, err := gates.Release(ctx, "start-order-processing", gate.Change{By: "ann", Reason: "stock is counted"})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("released:", done.Changed)
	workers.Wait()

	stop()
	running.Wait()
	// Unordered output:
	// released: true
	// passed: true
	// passed: true
	// passed: true
}

// A caller that cannot wait for long comes back with the generation it has seen.
func ExampleGates_Wait() {
	ctx, stop := context.WithCancel(context.Background())
	store := memory.NewGates(nil)
	gates, err := gate.New(store, nil)
	if err != nil {
		log.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() { gates.Run(ctx) })

	w, err := gates.Wait(ctx, "start", gate.Now, 100*time.Millisecond)
	fmt.Println("passed:", w.Passed, "seen:", w.Generation, err)

	// In between it is released, and closed again.
	gates.Release(ctx, "start", gate.Change{By: "ann"})
	gates.Close(ctx, "start", gate.Change{By: "bob", Reason: "too early"})

	w, err = gates.Wait(ctx, "start", w.Generation, 100*time.Millisecond)
	fmt.Println("passed:", w.Passed, "seen something new:", w.Generation > 0, err)
	fmt.Println("released now:", w.State.Released)

	stop()
	running.Wait()
	// Output:
	// passed: false seen: 0 <nil>
	// passed: true seen something new: true <nil>
	// released now: false
}
