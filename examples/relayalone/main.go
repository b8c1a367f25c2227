// Relayalone sends messages to Service Bus with package relay alone: no app and no
// storage. While the primary namespace is out of order, it sends to a queue of a
// second namespace, and moves what waits there when the primary works again.
//
//	PRIMARY='Endpoint=sb://…' SECONDARY='Endpoint=sb://…' go run ./examples/relayalone orders <orders.txt
//
// It sends each line of its input to a queue or topic. A line that it prints as
// sent or kept is stored, as a message that is delivered at least once. One that it
// prints as failed may be stored, if no answer came.
//
// It reads the environment:
//
//	PRIMARY     connection string of the namespace of the queues and topics
//	SECONDARY   connection string of the namespace of the backlog
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"time"

	"kennel/azurestore"
	"kennel/relay"
)

// sendTimeout is for how long a message is tried.
const sendTimeout = time.Minute

// closeTimeout is for closing connections in order.
const closeTimeout = 5 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: relayalone QUEUE_OR_TOPIC <lines")
		os.Exit(2)
	}
	if err := run(ctx, os.Getenv("PRIMARY"), os.Getenv("SECONDARY"), os.Args[1], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "relayalone:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, primary, secondary, entity string, in io.Reader, out io.Writer) error {
	p, err := open(ctx, primary, secondary, nil)
	if err != nil {
		return err
	}
	defer p.close()
	kept, failed := 0, 0
	for lines := bufio.NewScanner(in); ; {
		if !lines.Scan() {
			if err := lines.Err(); err != nil {
				return err
			}
			break
		}
		inBacklog, err := p.send(ctx, entity, lines.Text())
		switch {
		case err != nil:
			failed++
			fmt.Fprintf(out, "failed: %s: %v\n", lines.Text(), err)
		case inBacklog:
			kept++
			fmt.Fprintln(out, "kept:", lines.Text())
		default:
			fmt.Fprintln(out, "sent:", lines.Text())
		}
	}
	if kept > 0 {
		// Another process may do this, at any time: kill this one if you like.
		if err := p.moveHome(ctx, out); err != nil {
			return err
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d messages were not sent", failed)
	}
	return nil
}

// program sends messages and moves the backlog.
type program struct {
	sender *relay.Sender
	syphon *relay.Syphon
}

// open opens the namespaces, and creates the queues of the backlog that are
// missing. Every process that sends or moves gives the same namespaces.
func open(ctx context.Context, primary, secondary string, options *relay.Options) (*program, error) {
	// With an identity instead: azurestore.NewRelay.
	first, err := azurestore.NewRelayFromConnectionString(primary)
	if err != nil {
		return nil, fmt.Errorf("the primary namespace: %w", err)
	}
	second, err := azurestore.NewRelayFromConnectionString(secondary)
	if err != nil {
		return nil, fmt.Errorf("the secondary namespace: %w", err)
	}
	queues := relay.BacklogQueues("letters", 2)
	ensuring, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	if _, err := relay.EnsureQueues(ensuring, second, queues); err != nil {
		return nil, err
	}
	p := &program{}
	if p.sender, err = relay.NewSender(first, second, queues, options); err != nil {
		return nil, err
	}
	if p.syphon, err = relay.NewSyphon(first, second, queues, options); err != nil {
		return nil, errors.Join(err, p.sender.Close(ensuring))
	}
	return p, nil
}

// send returns when the namespaces have confirmed a message: in its entity, or in
// the backlog.
func (p *program) send(ctx context.Context, entity, text string) (inBacklog bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	receipt, err := p.sender.Send(ctx, entity, &relay.Message{Body: relay.Body{Data: [][]byte{[]byte(text)}}})
	return receipt.Backlog, err
}

// moveHome moves the backlog to the primary until it is empty. A message that was
// sent and not removed, because of a kill, is sent once more with its id.
func (p *program) moveHome(ctx context.Context, out io.Writer) error {
	for moved := int64(0); ; {
		result, err := p.syphon.PassAndPeek(ctx)
		moved += result.Moved
		if err == nil && !result.More {
			fmt.Fprintln(out, "moved:", moved)
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if result.Moved == 0 { // the primary does not work yet
			select {
			case <-ctx.Done():
			case <-time.After(5 * time.Second):
			}
		}
	}
}

func (p *program) close() {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	var closing sync.WaitGroup
	closing.Go(func() { _ = p.sender.Close(ctx) }) // all sends have ended
	closing.Go(func() { _ = p.syphon.Close(ctx) })
	closing.Wait()
}
