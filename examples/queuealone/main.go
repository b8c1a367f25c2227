// Queuealone sends messages to a queue in storage and works on them, with package
// queue alone: no app, no Functions host, no declarations. It is for a program that
// has its own frame, and wants what is below package kennel's queues: messages of
// any size, at least once each, with attempts, leases that are renewed, and dead
// letters.
//
//	STORAGE='UseDevelopmentStorage=true' go run ./examples/queuealone send 'hello' 'world'
//	STORAGE='UseDevelopmentStorage=true' go run ./examples/queuealone work
//
// Work ends with Ctrl+C: what is at work is finished, for 20 seconds at most, and
// the rest is left to others.
//
// It reads the environment:
//
//	STORAGE   connection string of a storage account
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"time"

	"kennel/azurestore"
	"kennel/queue"
)

// name is that of the queue. Its dead letters are in another one, which has the
// name with queue.PoisonSuffix.
const name = "letters"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Getenv("STORAGE"), os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "queuealone:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, storage string, args []string, out io.Writer) error {
	p, err := open(storage)
	if err != nil {
		return err
	}
	switch {
	case len(args) > 1 && args[0] == "send":
		return p.send(ctx, args[1:], out)
	case len(args) == 1 && args[0] == "work":
		return p.work(ctx, func(_ context.Context, d queue.Delivery[[]byte]) error {
			_, err := fmt.Fprintf(out, "attempt %d of %.60s\n", d.Attempt, d.Body)
			return err
		})
	}
	return errors.New("usage: queuealone send TEXT… | work")
}

// program has what senders and workers share.
type program struct {
	queues *azurestore.Queues
	claims *queue.Claims
}

func open(storage string) (*program, error) {
	// With an identity instead: azurestore.NewQueues, NewTables and NewBlobs.
	queues, err := azurestore.NewQueuesFromConnectionString(storage, nil)
	if err != nil {
		return nil, err
	}
	tables, err := azurestore.NewTablesFromConnectionString(storage)
	if err != nil {
		return nil, err
	}
	blobs, err := azurestore.NewBlobsFromConnectionString(storage)
	if err != nil {
		return nil, err
	}
	// A message has up to 48 KiB; a longer body is in the table or the container.
	claims, err := azurestore.NewClaims(tables, blobs, &azurestore.ClaimsOptions{Table: "LetterClaims", Container: "letter-claims"})
	if err != nil {
		return nil, err
	}
	return &program{queues, claims}, nil
}

// send sends messages. A message whose send returned an error may have been sent,
// unless the error says that it was not: its receivers know its copies by their id.
func (p *program) send(ctx context.Context, texts []string, out io.Writer) error {
	publisher, err := queue.NewPublisher(p.queues, nil) // without signals: workers poll; see azurestore.Signals.Queues
	if err != nil {
		return err
	}
	for _, text := range texts {
		packed, err := p.claims.Pack(ctx, queue.Envelope{ID: rand.Text(), Time: time.Now()}, []byte(text))
		if err != nil {
			return err
		}
		if err := publisher.Publish(ctx, name, packed, 0); err != nil {
			return err
		}
		fmt.Fprintf(out, "sent %.60s\n", text)
	}
	return nil
}

// work works on messages until ctx ends. A message whose handler returns an error
// is received again after a wait that grows, and is a dead letter after five
// attempts.
func (p *program) work(ctx context.Context, handle queue.Handler[[]byte]) error {
	listener, err := queue.NewListener(p.queues, []string{name}, queue.Packed{Claims: p.claims}, handle, nil)
	if err != nil {
		return err
	}
	var running sync.WaitGroup
	defer running.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	running.Go(func() { p.sweep(ctx) })
	return listener.Run(ctx)
}

// sweep removes the bodies that were left by kills, once a day.
func (p *program) sweep(ctx context.Context) {
	for ticks := time.Tick(24 * time.Hour); ; {
		if _, err := p.claims.Sweep(ctx, time.Now()); err != nil && ctx.Err() == nil {
			fmt.Fprintln(os.Stderr, "queuealone: sweep:", err) // the next one may work
		}
		select {
		case <-ctx.Done():
			return
		case <-ticks:
		}
	}
}
