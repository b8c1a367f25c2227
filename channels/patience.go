package channels

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

// A request that met a passing fault is sent again: up to four tries, waits
// with full jitter that double from 100 ms.
const (
	maxTries  = 4
	firstWait = 100 * time.Millisecond
	tryTime   = 15 * time.Second // for one try
)

// patient is the one layer that repeats requests to a table. A repeated
// transaction may meet its own echo; callers read back what became of it.
type patient struct{ table Table }

func (p patient) Get(ctx context.Context, partition, key string) (Row, error) {
	return try(ctx, func(ctx context.Context) (Row, error) { return p.table.Get(ctx, partition, key) })
}

func (p patient) Query(ctx context.Context, q Query) (Page, error) {
	return try(ctx, func(ctx context.Context) (Page, error) { return p.table.Query(ctx, q) })
}

func (p patient) Submit(ctx context.Context, writes ...Write) ([]string, error) {
	return try(ctx, func(ctx context.Context) ([]string, error) { return p.table.Submit(ctx, writes) })
}

// SubmitOnce is for a transaction of which a second try could undo what came
// after the first.
func (p patient) SubmitOnce(ctx context.Context, writes ...Write) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, tryTime)
	defer cancel()
	return p.table.Submit(ctx, writes)
}

func try[T any](ctx context.Context, request func(context.Context) (T, error)) (T, error) {
	for n := 1; ; n++ {
		one, cancel := context.WithTimeout(ctx, tryTime)
		answer, err := request(one)
		cancel()
		again := passing(err) && n < maxTries
		if err != nil && n > 1 {
			// The tries before may have done it, or may do it yet.
			err = fmt.Errorf("%w: %w", errRepeated, unproven(err))
		}
		if !again || ctx.Err() != nil {
			return answer, err
		}
		if pause(ctx, rand.N(firstWait<<n)) != nil {
			return answer, err // the reason is more telling than the end of time
		}
	}
}

// errRepeated says that an error is the answer to a repeated request, and may
// be the echo of a try before.
var errRepeated = errors.New("sent again")

// unproven hides that a request was refused, where another one before may have
// done something.
func unproven(err error) error {
	if errors.Is(err, ErrRefused) {
		return errors.New(err.Error())
	}
	return err
}

// passing says that trying again may help: the store gave no answer that its
// contract names.
func passing(err error) bool {
	if err == nil {
		return false
	}
	for _, final := range []error{ErrNotFound, ErrExists, ErrChanged, ErrLimit, ErrToken, ErrRefused} {
		if errors.Is(err, final) {
			return false
		}
	}
	return true
}

// unclear is the error of a write that failed, or did not, and could not be
// read back. What the write was told decides nothing then.
func unclear(write, readBack error) error {
	return fmt.Errorf("%v; read it back: %w", write, unproven(readBack))
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
