package main

import (
	"fmt"
	"math"
	"strings"
	"time"

	"kennel/client"
)

// chartWidth is how many columns the curves of a chart have.
const chartWidth = 56

// levels are the heights of a column.
var levels = []rune("▁▂▃▄▅▆▇█")

// point is a check in a chart.
type point struct{ ready, advised, running float64 }

func pointOf(c client.ScaleCheck) (p point) {
	p.running = float64(c.Running)
	for _, q := range c.Samples {
		p.ready += float64(q.Ready)
	}
	for _, a := range c.Advice {
		if a.Instances != nil {
			p.advised = float64(*a.Instances)
		}
	}
	return p
}

// drawScale returns a chart: a curve of the messages that were ready, and of the
// instances as advised and as they ran. Each column has the maximum of its time.
// A time without a check is blank.
func drawScale(checks []client.ScaleCheck) string {
	first, last := checks[0].At, checks[len(checks)-1].At
	width := min(chartWidth, max(1, int(last.Sub(first)/time.Minute)+1))
	var columns [chartWidth]struct {
		point
		checked bool
	}
	for _, c := range checks {
		at := int(float64(width) * c.At.Sub(first).Seconds() / (last.Sub(first) + time.Second).Seconds())
		column := &columns[min(max(at, 0), width-1)]
		p := pointOf(c)
		column.checked = true
		column.ready, column.advised, column.running = max(column.ready, p.ready), max(column.advised, p.advised), max(column.running, p.running)
	}
	var text strings.Builder
	curve := func(name string, value func(point) float64, highest float64) {
		most := 0.0
		var line strings.Builder
		for _, column := range columns[:width] {
			v := value(column.point)
			most = max(most, v)
			switch {
			case !column.checked:
				line.WriteRune(' ')
			case v <= 0 || highest <= 0:
				line.WriteRune(levels[0])
			default:
				line.WriteRune(levels[min(int(math.Ceil(v/highest*float64(len(levels)-1))), len(levels)-1)])
			}
		}
		fmt.Fprintf(&text, "%-8s %s  up to %s\n", name, line.String(), grouped(most))
	}
	highest := point{}
	for _, column := range columns[:width] {
		highest.ready = max(highest.ready, column.ready)
		highest.advised = max(highest.advised, column.advised, column.running)
	}
	curve("ready", func(p point) float64 { return p.ready }, highest.ready)
	curve("advised", func(p point) float64 { return p.advised }, highest.advised)
	curve("running", func(p point) float64 { return p.running }, highest.advised)
	from, to := first.UTC().Format("01-02 15:04"), last.UTC().Format("15:04 UTC")
	fmt.Fprintf(&text, "%-8s %s%s\n", "", from, fmt.Sprintf("%*s", max(width-len(from), len(to)+1), to))
	return text.String()
}
