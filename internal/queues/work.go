package queues

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"kennel/internal/attempt"
	"kennel/internal/customhandler"
	"kennel/internal/observe"
	"kennel/internal/program"
	"kennel/internal/trace"
	"kennel/internal/worker"
	"kennel/queue"
)

// delivery is a message that was received.
type delivery struct {
	storage    string
	id         string // of the store
	text       string // without its base64
	body       string // as the store has it, in a worker
	deliveries int64
	inserted   time.Time
	hosted     bool

	envelope queue.Envelope
	raw      bool  // it is no envelope: another program put it there
	number   int   // of this attempt
	own      *own  // nil: unknown here
	newer    error // why this build cannot read the envelope of a newer one
	copied   bool  // a worker has put it again as a new message
}

// isNewer reports whether a text is an envelope of a later version. A handler
// that took it for a body would find members of its type missing, and no error.
func isNewer(text string) bool {
	var e struct {
		V      int
		ID     *string
		Size   *int
		SHA256 []byte
	}
	return json.Unmarshal([]byte(text), &e) == nil && e.V > 1 && e.ID != nil && e.Size != nil && len(e.SHA256) == sha256.Size
}

// open reads the envelope of a delivery.
func (q *Queues) open(d *delivery) {
	e, err := queue.Parse(d.text)
	if err != nil && isNewer(d.text) {
		d.newer = err
	}
	if err != nil || e.Raw {
		d.raw = true
		e = queue.Envelope{ID: d.id, Time: d.inserted}
	}
	d.envelope, d.number = e, numberOf(e, d.deliveries, d.hosted)
	all := q.storage[d.storage]
	for _, o := range all {
		if o.Name == e.Queue || e.Queue == "" && (len(all) == 1 || o.Name == d.storage) {
			d.own = o
		}
	}
	if d.own != nil || e.Queue == "" {
		return
	}
	for _, o := range all { // it was renamed within the storage queue that it shares
		if slices.Contains(o.FormerNames, e.Queue) {
			d.own = o
		}
	}
}

// errUndeclared reports a message of a queue that this build does not declare,
// or does not work on.
var errUndeclared = errors.New("it declares no handler for the queue")

// patience is how long a message waits for an attempt of its queue to end. Behind
// a host it is received, and others could do it.
const patience = 5 * time.Second

// maxHosted is after how many deliveries of a message a host's process puts it
// again before the attempt: kills count in the host, which would move the message
// to the dead letters by itself after [observe.MaxDeliveries].
const maxHosted = observe.MaxDeliveries / 2

// work makes the attempt of a delivery, and returns how it ends.
func (q *Queues) work(ctx context.Context, d *delivery) ending {
	switch {
	case d.newer != nil:
		return q.putBack(d, d.newer)
	case d.own == nil || d.own.Handled == 0:
		return q.putBack(d, errUndeclared)
	case d.hosted && d.deliveries > maxHosted, d.hosted && q.stopping.Err() != nil, q.opt.Ready(ctx) != nil:
		return d.again(0, nil)
	}
	q.opt.Pauses.Refresh(ctx)
	if pause := q.opt.Pauses.Of(d.own.Name); pause != nil {
		return d.held(pause)
	}
	select {
	case d.own.slots <- struct{}{}:
	default:
		select {
		case d.own.slots <- struct{}{}:
		case <-time.After(patience):
			return d.again(time.Second, nil)
		case <-ctx.Done():
			return d.again(0, nil)
		}
	}
	defer func() { <-d.own.slots }()
	body, err := q.body(ctx, d)
	switch {
	case errors.Is(err, queue.ErrClaimGone) && d.deliveries-d.envelope.Seen > 1:
		q.opt.Log.WarnContext(ctx, "the long body of a message is gone: an earlier delivery of it was done", "queue", d.own.Name, "message", d.envelope.ID)
		return ending{fate: fateDone}
	case errors.Is(err, queue.ErrClaimGone):
		// Probably another copy of it was done, of a put whose reply was lost. But
		// if the claims were deleted, this is all that shows it.
		return ending{fate: fateDead, attempts: d.number, err: err}
	case errors.Is(err, queue.ErrMessage):
		return ending{fate: fateDead, attempts: d.number, err: err}
	case err != nil:
		return foreign(d, firstForeign, err) // storage failed
	}
	if pause := q.opt.Pauses.Of(d.own.Name); pause != nil {
		return d.held(pause) // since the wait for a slot began
	}
	return q.attempt(ctx, d, body)
}

