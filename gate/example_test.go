package gate_test

import (
	"context"
	"errors"
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
			fmt.Println("passed:", w.Passed, "generation:", w.Generation)
		})
	}

	// Somebody lets them go.
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
	// passed: true generation: 1
	// passed: true generation: 1
	// passed: true generation: 1
}

// A caller who cannot wait for long comes back with the generation it has seen.
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
	fmt.Println("passed:", w.Passed, "generation:", w.Generation, err)

	// In between it is released, and shut again.
	gates.Release(ctx, "start", gate.Change{By: "ann"})
	gates.Close(ctx, "start", gate.Change{By: "bob", Reason: "too early"})

	w, err = gates.Wait(ctx, "start", w.Generation, 100*time.Millisecond)
	fmt.Println("passed:", w.Passed, "generation:", w.Generation, err)
	fmt.Println("released now:", w.State.Released)

	stop()
	running.Wait()
	// Output:
	// passed: false generation: 0 <nil>
	// passed: true generation: 1 <nil>
	// released now: false
}

func ExampleGates_Release() {
	ctx := context.Background()
	gates, err := gate.New(memory.NewGates(nil), nil)
	if err != nil {
		log.Fatal(err)
	}
	for _, by := range []string{"ann", "bob"} {
		done, err := gates.Release(ctx, "start", gate.Change{By: by})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s has released it: %t (generation %d, by %s)\n", by, done.Changed, done.State.Generation, done.State.By)
	}
	_, err = gates.Release(ctx, "Start!", gate.Change{By: "ann"})
	fmt.Println(errors.Is(err, gate.ErrInvalid), err)
	// Output:
	// ann has released it: true (generation 1, by ann)
	// bob has released it: false (generation 1, by ann)
	// true invalid: gate name "Start!": use lower-case letters, digits and inner hyphens only
}
