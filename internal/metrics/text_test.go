package metrics

import (
	"math"
	"slices"
	"strings"
	"testing"

	"kennel/internal/instances"
)

// FuzzText: whatever callers name their sequences, a scraper reads the same
// names and values.
func FuzzText(f *testing.F) {
	f.Add("Help.", "vm1-4711", "orders", "news", 1.5)
	f.Add("a\\b\nc\"d", "a\\b\nc\"d", "\\n", "\n", math.Inf(1))
	f.Add("\\\\\n\\", "a,b={}\x00", "\xff", "\xfe", math.NaN())
	f.Add("", "\xff", "", "\xff", math.Copysign(0, -1))
	f.Add("\r\n", "\r", "\u2028", "é", 1e-300)
	f.Fuzz(func(t *testing.T, help, process, name, other string, value float64) {
		r := instances.Report{Process: instances.Process{Instance: process}}
		instances.SequenceSection.Add(&r, []instances.Sequence{{Name: name, Issued: 1}, {Name: other, Issued: 2}})
		s := Set{ByProcess: true, Reports: []instances.Report{r}}
		want := make(map[string]float64)
		valid := func(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }
		want[valid(name)]++
		want[valid(other)] += 2
		samples := parsed(t, s)["kennel_sequence_numbers_total"].samples
		for _, one := range samples {
			if !slices.Equal(one.labels[:2], []label{{labelKind, ""}, {labelProcess, valid(process)}}) || want[one.labels[2].value] != one.value {
				t.Errorf("%q, want %q and %v", one.labels, process, want)
			}
		}
		if len(samples) != len(want) {
			t.Errorf("%v, want %v", samples, want)
		}
		blocks, err := read(string(block{"a_total", help, counter, []sample{{value: value}}}.appendTo(nil)))
		if err != nil {
			t.Fatal(err)
		}
		if got := blocks["a_total"]; got.help != help || got.samples[0].value != value && !math.IsNaN(value) {
			t.Errorf("%+v, want %q and %v", got, help, value)
		}
	})
}

// TestEqualLabels: processes of one name, which do not occur, have one series.
func TestEqualLabels(t *testing.T) {
	s := full()
	s.Reports[1].Process = s.Reports[0].Process
	s.ByProcess = true
	for _, one := range parsed(t, s)["kennel_invocations_total"].samples {
		if one.value != 200 {
			t.Errorf("%v, want the sum", one)
		}
	}
}
