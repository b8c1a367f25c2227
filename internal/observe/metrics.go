package observe

import (
	"context"

	"kennel/internal/instances"
	"kennel/internal/metrics"
)

// depths returns the depths of queues in the recent samples of a view.
func (v *view) depths() map[string]instances.QueueSample {
	hands := v.hands()
	recent := make(map[string]instances.QueueSample)
	samples, ages := v.samples()
	for queue, s := range samples {
		if ages[queue] < ForScrape.Lasts {
			recent[queue] = corrected(s, hands[queue])
		}
	}
	return recent
}

// Scraper writes the metrics of the app.
type Scraper struct {
	Members *Members
	Bill    *Billing // nil: the metrics have none
}

// Text returns the metrics of all live processes of the app.
//
// Of this process, too, it returns what is stored and not what is new. Otherwise
// the counts of a process would go down whenever another process answers the
// next scrape, which looks like a restart: all that it ever counted would seem
// to have happened since.
func (m *Scraper) Text(ctx context.Context) ([]byte, error) {
	v := view{own: m.Members.Report()}
	stored := []instances.Report{v.own}
	if m.Members.Rows != nil {
		var err error
		if v.directory, err = m.Members.ReadTable(ctx, append(metrics.Parts(), instances.QueueSection, instances.BacklogSection)...); err != nil {
			return nil, err
		}
		stored = nil
		for _, i := range v.directory.Live {
			stored = append(stored, i.Report)
		}
		v.others = m.Members.without(v.directory.Live)
	}
	if _, ages := v.samples(); newest(ages) >= ForScrape.Every {
		m.Members.sampleForScrape(ctx)
		v.own = m.Members.Report()
	}
	return metrics.Set{Reports: stored, Queues: v.depths(), Bill: m.Bill.Present(ctx), Backlog: NewestBacklog(v.reports()), ByProcess: true}.Text(), nil
}

// Metrics returns those of this process.
func (m *Members) Metrics(ctx context.Context) []byte {
	m.sampleForScrape(ctx)
	v := view{own: m.Report()}
	return metrics.Set{Reports: []instances.Report{v.own}, Queues: v.depths(), Backlog: instances.BacklogSection.Of(v.own), Runtime: true}.Text()
}