// putBack has a message wait for another build, and shows that.
func (q *Queues) putBack(d *delivery, why error) ending {
	name := d.envelope.Queue
	if name == "" {
		name = d.storage
	}
	return foreign(d, time.Since(q.unknown.Occurred(name, why, unknownLasts).Since), why)
}

// body returns the body of a message.
func (q *Queues) body(ctx context.Context, d *delivery) ([]byte, error) {
	if d.raw {
		return []byte(d.text), nil
	}
	return q.claims[d.storage].Body(ctx, d.envelope)
}

func (q *Queues) attempt(ctx context.Context, d *delivery, body []byte) ending {
	o := d.own
	if end, words, ok := d.dying(); ok {
		if o.Dead != nil && words > lastWords {
			end.err = fmt.Errorf("%w; the queue's Dead did not end in %d deliveries", end.err, lastWords)
			return end
		}
		return q.lastWord(ctx, d, body, end)
	}
	began := time.Now()
	trace.Current(ctx).Number(trace.Attempt, int64(d.number))
	a := attempt.Attempt{Queue: o.Name, ID: d.envelope.ID, Number: d.number, MaxAttempts: o.MaxAttempts, SentAt: d.envelope.Time}
	v := attempt.Do(ctx, a, o.Timeout, func(ctx context.Context) error { return o.Work(ctx, body) }, q.wraps...)
	o.ended(v.Outcome, began, d.envelope.Time)
	if v.Outcome == attempt.Failed && program.IsUnreadable(v.Err) {
		if others, err := q.opt.Others(ctx); others || err != nil {
			return q.putBack(d, v.Err)
		}
		return q.lastWord(ctx, d, body, ending{fate: fateDead, attempts: d.number, err: v.Err})
	}
	end := q.judge(ctx, o.Queue, a, v)
	if end.fate == fateDone {
		q.lastDone[d.storage].Store(attempt.Now(ctx).UnixNano())
	}
	if end.fate == fateDead {
		return q.lastWord(ctx, d, body, end)
	}
	if end.err != nil {
		q.opt.Log.WarnContext(ctx, "attempt failed; trying again later", "attempt", a, "in", end.wait.String(), "error", v.Err.Error())
	}
	return end
}

// lastWords is how often the last word of a message is tried, with these waits
// between.
const lastWords = 3

const wordPause = 2 * time.Second

// lastWord calls Dead of the queue before a message becomes a dead letter, until
// it returns nil, some times at most. If the process ends meanwhile, the message
// is delivered again, and comes here again.
func (q *Queues) lastWord(ctx context.Context, d *delivery, body []byte, end ending) ending {
	if d.own.Dead == nil {
		return end
	}
	a := attempt.Attempt{Queue: d.own.Name, ID: d.envelope.ID, Number: end.attempts, MaxAttempts: d.own.MaxAttempts, SentAt: d.envelope.Time}
	for try := 1; ; try++ {
		v := attempt.DoApart(ctx, a, d.own.Timeout, func(ctx context.Context) error {
			return d.own.Dead(ctx, body, program.Dead{Reason: end.err.Error(), Attempts: end.attempts})
		})
		switch {
		case v.Outcome == attempt.Done:
			return end
		case ctx.Err() != nil:
			return ending{fate: fateAgain, attempts: end.attempts, dying: end.err.Error()}
		case try == lastWords:
			end.err = fmt.Errorf("%w; the queue's Dead failed %d times: %s", end.err, try, v.Reason())
			return end
		}
		q.opt.Log.WarnContext(ctx, "the last word of a message failed; trying again", "attempt", a, "error", v.Err.Error())
		select {
		case <-time.After(wordPause):
		case <-ctx.Done():
		}
	}
}

// again returns the text with which a message is tried again. seen is the count
// of deliveries that the store goes on from: 0 for a new message.
func (q *Queues) again(ctx context.Context, d *delivery, end ending, seen int64) (string, error) {
	if d.newer != nil {
		return d.text, nil
	}
	e := d.envelope
	e.Attempts, e.Seen, e.Reason = end.attempts, seen, end.dying
	if d.raw {
		return q.claims[d.storage].Pack(ctx, e, []byte(d.text))
	}
	return e.Text()
}

