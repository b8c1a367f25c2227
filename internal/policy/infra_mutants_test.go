package policy

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"kennel/internal/storetest"
)

// mutant is infra/ with one mistake.
type mutant struct {
	rule, file, what string
	text             func() string
}

var (
	quoted     = regexp.MustCompile(`'([^'$]{3,})'`)
	setting    = regexp.MustCompile(`^\s+(\w+(?:__\w+)?): `)
	oneLine    = regexp.MustCompile(`^\s+('?[\w.$'{}-]+'?): .*[^{\[(]$`)
	inBrackets = regexp.MustCompile(`(?:dependsOn: \[|concat\()(.*)[\])]$`)
	flags      = regexp.MustCompile(`\b(true|false)$`)
	// What no check has to find: texts for people and names of nested
	// deployments.
	cosmetic = regexp.MustCompile(`^\s*(//|@|param |resource |module |targetScope|output )|description: |displayName: |name: '(network|workers|replicas|alerts)'$`)
)

// mutants returns the mistakes of a file by rule: names and values that are
// misspelt or missing, flipped switches, and resources, dependencies and
// conditions that are left out.
func mutants(file, text string) (all []mutant) {
	lines := strings.Split(text, "\n")
	with := func(rule string, i, n int, replacement ...string) {
		text := func() string { return strings.Join(slices.Concat(lines[:i], replacement, lines[i+n:]), "\n") }
		all = append(all, mutant{rule, file, fmt.Sprintf("line %d: %s → %s", i+1, strings.TrimSpace(lines[i]), strings.TrimSpace(strings.Join(replacement, " "))), text})
	}
	inBody := false // of a resource, a module or an object
	for i, line := range lines {
		if strings.HasPrefix(line, "resource ") && !strings.Contains(line, " existing ") {
			end := i + slices.IndexFunc(lines[i:], func(l string) bool { return strings.HasPrefix(l, "}") })
			symbol := strings.Fields(line)[1]
			text := func() string {
				removed := strings.Join(slices.Concat(lines[:i], lines[end+1:]), "\n")
				return dependency(symbol).ReplaceAllString(removed, "$1$2")
			}
			all = append(all, mutant{"resource removed", file, fmt.Sprintf("line %d: %s", i+1, symbol), text})
		}
		if before, after, found := strings.Cut(line, " = if ("); found && strings.HasSuffix(after, "{") {
			with("condition removed", i, 1, before+" = {")
		}
		inBody = len(line) > 0 && (line[0] == ' ' || line[0] == '}')
		if cosmetic.MatchString(line) || !inBody && !strings.HasPrefix(line, "var ") {
			continue
		}
		for _, m := range quoted.FindAllStringSubmatchIndex(line, -1) {
			with("value misspelt", i, 1, line[:m[2]+1]+line[m[2]+2:])
		}
		if m := setting.FindStringSubmatchIndex(line); m != nil && m[3]-m[2] > 2 {
			with("name misspelt", i, 1, line[:m[2]+1]+line[m[2]+2:])
		}
		if oneLine.MatchString(line) || quoted.MatchString(line) && strings.Count(line, "'") == 2 && !strings.Contains(line, " ? ") && strings.HasPrefix(strings.TrimSpace(line), "'") {
			with("line removed", i, 1)
		}
		if m := flags.FindStringIndex(line); m != nil {
			with("switch flipped", i, 1, line[:m[0]]+map[string]string{"true": "false", "false": "true"}[line[m[0]:]])
		}
		if m := inBrackets.FindStringSubmatchIndex(line); m != nil {
			items := strings.Split(line[m[2]:m[3]], ", ")
			for n := range items {
				rest := slices.Delete(slices.Clone(items), n, n+1)
				with("item removed", i, 1, line[:m[2]]+strings.Join(rest, ", ")+line[m[3]:])
			}
		}
	}
	return all
}

// dependency matches a resource in a list of dependencies.
func dependency(symbol string) *regexp.Regexp {
	return regexp.MustCompile(`(dependsOn: \[(?:\w+, )*?)` + symbol + `(?:, |(\]))`)
}

// TestInfrastructureMistakes plants a mistake at each place of infra/, and
// requires that the check of TestInfrastructure finds nearly all.
func TestInfrastructureMistakes(t *testing.T) {
	source, facts := readInfra(t)
	all, err := texts()
	if err != nil {
		t.Fatal(err)
	}
	var planted []mutant
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if path.Dir(name) == "infra" && path.Ext(name) == ".bicep" {
			planted = append(planted, mutants(path.Base(name), all[name])...)
		}
	}
	step := storetest.Scale(41, 1)
	found, total := make(map[string]int), make(map[string]int)
	for i := 0; i < len(planted); i += step {
		m := planted[i]
		total[m.rule]++
		if len(infraMistakes(source.With(m.file, m.text()), facts, true)) > 0 {
			found[m.rule]++
		} else {
			t.Logf("not found: %s: %s, %s", m.rule, m.file, m.what)
		}
	}
	foundAll, totalAll := 0, 0
	for _, rule := range slices.Sorted(maps.Keys(total)) {
		t.Logf("%s: %d of %d", rule, found[rule], total[rule])
		foundAll, totalAll = foundAll+found[rule], totalAll+total[rule]
	}
	share := 100 * float64(foundAll) / float64(totalAll)
	t.Logf("figure: infrastructure: mistakes in infra/ found by the check | %.1f %% of %d | at least 90 %%", share, totalAll)
	if share < 90 || totalAll < 800/step {
		t.Errorf("%d of %d mistakes found, want 90 %%", foundAll, totalAll)
	}
}
