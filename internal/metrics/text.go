package metrics

import (
	"math"
	"strconv"
	"strings"
)

// ContentType is that of the text.
const ContentType = "text/plain; version=0.0.4; charset=utf-8"

// kind is the type of a family, as the text has it.
type kind string

const (
	gauge   kind = "gauge"
	counter kind = "counter"
	hist    kind = "histogram"
	summary kind = "summary"
)

// block is a family as it is written.
type block struct {
	name, help string
	kind       kind
	samples    []sample
}

// sample is a line of a block.
type sample struct {
	suffix string // of the name, in histograms and summaries
	labels []label
	value  float64
}

type label struct{ name, value string }

// Backslashes and line feeds would end or change a line, quotes a value.
var (
	helpEscapes  = strings.NewReplacer(`\`, `\\`, "\n", `\n`)
	labelEscapes = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)
)

// appendTo appends the lines of a block. Its names are not checked.
func (b block) appendTo(text []byte) []byte {
	text = append(text, "# HELP "+b.name+" "+helpEscapes.Replace(b.help)+"\n# TYPE "+b.name+" "+string(b.kind)+"\n"...)
	for _, s := range b.samples {
		text = append(text, b.name...)
		text = append(text, s.suffix...)
		for i, l := range s.labels {
			if i == 0 {
				text = append(text, '{')
			} else {
				text = append(text, ',')
			}
			text = append(text, l.name...)
			text = append(text, `="`...)
			text = append(text, labelEscapes.Replace(l.value)...)
			text = append(text, '"')
		}
		if len(s.labels) > 0 {
			text = append(text, '}')
		}
		text = append(text, ' ')
		text = append(text, decimal(s.value)...)
		text = append(text, '\n')
	}
	return text
}

// decimal returns a value as the format has it: with infinities that have a
// sign, and one form of zero.
func decimal(value float64) string {
	switch {
	case value == 0:
		return "0"
	case math.IsInf(value, 1):
		return "+Inf"
	}
	return strconv.FormatFloat(value, 'g', -1, 64) // also "NaN" and "-Inf"
}

// distribution is a series of a histogram.
type distribution struct {
	count uint64
	sum   float64
	below []bucket // in the order of their bounds, without the last one, which has none
}

// bucket is the count up to a bound.
type bucket struct {
	bound float64
	count uint64
}

// samples returns the lines of a series of a histogram.
func (d distribution) samples(labels []label) (all []sample) {
	add := func(suffix string, value float64, more ...label) {
		all = append(all, sample{suffix, append(labels[:len(labels):len(labels)], more...), value})
	}
	for _, b := range append(d.below[:len(d.below):len(d.below)], bucket{math.Inf(1), d.count}) {
		add("_bucket", float64(b.count), label{"le", decimal(b.bound)})
	}
	add("_sum", d.sum)
	add("_count", float64(d.count))
	return all
}
