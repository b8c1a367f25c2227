package devstore

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"kennel/devstore/internal/rest"
)

// Fault is a failure on request, from [Store.Fail] until [Store.Heal].
//
// It applies to the requests that its other members name; empty ones name all.
// If several faults apply, the oldest takes effect.
type Fault struct {
	Kind      Kind
	Service   string        // blob, queue or table
	Container string        // the container, queue or table
	Method    string        // such as PUT
	Operation string        // as Microsoft names it, such as "Put Blob"
	Skip      int           // how many requests pass before it happens
	Times     int           // how often it happens before it ends; 0 means always
	Delay     time.Duration // of Late, Slow and Busy
}

// Kind is the kind of a fault.
type Kind int

// The kinds of faults.
const (
	Refuse Kind = iota + 1 // 500, and nothing was done
	Fail                   // 500, although it was done
	Cut                    // the connection ends without an answer, although it was done
	Busy                   // 503 ServerBusy with Retry-After, and nothing was done
	Late                   // it is done after the delay
	Slow                   // the body of the answer takes the delay
)

// fault is a Fault in a store.
type fault struct {
	Fault
	id       int
	skip     int // requests that still pass
	happened int
}

// faults are those of a store.
type faults struct {
	mu   sync.Mutex
	list []*fault
	last int // id
}

// next returns the fault that happens to a request, if one does.
func (fs *faults) next(service string, op rest.Operation, method string) Fault {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	for i, f := range fs.list {
		if !f.concerns(service, op, method) {
			continue
		}
		if f.skip > 0 {
			f.skip--
			continue
		}
		if f.happened++; f.happened == f.Times {
			fs.list = slices.Delete(fs.list, i, i+1)
		}
		return f.Fault
	}
	return Fault{}
}

func (f *fault) concerns(service string, op rest.Operation, method string) bool {
	is := func(want, got string) bool { return cmp.Or(want, got) == got }
	return is(f.Service, service) && is(f.Container, op.Container) && is(f.Method, method) && is(f.Operation, op.Name)
}
