package policy

import (
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// secondNames are words for things that have another name in the product. A
// reader who meets two names for one thing looks for two things, and a search
// for one of them misses the other.
var secondNames = []struct{ avoid, write string }{
	{`bury|buries|buried`, "dead-letter"},
	{`chores?`, "task"},
	{`ears?`, "listener"},
	{`knocks?`, "probe"},
	{`hearsay`, "unconfirmed"},
	{`nonsense`, "invalid, corrupt"},
	{`vandals?|doomed`, "corrupt, being deleted"},
	{`vigils?`, "wait"},
	{`sent away|sends? away`, "reject"},
	{`lets? pass`, "admit"},
	{`(?:stands?|stood) still`, "stalled"},
	{`burnt`, "lost"},
	{`(?:seconds)?inHand`, "available"},
	{`heard`, "received"},
}

// TestOneNameForOneThing reads what users of the product read: the texts in
// the programs (messages, names on the wire, settings), the pages of the
// console, the description of the API and the documents.
func TestOneNameForOneThing(t *testing.T) {
	all, err := texts()
	if err != nil {
		t.Fatal(err)
	}
	var avoid []string
	for _, name := range secondNames {
		avoid = append(avoid, "("+name.avoid+")")
	}
	second := regexp.MustCompile(`(?i)\b(?:` + strings.Join(avoid, "|") + `)\b`)
	read := 0
	check := func(where, text string) {
		read++
		for line := range strings.Lines(text) { // the expression is slow on a long text
			for _, m := range second.FindAllStringSubmatch(line, -1) {
				name := slices.IndexFunc(m[1:], func(group string) bool { return group != "" })
				t.Errorf("%s: %q; the product's word is %s", where, m[0], secondNames[name].write)
			}
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
