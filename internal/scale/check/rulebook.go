package check

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"kennel/internal/instances"
	"kennel/internal/scale"
	"kennel/queue"
)

// The blobs of the rules. An operator may write the first one by any means, so a
// copy of the last valid rules is kept beside it.
const (
	rulesBlob = "rules.json"
	inUseBlob = "rules-in-use.json"

	maxRules = 64 << 10
)

// ErrRules reports rules that are invalid.
var ErrRules = errors.New("the rules are invalid")

// ruleBook is the rules in use.
type ruleBook struct {
	blobs queue.Blobs
	log   *slog.Logger

	loading sync.Mutex // held while the rules are loaded
	known   bool       // the next two are known; guarded by loading, as they are
	text    []byte     // of the blob, when it was last valid; nil without one
	rules   scale.Rules

	invalid instances.Tracker[string, error] // why the stored rules are not used, of rulesBlob
}

// load reads the rules. Without any, it returns the default rules. If they are
// invalid or cannot be read, it returns the last ones that were valid.
func (b *ruleBook) load(ctx context.Context) (scale.Rules, error) {
	b.loading.Lock()
	defer b.loading.Unlock()
	text, rules, err := b.read(ctx)
	switch {
	case err == nil:
		if text != nil && (!b.known || !bytes.Equal(text, b.text)) {
			if err := b.blobs.Put(ctx, inUseBlob, text); err != nil {
				b.log.WarnContext(ctx, "cannot keep a copy of the rules of scaling", "error", err.Error())
			}
		}
		b.known, b.text, b.rules = true, text, rules
		b.judge(nil)
	case errors.Is(err, ErrRules):
		if !b.known {
			valid, failed := b.lastValid(ctx)
			if failed != nil {
				return valid, failed
			}
			b.known, b.rules = true, valid
		}
		b.judge(err)
	case !b.known:
		return rules, err
	default:
		b.log.WarnContext(ctx, "cannot read the rules of scaling; using those of the last check", "error", err.Error())
	}
	return b.rules, nil
}

// read reads the rules as they are stored; text is nil if there are none. The
// error wraps ErrRules if they are invalid.
func (b *ruleBook) read(ctx context.Context) (text []byte, rules scale.Rules, err error) {
	text, err = b.blobs.Get(ctx, rulesBlob, maxRules)
	switch {
	case errors.Is(err, queue.ErrNotFound):
		return nil, rules, nil
	case errors.Is(err, queue.ErrLarge):
		return nil, rules, fmt.Errorf("%w: they are longer than %d bytes", ErrRules, maxRules)
	case err != nil:
		return nil, rules, fmt.Errorf("read the rules of scaling: %w", err)
	}
	rules, err = parse(text)
	return text, rules, err
}

func parse(text []byte) (scale.Rules, error) {
	rules, err := scale.ParseRules(text)
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrRules, err)
	}
	return rules, err
}

// lastValid reads the copy of the last valid rules. Without one, or if it was
// changed, it returns the default rules.
func (b *ruleBook) lastValid(ctx context.Context) (scale.Rules, error) {
	text, err := b.blobs.Get(ctx, inUseBlob, maxRules)
	if errors.Is(err, queue.ErrNotFound) || errors.Is(err, queue.ErrLarge) {
		return scale.Rules{}, nil
	}
	if err != nil {
		return scale.Rules{}, fmt.Errorf("read the last valid rules of scaling: %w", err)
	}
	rules, err := scale.ParseRules(text)
	if err != nil {
		return scale.Rules{}, nil
	}
	return rules, nil
}

// judge records whether the stored rules are valid.
func (b *ruleBook) judge(invalid error) {
	if invalid == nil {
		b.invalid.Solved(rulesBlob)
	} else if p := b.invalid.Occurred(rulesBlob, invalid, problemLasts); p.Count == 1 {
		b.log.Warn("the stored rules of scaling are invalid and not used", "error", invalid.Error())
	}
}
