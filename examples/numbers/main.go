// Numbers is a worker that uses Kennel's packages in its own process. It waits
// until gate start-work is released, reserves order numbers in its own range of
// the blob and issues them from memory, without a request for each. Then it
// draws a number of the same sequence from the app: no number is issued twice.
//
// It reads the environment:
//
//	STORAGE      connection string of the storage account of the app
//	APP          address of the app
//	KENNEL_KEY   function key of the app; not needed on this machine
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"

	"kennel/azurestore"
	"kennel/client"
	"kennel/gate"
	"kennel/ids"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Getenv("STORAGE"), os.Getenv("APP"), os.Getenv("KENNEL_KEY"), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "numbers:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, storage, app, key string, out io.Writer) error {
	// With an identity instead: azurestore.NewBlobs.
	blobs, err := azurestore.NewBlobsFromConnectionString(storage)
	if err != nil {
		return err
	}
	if err := waitAtGate(ctx, blobs, out); err != nil {
		return err
	}
	if err := issueNumbers(ctx, blobs, out); err != nil {
		return err
	}
	return drawFromApp(ctx, app, key, out)
}

// waitAtGate waits until an operator releases the gate.
func waitAtGate(ctx context.Context, blobs *azurestore.Blobs, out io.Writer) error {
	gates, err := gate.New(azurestore.NewGates(blobs, azurestore.GatesContainer), nil) // polls; see azurestore.NewSignals
	if err != nil {
		return err
	}
	life, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { gates.Run(life) })
	defer running.Wait()
	defer stop()

	w := gate.Waited{Generation: gate.Now}
	for !w.Passed {
		fmt.Fprintln(out, "waiting at gate start-work")
		if w, err = gates.Wait(ctx, "start-work", w.Generation, gate.MaxWait); err != nil {
			return err
		}
	}
	fmt.Fprintln(out, "released by", w.State.By)
	return nil
}

// issueNumbers issues numbers from a range of this process.
func issueNumbers(ctx context.Context, blobs *azurestore.Blobs, out io.Writer) error {
	orders, err := ids.New(azurestore.NewSequences(blobs, azurestore.SequencesContainer), "orders", nil)
	if err != nil {
		return err
	}
	for range 3 {
		n, err := orders.Next(ctx)
		if err != nil {
			return err
		}
		fmt.Fprintln(out, "order", n)
	}
	return orders.Close(ctx) // returns the numbers that were reserved and not issued
}

// drawFromApp draws a number of the same sequence over HTTP.
func drawFromApp(ctx context.Context, app, key string, out io.Writer) error {
	c, err := client.New(app, &client.Options{
		Key:    key,
		Notify: func(n client.Notice) { fmt.Fprintln(os.Stderr, n) },
	})
	if err != nil {
		return err
	}
	numbers, err := c.Next(ctx, "orders", 1)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, "order", numbers.First, "from the app")
	return nil
}
