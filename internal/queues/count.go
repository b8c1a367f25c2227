package queues

import (
	"strings"
	"sync"
	"time"

	"kennel/internal/attempt"
	"kennel/internal/instances"
	"kennel/queue"
)

// counts are what this process did with the messages of a declared queue.
type counts struct {
	durations, ages queue.Ages

	mu  sync.Mutex
	sum instances.Messaging // guarded by mu; without what durations and ages have
}

// sent counts a message that was sent, or an error.
func (c *counts) sent(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.sum.SendFailed++
		return
	}
	c.sum.Sent++
}

// ended counts an attempt that began at a time, of a message that was sent at
// another.
func (c *counts) ended(outcome attempt.Outcome, began, sent time.Time) {
	c.durations.Add(began)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sum.Outcomes == nil {
		c.sum.Outcomes = make(map[string]int64)
	}
	c.sum.Outcomes[strings.ReplaceAll(outcome.String(), " ", "_")]++
	if outcome == attempt.Done {
		c.ages.Add(sent)
		c.sum.LastSuccess = time.Now().UTC()
	}
}

// report returns the counts, and whether there are any.
func (c *counts) report() (instances.Messaging, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.sum
	m.Outcomes = make(map[string]int64, len(c.sum.Outcomes))
	for outcome, n := range c.sum.Outcomes {
		m.Outcomes[outcome] = n
	}
	if len(m.Outcomes) > 0 {
		m.Durations, m.Seconds = c.durations.Counts(), c.durations.Seconds()
	}
	if !m.LastSuccess.IsZero() {
		m.SuccessAges, m.SuccessAgeSeconds = c.ages.Counts(), c.ages.Seconds()
	}
	return m, m.Sent+m.SendFailed > 0 || len(m.Outcomes) > 0
}
