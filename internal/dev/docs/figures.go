package main

import (
	"cmp"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"kennel/internal/version"
)

const begin, end = "<!-- figures: written by make bench -->\n", "<!-- end of figures -->\n"

// A figure is a row of the page.
type figure struct{ pkg, name, value, bar string }

var details = regexp.MustCompile(`\s*\([^)]*\)`)

// is reports whether both are the same figure, perhaps of different runs.
func (f figure) is(g figure) bool {
	return f.pkg == g.pkg && details.ReplaceAllString(f.name, "") == details.ReplaceAllString(g.name, "")
}

// thisMachine returns when and on what the figures are measured.
func thisMachine() string {
	day := time.Now().UTC().Format(time.DateOnly)
	return fmt.Sprintf("%s, on %d cores (%s/%s) with %s", day, runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version())
}

// writeFigures writes the figures in outputs of go test into a page. Each line
// "figure: NAME | VALUE | BAR" becomes a row in the table of its package.
// Details that change from run to run belong in parentheses, because the rest of
// the name identifies the row. Rows that were not measured stay as they are, and
// so does the text outside of the two markers.
func writeFigures(page string, outputs []string, machine string) error {
	text, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	head, rest, ok := strings.Cut(string(text), begin)
	table, tail, ended := strings.Cut(rest, end)
	if !ok || !ended {
		return fmt.Errorf("%s does not contain the lines %q and %q; add them where the figures belong", page, begin, end)
	}
	rows := parsePage(table)
	for _, output := range outputs {
		text, err := os.ReadFile(output)
		if err != nil {
			return err
		}
		rows = merge(rows, parseOutput(string(text)))
	}
	return os.WriteFile(page, []byte(head+begin+format(rows, machine)+end+tail), 0o644)
}

var (
	figureLine  = regexp.MustCompile(`(?m)figure: (.+) \| (.+) \| (.+)$`)
	packageLine = regexp.MustCompile(`(?m)^(?:ok|FAIL)\s+` + regexp.QuoteMeta(version.Module) + `/?(\S*)\s.*$`)
	rowLine     = regexp.MustCompile(`(?m)^\| (.+) \| (.+) \| (.+) \|$`)
)

// parseOutput returns the figures in an output of go test, which names each
// package after its lines. The one of the module itself is ".".
func parseOutput(output string) (all []figure) {
	for at := packageLine.FindStringSubmatchIndex(output); at != nil; at = packageLine.FindStringSubmatchIndex(output) {
		for _, m := range figureLine.FindAllStringSubmatch(output[:at[0]], -1) {
			all = append(all, figure{cmp.Or(output[at[2]:at[3]], "."), m[1], m[2], m[3]})
		}
		output = output[at[1]:]
	}
	return all
}

// parsePage returns the figures of a table that format has written.
func parsePage(table string) (rows []figure) {
	for _, section := range strings.Split(table, "\n### `")[1:] {
		pkg, section, _ := strings.Cut(section, "`")
		for _, m := range rowLine.FindAllStringSubmatch(section, -1) {
			rows = append(rows, figure{pkg, m[1], m[2], m[3]})
		}
	}
	return slices.DeleteFunc(rows, func(f figure) bool { return f.name == "figure" }) // the heading
}

// merge puts the measured figures into the rows. A new figure follows the one
// that was measured before it in its package.
func merge(rows, measured []figure) []figure {
	last := figure{}
	for _, f := range measured {
		at := slices.IndexFunc(rows, f.is)
		if at < 0 {
			if at = len(rows); f.pkg == last.pkg {
				at = 1 + slices.IndexFunc(rows, last.is)
			}
			rows = slices.Insert(rows, at, f)
		}
		rows[at], last = f, f
	}
	slices.SortStableFunc(rows, func(a, b figure) int { return strings.Compare(a.pkg, b.pkg) })
	return rows
}

func format(rows []figure, machine string) string {
	page := "\nLast run: " + machine + ". Figures that it did not measure are from an earlier run.\n"
	for i, f := range rows {
		if i == 0 || f.pkg != rows[i-1].pkg {
			page += "\n### `" + f.pkg + "`\n\n| figure | here | bar |\n|---|---|---|\n"
		}
		page += "| " + f.name + " | " + f.value + " | " + f.bar + " |\n"
	}
	return page + "\n"
}
