package relay_test

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"kennel/relay"
)

// While no backlog queue works, each is tried about once a second, however many
// sends wait, and reported once a minute. As soon as one works, all are sent.
func TestBacklogThatDoesNotWork(t *testing.T) {
	for name, outage := range map[string]func(p *pair){
		"missing":  func(p *pair) { p.secondary.remove(queues...) },
		"full":     func(p *pair) { p.secondary.set(always(full)) },
		"refused":  func(p *pair) { p.secondary.set(always(refuse)) },
		"busy":     func(p *pair) { p.secondary.set(always(busy)) },
		"internal": func(p *pair) { p.secondary.set(always(internal)) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPair(t, relay.Options{Interval: atOnce}.WithTimes(0, time.Hour))
				defer p.close(t)
				p.primary.set(always(refuse))
				outage(p)
				var all sync.WaitGroup
				for i := range 50 {
					m := text(fmt.Sprint(i))
					if i%2 == 0 {
						m = inSession(fmt.Sprint(i), fmt.Sprint(i))
					}
					all.Go(func() {
						if r, err := p.send(10*time.Minute, "orders", m); err != nil || !r.Backlog {
							t.Errorf("%+v, %v", r, err)
						}
					})
				}
				const lasts = 5 * time.Minute
				time.Sleep(lasts)
				for _, q := range queues {
					// The first sends do not know yet that it fails.
					if n := len(p.secondary.sends(q)); n < int(lasts/(15*time.Second)) || n > int(lasts/time.Second)+50 {
						t.Errorf("%s was tried %d times in %v", q, n, lasts)
					}
				}
				events := 0
				for _, e := range p.events() {
					if e.Kind == relay.QueueFailed {
						events++
					}
				}
				if most := len(queues) * int(lasts/time.Minute); events > most || events < most-len(queues) {
					t.Errorf("%d events in %v, want about %d", events, lasts, most)
				}
				p.secondary.restore(queues...)
				began := time.Now()
				all.Wait()
				if took := time.Since(began); took > 15*time.Second {
					t.Errorf("sent %v after the queues worked", took)
				}
			})
		})
	}
}

// A queue that never answers is left out, also if all deadlines are shorter than
// a second.
func TestShortDeadlinesLeaveOutQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPair(t, &relay.Options{Interval: atOnce})
		defer p.close(t)
		p.primary.set(always(refuse))
		p.secondary.set(onlyAt(queues[0], hang))
		failed := 0
		for i := range 100 {
			if _, err := p.send(500*time.Millisecond, "orders", text(fmt.Sprint(i))); err != nil {
				failed++
			}
		}
		if failed > 2 {
			t.Errorf("%d sends failed, want at most 2", failed)
		}
	})
}
