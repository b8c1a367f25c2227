package servicebus

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"kennel/internal/dev/devbus"
)

// TestSignalsThroughFaults lets a bus go wrong at random, one thing after the
// other and several at a time, and looks for a listener that is not heard of
// again, one that storms the bus, and a stop that takes long.
//
// Connections fall silent only in runs of some minutes, in which nobody
// publishes: the SDK connects and renews its tokens under a lock, and virtual
// time stands still while anybody waits for that.
func TestSignalsThroughFaults(t *testing.T) {
	const runs = 40
	base := rand.Uint64()
	t.Logf("seeds %d to %d", base, base+runs-1)
	for i := range uint64(runs) {
		seed := base + i
		withBus(t, func(t *testing.T, b *devbus.Broker) {
			w := &faultyBus{Broker: b, random: rand.New(rand.NewPCG(seed, 0)), kinds: loud, lasts: 30 * time.Minute}
			if w.silent = i%2 == 0; w.silent {
				w.kinds, w.lasts = append(w.kinds, devbus.Freeze, devbus.BlackHole), 270*time.Second
			}
			w.live(t, i%4 < 2)
			if t.Failed() {
				t.Logf("seed %d:\n%s", seed, strings.Join(w.story, "\n"))
			}
		})
	}
}

// loud are the faults that a client hears of in time.
var loud = []devbus.Kind{
	devbus.RefuseDial, devbus.DropHeartbeats, devbus.CloseBefore, devbus.CloseAfter, devbus.Silent, devbus.SilentAfter,
	devbus.Slow, devbus.Reject, devbus.Full, devbus.Detach, devbus.RefuseAttach, devbus.CBS, devbus.DeleteEntity, devbus.ClockSkew,
}

// faultyBus is a bus, and what is wrong with it in one simulation.
type faultyBus struct {
	*devbus.Broker
	random *rand.Rand
	kinds  []devbus.Kind
	lasts  time.Duration
	silent bool
	story  []string
}

func (w *faultyBus) live(t *testing.T, stopAmid bool) {
	var dials atomic.Int64
	o := inProcess(w.Broker)
	o.Dial = func(context.Context) (net.Conn, error) {
		dials.Add(1)
		return w.Dial(), nil
	}
	d, stop := listen(t, openSignals(t, o))
	publisher := openSignals(t, inProcess(w.Broker))
	for began := time.Now(); time.Since(began) < w.lasts; {
		w.pause(20 * time.Second)
		what := w.goWrong()
		w.story = append(w.story, fmt.Sprintf("%v %s", time.Since(began).Round(time.Millisecond), what))
		if !w.silent && w.random.IntN(4) == 0 {
			publish(t, publisher, release)
		}
	}
	if most := int64(w.lasts / (500 * time.Millisecond)); dials.Load() > most {
		t.Errorf("it dialled %d times, want at most %d", dials.Load(), most)
	}
	if !stopAmid {
		w.Heal()
		for began := time.Now(); ; {
			_, _, before, _ := d.read()
			publish(t, publisher, release)
			time.Sleep(time.Second)
			if _, _, heard, _ := d.read(); d.isUp() && len(heard) > len(before) {
				break
			}
			if took := time.Since(began); took > 80*time.Second {
				t.Fatalf("healed, and not heard of for %v; up: %v", took, d.isUp())
			}
		}
	}
	began := time.Now()
	if err := stop(); err != nil {
		t.Errorf("listening ended with %v", err)
	}
	if took := time.Since(began); took > farewell+2*closeWithin+100*time.Millisecond {
		t.Errorf("the stop took %v", took)
	}
	w.Heal()
}

// goWrong makes, ends or adds a fault, and says what it was.
func (w *faultyBus) goWrong() string {
	switch w.random.IntN(4) {
	case 0:
		w.Heal()
		return "healed"
	case 1:
		w.DropConnections()
		return "connections dropped"
	}
	conditions := []string{
		"amqp:internal-error", "amqp:link:detach-forced", "com.microsoft:server-busy", "com.microsoft:timeout", "amqp:not-found",
		"com.microsoft:entity-disabled", "amqp:connection:forced", "amqp:resource-limit-exceeded", "amqp:not-allowed",
	}
	statuses := []int{503, 500, 408, 403}
	f := devbus.Fault{
		Kind:      w.kinds[w.random.IntN(len(w.kinds))],
		On:        devbus.Op(1 + w.random.IntN(7)),
		Times:     w.random.IntN(4),
		Condition: conditions[w.random.IntN(len(conditions))],
		Status:    statuses[w.random.IntN(len(statuses))],
		Delay:     time.Duration(w.random.Int64N(int64(10 * time.Second))),
	}
	if f.Kind == devbus.DeleteEntity {
		names := subscriptions(w.Broker)
		if len(names) == 0 {
			return "no subscription to delete"
		}
		f.Entity = topic + "/Subscriptions/" + names[0]
	}
	w.Fail(f)
	return fmt.Sprintf("%+v", f)
}

func (w *faultyBus) pause(most time.Duration) {
	time.Sleep(time.Duration(w.random.Int64N(int64(most))))
}
