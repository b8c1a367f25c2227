package check

import (
	"context"
	"errors"
	"fmt"
	"time"

	"kennel/internal/scale"
)

// beginTimeout limits how long Begin waits for storage.
const beginTimeout = 5 * time.Second

// Begin reads the rules for HandsFor, so that a worker does not begin with
// others. If they cannot be read, the default ones hold until the next check of
// any process.
func (c *Check) Begin(ctx context.Context) {
	bounded, cancel := context.WithTimeout(ctx, beginTimeout)
	defer cancel()
	rules, err := c.Rules(bounded)
	if err != nil {
		if ctx.Err() == nil {
			c.opt.Log.WarnContext(ctx, "cannot read the rules of scaling; the default ones hold until the next check", "error", err.Error())
		}
		return
	}
	c.inUse.CompareAndSwap(nil, &rules)
}

// HandsFor returns how many messages of a queue this process should work on at
// the same time, by the rules that it read last: at Begin, or in the regular
// read of Loop. It makes no request.
func (c *Check) HandsFor(messages int64, oldest time.Duration) int {
	if rules := c.inUse.Load(); rules != nil {
		return rules.HandsFor(messages, oldest)
	}
	return scale.Rules{}.HandsFor(messages, oldest)
}

// Rules returns the rules in use, with all defaults filled in.
func (c *Check) Rules(ctx context.Context) (scale.Rules, error) {
	_, rules, err := c.rules.read(ctx)
	if errors.Is(err, ErrRules) {
		return c.rules.lastValid(ctx)
	}
	return rules, err
}

// TryRules returns what PutRules would, and stores nothing.
func (c *Check) TryRules(_ context.Context, text []byte) (scale.Rules, error) { return parse(text) }

// PutRules stores rules, which the next check uses, and returns them with all
// defaults. If they are invalid, the error wraps ErrRules, and the old ones stay.
func (c *Check) PutRules(ctx context.Context, text []byte) (scale.Rules, error) {
	rules, err := parse(text)
	if err != nil {
		return rules, err
	}
	if err := c.rules.blobs.Put(ctx, rulesBlob, text); err != nil {
		return rules, fmt.Errorf("store the rules of scaling: %w", err)
	}
	return rules, nil
}
