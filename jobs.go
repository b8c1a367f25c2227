package kennel

import (
	"context"
	"fmt"
	"time"

	"kennel/internal/parts"
	"kennel/internal/program"
)

// Numbers issues order numbers of one sequence, which never repeat, on any number
// of nodes. Numbers may be skipped.
type Numbers struct {
	app  *App
	name string
}

// NumbersOptions are the options of numbers. It has no fields yet.
type NumbersOptions struct{}

// Numbers declares a sequence of order numbers. It begins with 1, and is the one
// that the HTTP API has under the same name.
func (a *App) Numbers(name string, options *NumbersOptions) *Numbers {
	a.use(program.Numbers, fmt.Sprintf("numbers %q are", name))
	if err := parts.CheckSequence(name); err != nil {
		a.mistake("numbers %q: %w", name, err)
	}
	return &Numbers{a, name}
}

// use records the use of a built-in part.
func (a *App) use(p program.Part, what string) {
	a.declaring("%s declared", what)
	a.declared.Use(p)
}

// Next returns the next number. Most calls make no request.
func (n *Numbers) Next(ctx context.Context) (int64, error) { return n.NextRange(ctx, 1) }

// NextRange reserves count consecutive numbers and returns the first one.
func (n *Numbers) NextRange(ctx context.Context, count int) (first int64, err error) {
	running := n.app.running.Load()
	if running == nil {
		return 0, fmt.Errorf("numbers %q: %w", n.name, ErrNotRunning)
	}
	return running.NextNumbers(ctx, n.name, count)
}

// Gate holds waiting nodes back and releases them all at once.
type Gate struct {
	app  *App
	name string
}

// GateOptions are the options of a gate. It has no fields yet.
type GateOptions struct{}

// Gate declares a gate, which is closed until it is released for the first time.
func (a *App) Gate(name string, options *GateOptions) *Gate {
	a.use(program.Gates, fmt.Sprintf("gate %q is", name))
	if err := parts.CheckGate(name); err != nil {
		a.mistake("gate %q: %w", name, err)
	}
	return &Gate{a, name}
}

// Wait returns when the gate is open, or with the cause of ctx when it ends.
func (g *Gate) Wait(ctx context.Context) error {
	running := g.app.running.Load()
	if running == nil {
		return fmt.Errorf("gate %q: %w", g.name, ErrNotRunning)
	}
	return running.WaitAtGate(ctx, g.name)
}

// Release releases all that wait. by names who does it.
func (g *Gate) Release(ctx context.Context, by, reason string) error {
	return g.change(ctx, by, reason, true)
}

// Close closes the gate. by names who does it.
func (g *Gate) Close(ctx context.Context, by, reason string) error {
	return g.change(ctx, by, reason, false)
}

func (g *Gate) change(ctx context.Context, by, reason string, release bool) error {
	running := g.app.running.Load()
	if running == nil {
		return fmt.Errorf("gate %q: %w", g.name, ErrNotRunning)
	}
	return running.ChangeGate(ctx, g.name, by, reason, release)
}

// Messages sends messages to Service Bus, also while its namespace is down.
type Messages struct{ app *App }

// MessagesOptions are the options of messages. It has no fields yet.
type MessagesOptions struct{}

// Messages declares that the program sends messages to the namespace of the
// setting ServiceBus, and during its outage to the backlog on that of
// ServiceBusSecondary.
func (a *App) Messages(options *MessagesOptions) *Messages {
	a.use(program.Messages, "messages are")
	return &Messages{a}
}

// BusMessage is a message for a queue or topic of Service Bus. Fields that are
// empty are not sent.
type BusMessage struct {
	ID            string // the broker drops a second one of the same id, where its queue detects duplicates; default: a new one
	Body          []byte
	ContentType   string
	Subject       string
	SessionID     string
	CorrelationID string
	Properties    map[string]any // of strings, numbers, booleans and times
	TimeToLive    time.Duration  // default: that of the entity
}

// BusReceipt is what became of a message.
type BusReceipt struct {
	ID      string
	Backlog bool // it waits on the secondary namespace
}

// Send sends a message to a queue or topic. It returns when the broker, or the
// backlog, has confirmed it.
func (m *Messages) Send(ctx context.Context, entity string, message BusMessage) (BusReceipt, error) {
	running := m.app.running.Load()
	if running == nil {
		return BusReceipt{}, fmt.Errorf("send to %q: %w", entity, ErrNotRunning)
	}
	receipt, err := running.SendToBus(ctx, entity, program.BusMessage(message))
	return BusReceipt(receipt), err
}

// Batches declares that the program uses batches whose processors are others',
// or built in. A processor declares it by itself.
func (a *App) Batches(options *BatchesOptions) *Batches {
	a.use(program.Batches, "batches are")
	return &Batches{a}
}

// BatchesOptions are the options of batches. It has no fields yet.
type BatchesOptions struct{}

// Batches reads the batches of the program, whatever their processors.
type Batches struct{ app *App }

// Batch returns a batch.
func (b *Batches) Batch(ctx context.Context, id string) (Batch, error) {
	running := b.app.running.Load()
	if running == nil {
		return Batch{}, fmt.Errorf("read batch %q: %w", id, ErrNotRunning)
	}
	batch, err := running.Batch(ctx, id)
	return Batch(batch), err
}
