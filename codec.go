package kennel

import (
	"encoding"
	"encoding/json"
	"fmt"
	"iter"
	"reflect"
	"strings"
	"sync"

	"kennel/internal/attempt"
)

var (
	marshals = reflect.TypeFor[json.Marshaler]()
	texts    = reflect.TypeFor[encoding.TextMarshaler]()
)

// carriesElements checks the type of elements. A recursive type is checked once
// around: pointers, slices and maps end the recursion of structs.
func carriesElements(t reflect.Type) error {
	if t.Elem().Kind() == reflect.Struct {
		return nil // its own check would not end for a recursive type; Send returns the error
	}
	return carries(t.Elem())
}

// isText reports whether values of a type are texts in JSON by their own method.
func isText(t reflect.Type) bool {
	return t.Implements(texts) || reflect.PointerTo(t).Implements(texts)
}

// checkID returns what is wrong with the field that is the id of an item.
func checkID(t reflect.Type) error {
	if t.Kind() != reflect.Struct {
		return nil
	}
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		isID := name == "id" || name == "" && strings.EqualFold(f.Name, "id")
		if kind := f.Type.Kind(); isID && f.IsExported() && kind >= reflect.Bool && kind <= reflect.Complex128 && !isText(f.Type) && !f.Type.Implements(marshals) {
			return fmt.Errorf("field %s of %v is the id of an item, which is a text: %v is none", f.Name, t, f.Type)
		}
	}
	return nil
}

func carriesFields(t reflect.Type) error {
	if isText(t) || t.Implements(marshals) || reflect.PointerTo(t).Implements(marshals) {
		return nil
	}
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.IsExported() || f.Tag.Get("json") == "-" {
			continue
		}
		if err := carries(f.Type); err != nil {
			return fmt.Errorf("field %s of %v: %w", f.Name, t, err)
		}
	}
	return nil
}

// sendAll sends messages, some at the same time, until the first error.
func sendAll[M any](messages iter.Seq[M], atOnce int, send func(M) (Sent, error)) (sent []Sent, err error) {
	var (
		mu      sync.Mutex
		group   sync.WaitGroup
		free    = make(chan struct{}, atOnce)
		failure error
	)
	for m := range messages {
		free <- struct{}{}
		mu.Lock()
		stop, i := failure != nil, len(sent)
		if !stop {
			sent = append(sent, Sent{})
		}
		mu.Unlock()
		if stop {
			break
		}
		group.Go(func() {
			var one Sent
			attempt.Run(func() (err error) {
				one, err = send(m)
				return err
			}, func(err error) {
				mu.Lock()
				if sent[i] = one; err != nil && failure == nil {
					failure = err
				}
				mu.Unlock()
				<-free
			})
		})
	}
	group.Wait()
	return sent, failure
}
