package cost

import (
	"testing"
)

// TestRelayCharge: the base charge of Service Bus is paid once, whether signals,
// messages or a backlog need it.
func TestRelayCharge(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*Profile)
		want   float64 // hours a day
	}{
		"nothing":  {func(p *Profile) {}, 0},
		"signals":  {func(p *Profile) { p.Push = true }, 24},
		"messages": {func(p *Profile) { p.RelayMessages = 1 }, 24},
		"backlog":  {func(p *Profile) { p.RelayQueues = 10 }, 24},
		"all":      {func(p *Profile) { p.Push, p.RelayMessages, p.RelayQueues = true, 1, 10 }, 24},
	} {
		p := small
		tt.change(&p)
		hours := 0.0
		for _, l := range kennel(p) {
			if l.Service == bus && l.Operation == "hour" {
				hours += l.Count / p.Days
			}
		}
		if hours != tt.want {
			t.Errorf("%s: %v hours of the base charge a day, want %v", name, hours, tt.want)
		}
	}
}

// TestAtOutage: the estimate is the sum over all passes of an outage.
func TestAtOutage(t *testing.T) {
	for _, tt := range []struct {
		backlog float64
		plan    string
		passes  int
	}{
		{0, Flex, 120}, {500, Flex, 120}, {11_000, Flex, 120}, {1e6, Flex, 120}, {20_000, Container, 240},
	} {
		p := small
		p.RelayBacklog, p.RelayQueues, p.RelayOutage, p.Plan = tt.backlog, 10, 2, tt.plan
		want := 0.0
		for i := range tt.passes {
			depth := tt.backlog / 10 * (float64(i) + 0.5) / float64(tt.passes)
			want += 10 * min(depth, maxSampled)
		}
		if got := p.atOutage(maxSampled); got < 0.995*want || got > 1.005*want {
			t.Errorf("%+v: %.0f held, want %.0f", tt, got, want)
		}
	}
}