// letter returns the text of the dead letter of a message. It keeps its claim.
func (q *Queues) letter(ctx context.Context, d *delivery, end ending) (string, error) {
	e := d.envelope
	e.Attempts, e.Seen, e.Reason = end.attempts, 0, end.err.Error()
	e.Private = e.Private || d.own != nil && d.own.Queue.Private // the sender may be another program, or an older build
	if d.raw {
		e.Raw = true
		return q.claims[d.storage].Pack(ctx, e, []byte(d.text))
	}
	return e.Text()
}

// hosted returns the function of a storage queue. After nil the host deletes the
// message.
func (q *Queues) hosted(storage string) func(context.Context, customhandler.QueueMessage) error {
	return q.opt.Meter.Queue(storage, worker.TracedQueue(storage, func(ctx context.Context, m customhandler.QueueMessage) (observe.Ending, error) {
		d := &delivery{storage: storage, id: m.ID, text: m.Text, deliveries: m.DequeueCount, inserted: m.Inserted, hosted: true}
		if d.id == "" {
			d.id = queueID(m)
		}
		q.open(d)
		attempting, cancel := context.WithCancelCause(ctx)
		defer cancel(nil)
		defer context.AfterFunc(q.stopped, func() { cancel(attempt.ErrStopping) })()
		end := q.work(attempting, d)
		switch end.fate {
		case fateAgain:
			err := worker.Outlast(ctx, func(bool) error {
				return q.publish(ctx, storage, end.wait, func(ctx context.Context) (string, error) { return q.again(ctx, d, end, 0) })
			})
			if err != nil {
				return observe.Done, fmt.Errorf("put a message again: %w", err)
			}
			if end.attempts >= d.number {
				return observe.Retried, nil
			}
			return observe.PutBack, nil
		case fateDead:
			err := worker.Outlast(ctx, func(bool) error {
				return q.publish(ctx, storage+queue.PoisonSuffix, 0, func(ctx context.Context) (string, error) { return q.letter(ctx, d, end) })
			})
			if err != nil {
				return observe.Done, fmt.Errorf("put a message among the dead letters: %w", err)
			}
			q.buried(ctx, d, end)
			trace.Current(ctx).Text(trace.Outcome, "dead_letter")
			return observe.DeadLetter, nil
		}
		ctx, free := context.WithTimeout(context.WithoutCancel(ctx), sendTimeout)
		defer free()
		if err := q.forget(ctx, d); err != nil {
			q.opt.Log.WarnContext(ctx, "cannot remove the long body of a message that is done; a sweep removes it", "message", d.envelope.ID, "error", err.Error())
		}
		return observe.Done, nil
	}))
}

// publish puts a text into a storage queue, also after the end of the attempt:
// otherwise the message would count a delivery that failed.
func (q *Queues) publish(ctx context.Context, storage string, wait time.Duration, write func(context.Context) (string, error)) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sendTimeout)
	defer cancel()
	text, err := write(ctx)
	if err != nil {
		return err
	}
	return q.publisher.Publish(ctx, storage, worker.InBase64(text), wait)
}

// queueID is the id of a message whose host names none: dead letters of equal
// texts would be taken for copies of one.
func queueID(m customhandler.QueueMessage) string {
	return fmt.Sprintf("%s-%d", base64.RawURLEncoding.EncodeToString([]byte(m.Inserted.UTC().Format(time.RFC3339Nano))), len(m.Text))
}

// forget removes what is stored for a message that is done.
func (q *Queues) forget(ctx context.Context, d *delivery) error {
	if d.raw {
		return nil
	}
	return q.claims[d.storage].Remove(ctx, d.envelope)
}

// buried counts and logs a new dead letter.
func (q *Queues) buried(ctx context.Context, d *delivery, end ending) {
	q.letters[d.storage].Added(end.err, 0)
	q.opt.Log.WarnContext(ctx, "message put among the dead letters", "queue", d.storage+queue.PoisonSuffix, "message", d.envelope.ID, "reason", end.err.Error())
}

// Functions registers the functions of the storage queues on which the program
// works.
func (q *Queues) Functions(host *customhandler.App) {
	for _, name := range q.working {
		host.Queue(program.FunctionOfQueue(name), "message", q.hosted(name))
	}
}
