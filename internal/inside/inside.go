// Package inside lets packages of this module do with a program of package
// kennel what other modules cannot.
package inside

import (
	"context"
	"sync"

	"kennel/internal/parts"
	"kennel/internal/program"
)

// Opening is how kennel.Run opens a program in a test of package kenneltest,
// instead of running it, and the program that it has opened.
type Opening struct {
	Outside  parts.Outside
	Running  *parts.Running
	Declared *program.Declared
}

type openingKey struct{}

// With returns a context with which kennel.Run opens a program.
func With(ctx context.Context, o *Opening) context.Context {
	return context.WithValue(ctx, openingKey{}, o)
}

// OpeningOf returns the opening of a context, or nil.
func OpeningOf(ctx context.Context) *Opening {
	o, _ := ctx.Value(openingKey{}).(*Opening)
	return o
}

// traces has a [parts.TraceOpener] for each *kennel.App that is declared now.
var traces sync.Map

// UseTraces has a program export its traces. app is its *kennel.App, which this
// package cannot import.
func UseTraces(app any, open parts.TraceOpener) { traces.Store(app, open) }

// TakeTraces returns what [UseTraces] set, or nil, and forgets it.
func TakeTraces(app any) parts.TraceOpener {
	open, _ := traces.LoadAndDelete(app)
	o, _ := open.(parts.TraceOpener)
	return o
}
