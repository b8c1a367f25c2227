package policy

import (
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"strings"
	"testing"
	"unicode"
)

// secondNames are words for things that have another name in the product. A
// reader who meets two names for one thing looks for two things, and a search
// for one of them misses the other.
var secondNames = map[string][]string{
	"dead-letter":            {"bury", "buries", "buried"},
	"task":                   {"chore", "chores"},
	"listener":               {"ear", "ears"},
	"probe":                  {"knock", "knocks"},
	"unconfirmed":            {"hearsay"},
	"invalid, corrupt":       {"nonsense"},
	"corrupt, being deleted": {"vandal", "vandals", "doomed"},
	"wait":                   {"vigil", "vigils"},
	"reject":                 {"sent away", "send away", "sends away"},
	"admit":                  {"let pass", "lets pass"},
	"stalled":                {"stand still", "stands still", "stood still"},
	"lost":                   {"burnt"},
	"available":              {"inhand", "secondsinhand"},
	"received":               {"heard"},
}

// TestOneNameForOneThing reads what users of the product read: the texts in
// the programs (messages, names on the wire, settings), the pages of the
// console, the description of the API and the documents.
func TestOneNameForOneThing(t *testing.T) {
	all, err := texts()
	if err != nil {
		t.Fatal(err)
	}
	write := make(map[string]string)
	for word, others := range secondNames {
		for _, other := range others {
			write[other] = word
		}
	}
	read := 0
	check := func(where, text string) {
		read++
		last := ""
		for word := range strings.FieldsFuncSeq(strings.ToLower(text), func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
			for _, name := range []string{word, last + " " + word} {
				if write[name] != "" {
					t.Errorf("%s: %q; the product's word is %s", where, name, write[name])
				}
			}
			last = word
		}
	}
	for name, text := range all {
		switch path.Ext(name) {
		case ".md", ".yaml", ".html", ".js":
			check(name, text)
		}
	}
	for _, files := range sources(t) {
		for _, f := range files {
			if f.test {
				continue
			}
			ast.Inspect(f.syntax, func(n ast.Node) bool {
				if literal, ok := n.(*ast.BasicLit); ok && literal.Kind == token.STRING {
					check(f.set.Position(literal.Pos()).String(), literal.Value)
					if literal.Value == `"err"` {
						t.Errorf("%s: the log has a cause under the key error", f.set.Position(literal.Pos()))
					}
				}
				return true
			})
		}
	}
	if read < 1000 {
		t.Errorf("only %d texts read", read)
	}
}

// machine finds what only one machine or one network has.
var machine = regexp.MustCompile("(^|[\\s\"'`(=])/(home|root|Users|work|private|var/folders)/|https?://[^/\\s]*(registry|artifactory|nexus|goproxy|mirror)")

func TestDocumentsNameNoMachine(t *testing.T) {
	all, err := texts()
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range all {
		if path.Ext(name) != ".md" {
			continue
		}
		n := 0
		for line := range strings.Lines(text) {
			if n++; machine.MatchString(line) {
				t.Errorf("%s:%d: a path or host of one machine: %s", name, n, line)
			}
		}
	}
}
