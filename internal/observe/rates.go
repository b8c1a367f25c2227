package observe

import (
	"context"

	"kennel/internal/instances"
)

// Rate is how much work on a queue ends in a second.
type Rate struct {
	Done   float64 // messages
	Failed float64 // attempts
}

// Rates are those of all living processes, each within the window of its last
// report.
type Rates struct {
	Declared map[string]Rate // by declared queue
	Storage  map[string]Rate // by storage queue
}

// Rates adds up what the processes report, with one request. If the other ones
// cannot be read, it is that of this process.
func (m *Members) Rates(ctx context.Context) Rates {
	others, _ := m.Live(ctx, instances.AttemptedSection, instances.RecentSection)
	return ratesOf((&view{own: m.Report(), others: others}).reports())
}

func ratesOf(reports []instances.Report) Rates {
	all := Rates{make(map[string]Rate), make(map[string]Rate)}
	for _, r := range reports {
		if r.Window <= 0 {
			continue
		}
		add := func(to map[string]Rate, queue string, done, failed int64) {
			sum := to[queue]
			to[queue] = Rate{sum.Done + float64(done)/r.Window, sum.Failed + float64(failed)/r.Window}
		}
		for queue, a := range instances.AttemptedSection.Of(r) {
			add(all.Declared, queue, a.Done, a.Failed)
		}
		for queue, w := range instances.RecentSection.Of(r) {
			add(all.Storage, queue, w.Done, w.Failed)
		}
	}
	return all
}
