package metrics

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// parsed writes metrics and reads them.
func parsed(t *testing.T, s Set) map[string]block {
	t.Helper()
	blocks, err := read(string(s.Text()))
	if err != nil {
		t.Fatal(err)
	}
	return blocks
}

var (
	headLine   = regexp.MustCompile(`^# HELP ([a-z_]+) (.*)$`)
	typeLine   = regexp.MustCompile(`^# TYPE ([a-z_]+) (counter|gauge|histogram|summary)$`)
	sampleLine = regexp.MustCompile(`^([a-z_]+)(?:{(.*)})? (NaN|[+-]Inf|-?[0-9]+(?:\.[0-9]+)?(?:e[+-][0-9]+)?)$`)
	labelText  = regexp.MustCompile(`^([a-z_]+)="((?:[^"\\]|\\[\\"n])*)"(?:,|$)`)
)

// read reads a text as a scraper does, and is strict: it accepts one order of
// families, series and labels.
func read(text string) (map[string]block, error) {
	blocks := make(map[string]block)
	last := ""
	finish := func() error {
		if last == "" {
			return nil
		}
		if err := check(blocks[last]); err != nil {
			return fmt.Errorf("%s: %w", last, err)
		}
		return nil
	}
	lines := strings.Split(text, "\n")
	if lines[len(lines)-1] != "" {
		return nil, errors.New("the last line has no end")
	}
	for i := 0; i < len(lines)-1; i++ {
		if head := headLine.FindStringSubmatch(lines[i]); head != nil {
			if err := finish(); err != nil {
				return nil, err
			}
			kinds := typeLine.FindStringSubmatch(lines[i+1])
			if kinds == nil || kinds[1] != head[1] || head[1] <= last {
				return nil, fmt.Errorf("%q and %q after family %s", lines[i], lines[i+1], last)
			}
			last = head[1]
			blocks[last] = block{name: last, help: unescaped(head[2]), kind: kind(kinds[2])}
			i++
			continue
		}
		s, err := readSample(lines[i], last)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", lines[i], err)
		}
		b := blocks[last]
		b.samples = append(b.samples, s)
		blocks[last] = b
	}
	return blocks, finish()
}

func readSample(line, family string) (s sample, err error) {
	parts := sampleLine.FindStringSubmatch(line)
	if parts == nil {
		return s, errors.New("it is no sample")
	}
	suffix, ok := strings.CutPrefix(parts[1], family)
	if !ok || family == "" {
		return s, fmt.Errorf("it is in family %q", family)
	}
	s.suffix = suffix
	for rest := parts[2]; rest != ""; {
		found := labelText.FindStringSubmatch(rest)
		if found == nil {
			return s, fmt.Errorf("%q is no label", rest)
		}
		s.labels = append(s.labels, label{found[1], unescaped(found[2])})
		rest = rest[len(found[0]):]
	}
	s.value, err = strconv.ParseFloat(parts[3], 64)
	return s, err
}

func unescaped(text string) string {
	return strings.NewReplacer(`\\`, `\`, `\n`, "\n", `\"`, `"`).Replace(text)
}

// check checks the samples of a family: their names, that they are sorted by
// labels and differ, and that the buckets of a histogram fit its count.
func check(b block) error {
	suffixes := map[kind][]string{hist: {"_bucket", "_sum", "_count"}, summary: {"", "_sum", "_count"}}[b.kind]
	if suffixes == nil {
		suffixes = []string{""}
	}
	var last []label // of a series
	var below float64
	for i, s := range b.samples {
		labels, bound := s.labels, math.Inf(-1)
		if n := len(labels) - 1; n >= 0 && (labels[n].name == "le" || labels[n].name == "quantile") {
			var err error
			if bound, err = strconv.ParseFloat(labels[n].value, 64); err != nil {
				return err
			}
			labels = labels[:n]
		} else if s.suffix == "_bucket" {
			return errors.New("a bucket without a bound")
		}
		if !slices.Contains(suffixes, s.suffix) || !slices.IsSortedFunc(labels, func(a, b label) int { return cmp.Or(cmp.Compare(a.name, b.name), 1) }) {
			return fmt.Errorf("suffix %q and labels %v", s.suffix, labels)
		}
		if order := slices.CompareFunc(last, labels, byValue); i > 0 && (order > 0 || order == 0 && len(suffixes) == 1) {
			return fmt.Errorf("%v after %v", labels, last)
		}
		last = labels
		if b.kind != hist {
			continue
		}
		switch s.suffix {
		case "_bucket":
			if i > 0 && b.samples[i-1].suffix == "_bucket" && s.value < below || i+1 == len(b.samples) || math.IsInf(bound, 1) != (b.samples[i+1].suffix == "_sum") {
				return fmt.Errorf("bucket %v has %v, after %v", bound, s.value, below)
			}
			below = s.value
		case "_count":
			if s.value != below {
				return fmt.Errorf("a count of %v, and %v in the last bucket", s.value, below)
			}
		}
	}
	if len(b.samples) == 0 {
		return errors.New("it has no samples")
	}
	return nil
}

// TestRead: the reader of these tests finds what a scraper rejects.
func TestRead(t *testing.T) {
	const head = "# HELP a_total Help.\n# TYPE a_total counter\n"
	const buckets = "# HELP a Help.\n# TYPE a histogram\n"
	for text, ok := range map[string]bool{
		"":                   true,
		head + "a_total 1\n": true,
		head + "a_total{a=\"1\",b=\"\\\"\\\\\\n\"} 1.5e+07\na_total{a=\"2\",b=\"\"} NaN\n": true,
		buckets + "a_bucket{le=\"1\"} 1\na_bucket{le=\"+Inf\"} 2\na_sum 9\na_count 2\n":    true,
		buckets + "a_bucket{le=\"1\"} 3\na_bucket{le=\"+Inf\"} 2\na_sum 9\na_count 2\n":    false,
		buckets + "a_bucket{le=\"1\"} 1\na_bucket{le=\"+Inf\"} 2\na_sum 9\na_count 3\n":    false,
		buckets + "a_bucket{le=\"1\"} 1\na_sum 9\na_count 1\n":                             false,
		head:                            false,
		head + "a_total 1":              false,
		head + "a_total 1\na_total 2\n": false,
		head + "a_total{a=\"2\"} 1\na_total{a=\"1\"} 1\n": false,
		head + "a_total{b=\"2\",a=\"1\"} 1\n":             false,
		head + "a_total{a=\"\\t\"} 1\n":                   false,
		head + "a_total{a=\"\"\"} 1\n":                    false,
		head + "a_total{a=\"1\" 1\n":                      false,
		head + "a_total Inf\n":                            false,
		head + "a_total 1\n\n":                            false,
		head + "b_total 1\n":                              false,
		head + "a_total 1\n" + head + "a_total 1\n":       false,
		"a_total 1\n":                                     false,
		"# HELP a_total Help.\na_total 1\n":               false,
		buckets + "a_bucket{le=\"+Inf\"} 2\n":             false,
	} {
		if _, err := read(text); (err == nil) != ok {
			t.Errorf("%q: %v, want it valid: %t", text, err, ok)
		}
	}
}
