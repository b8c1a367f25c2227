package parts

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"

	"kennel/gate"
	"kennel/internal/apptest"
	"kennel/internal/config"
	"kennel/internal/memory"
	"kennel/internal/observe"
	"kennel/internal/table"
	"kennel/queue"
	"kennel/work"
	"kennel/work/processors"
)

// memoryBatches is batches on stores in memory.
type memoryBatches struct {
	*batchPart
	queues *memory.Queues
	flags  *memory.Values
	gates  *gate.Gates // nil without a work gate
	log    *apptest.Buffer
}

// newMemoryBatches wires batches whose requests have faults.
func newMemoryBatches(t *testing.T, queues *memory.Queues, o *memory.Options, env ...string) *memoryBatches {
	t.Helper()
	settings := map[string]string{"AzureWebJobsStorage": "UseDevelopmentStorage=true"}
	for _, setting := range env {
		name, value, _ := strings.Cut(setting, "=")
		settings[name] = value
	}
	cfg, err := config.Load(settings)
	if err != nil {
		t.Fatal(err)
	}
	m := &memoryBatches{queues: queues, log: &apptest.Buffer{}}
	if cfg.WorkGate != "" {
		m.flags = memory.NewValues(o)
		if m.gates, err = gate.New(m.flags, nil); err != nil {
			t.Fatal(err)
		}
	}
	log := slog.New(slog.NewJSONHandler(m.log, nil))
	processors, err := testProcessors(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if m.batchPart, err = newBatchPart(newBatchWork(cfg, processors, m.gates, &observe.Meter{}, log), nil); err != nil {
		t.Fatal(err)
	}
	tables := &memory.TableOptions{}
	if o != nil {
		tables.Options = *o
	}
	m.open = m.once(func() (*openBatches, error) {
		claimRows, err := table.New(memory.NewTable(tables))
		if err != nil {
			return nil, err
		}
		claims, err := queue.NewClaims(claimRows, memory.NewContainer(o))
		if err != nil {
			return nil, err
		}
		stores := work.Stores{Rows: memory.NewTable(tables), Staging: memory.NewContainer(o), Reports: memory.NewContainer(o), Claims: claims}
		return m.openOn(cfg, stores, queues, 0, nil)
	})
	return m
}

// runs runs the gates and what belongs to batches until stop is called.
func (m *memoryBatches) runs(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for _, part := range []func(context.Context) error{m.gates.Run, m.Run} {
		running.Go(func() {
			if err := part(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	return func() { cancel(); running.Wait() }
}

// release releases the work gate.
func (m *memoryBatches) release(t *testing.T) {
	t.Helper()
	if _, err := m.gates.Release(t.Context(), m.gate.name, gate.Change{By: "ann"}); err != nil {
		t.Fatal(err)
	}
}

// closeElsewhere closes the work gate in another process.
func (m *memoryBatches) closeElsewhere(t *testing.T) {
	t.Helper()
	other, err := gate.New(m.flags, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Close(t.Context(), m.gate.name, gate.Change{By: "bob"}); err != nil {
		t.Fatal(err)
	}
}

// testProcessors returns the processors of the tests, as the app's own.
func testProcessors(cfg config.Config) (map[string]work.Processor, error) {
	webhook, err := processors.NewWebhook(cfg.WebhookAllow, nil)
	return map[string]work.Processor{"billing": processors.Billing{}, "webhook": webhook}, err
}
