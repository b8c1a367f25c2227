package config

import (
	"fmt"
	"slices"
	"strings"

	"kennel/internal/suggest"
)

// reader reads settings, records the names that were read, and collects
// problems.
type reader struct {
	env      map[string]string
	known    []string // the names that were read
	problems []string
}

func (r *reader) problem(format string, args ...any) {
	r.problems = append(r.problems, fmt.Sprintf(format, args...))
}

// get returns a setting without surrounding white space. A blank value is
// treated as absent.
func (r *reader) get(name string) string {
	r.known = append(r.known, name)
	return strings.TrimSpace(r.env[name])
}

// maxTypos is the maximum edit distance between a misspelt setting and a
// suggestion.
const maxTypos = 3

// unknown reports the settings with our prefix that were not read.
func (r *reader) unknown(prefix string) {
	var names []string
	for name := range r.env {
		ours := len(name) >= len(prefix) && strings.EqualFold(name[:len(prefix)], prefix)
		if ours && !slices.Contains(r.known, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		advice := "remove it"
		if near := suggest.Nearest(strings.ToUpper(name), r.known, maxTypos); near != "" {
			advice = "did you mean " + near + "?"
		}
		r.problem("%.60s is not a setting of Kennel: %s", name, advice)
	}
}
