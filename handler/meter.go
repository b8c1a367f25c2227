package main

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"kennel/instances"
	"kennel/internal/customhandler"
)

// meter counts the invocations of this process.
type meter struct {
	served, nanoseconds atomic.Int64 // of invocations that have ended

	mu      sync.Mutex
	running map[string]int64 // of queues, by queue; guarded by mu
}

// http measures the calls of a handler.
func (m *meter) http(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		began := time.Now()
		defer func() { m.ended(began) }()
		next.ServeHTTP(w, r)
	})
}

// queue measures the invocations of a queue's function.
func (m *meter) queue(name string, next func(context.Context, customhandler.QueueMessage) error) func(context.Context, customhandler.QueueMessage) error {
	return func(ctx context.Context, message customhandler.QueueMessage) error {
		began := time.Now()
		m.add(name, 1)
		defer func() {
			m.add(name, -1)
			m.ended(began)
		}()
		return next(ctx, message)
	}
}

func (m *meter) add(queue string, n int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.running == nil {
		m.running = make(map[string]int64)
	}
	m.running[queue] += n
}

func (m *meter) ended(began time.Time) {
	m.served.Add(1)
	m.nanoseconds.Add(int64(time.Since(began)))
}

func (m *meter) facts(r *instances.Report) {
	r.Served = instances.Served{Count: m.served.Load(), Seconds: time.Duration(m.nanoseconds.Load()).Seconds()}
	m.mu.Lock()
	defer m.mu.Unlock()
	r.Running = make(map[string]int64)
	for queue, n := range m.running {
		if n > 0 {
			r.Running[queue] = n
		}
	}
}
