// Package items reads the items of a batch from the body of its submission, and
// checks them: their syntax, their ids, and that two readers of an item cannot
// take it for different things.
package items

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"kennel/work/internal/model"
)

// Read passes each item to add, in compact form, which is valid until add
// returns. Validate is that of a processor. If an item is invalid, no more are
// passed to add, and read returns the first invalid ones as [*ItemErrors].
func (r *Reader) Read(ctx context.Context, maxItems int, validate func(json.RawMessage) error, add func(context.Context, model.Item) error) error {
	next := r.nextLine
	if r.array {
		next = r.nextElement
	}
	invalid := &model.ItemErrors{}
	items := 0
	for {
		text, err := next()
		if err == io.EOF {
			break
		}
		var damaged *model.ItemErrors
		switch {
		case errors.As(err, &damaged):
			addError(invalid, damaged.Items[0].Line, errors.New(damaged.Items[0].Message))
			return invalid
		case err != nil && err != errLong:
			return err
		}
		if items++; items > maxItems {
			return fmt.Errorf("more than %d items: %w", maxItems, model.ErrTooLarge)
		}
		var item model.Item
		if err == nil {
			item, err = r.check(text, validate)
		}
		switch {
		case err != nil:
			if addError(invalid, r.line, err); invalid.More {
				return invalid
			}
		case len(invalid.Items) == 0:
			if err := add(ctx, item); err != nil {
				return err
			}
		}
	}
	if items == 0 || len(invalid.Items) > 0 {
		return invalid
	}
	return nil
}

// addError adds the error of an item if there is space for it.
func addError(e *model.ItemErrors, line int, err error) {
	if len(e.Items) == model.MaxItemErrors {
		e.More = true
		return
	}
	e.Items = append(e.Items, model.ItemError{Line: line, Message: model.ShortError(err.Error())})
}

// check returns an item in compact form, which is valid until the next call.
func (r *Reader) check(text []byte, validate func(json.RawMessage) error) (model.Item, error) {
	r.compact.Reset()
	if !utf8.Valid(text) {
		return model.Item{}, errors.New("the item is not UTF-8")
	}
	item := text
	if !IsPlain(text) {
		if err := json.Compact(&r.compact, text); err != nil {
			return model.Item{}, fmt.Errorf("the item is not JSON: %w", err)
		}
		item = r.compact.Bytes()
	}
	id, err := r.items.check(item)
	if err != nil {
		return model.Item{}, err
	}
	sum := sha256.Sum256([]byte(id))
	digest := [16]byte(sum[:16])
	if line, ok := r.seen[digest]; ok {
		place := "line"
		if r.array {
			place = "element"
		}
		return model.Item{}, fmt.Errorf("the id %q is used in %s %d too", id, place, line)
	}
	r.seen[digest] = int32(r.line)
	return model.Item{ID: id, Data: item}, validate(item)
}
