package kennel

import (
	"fmt"
	"go/ast"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// words lists words that hide who acts or what happens, and what to write
// instead. A reader at night, in a second language, must not have to guess.
// They are refused in every text of the repository: comments, messages, names,
// documents and scripts. Upper case is ignored, and a name counts as the words
// that its capitals show.
var words = []struct{ avoid, write string }{
	{"nobody, somebody, anybody, everybody, someone, whoever, whomever", "the role: no caller, another instance, an operator, each waiter"},
	{"told, tells, says, does not say, hears, heard", "reports, returns, states, receives, reads: data does not speak"},
	{"asks storage, asks the store, asks the blob, asks the host, storage asks, store asks, code asks", "reads, requests"},
	{"has been, had been, would have been, should have been", "the simple past or present: was, is"},
	{"shall", "must, or the simple present"},
	{"anew", "again"},
	{"lest", "so that … not"},
	{"for want of", "for lack of, without"},
	{"as you wish", "nothing: leave it out"},
	{"came to pass, come to pass, comes to pass", "happened"},
	{"whereupon, thereupon, whence, thence, hereby", "then, so"},
	{"as good as", "treated as, equal to"},
	{"of no use", "useless, not needed"},
	{"none any more", "it was deleted, it ended"},
	{"stands still, stand still, stood still", "is stalled, does not change"},
	{"sent away, sends away, send away", "rejected"},
	{"let pass, lets pass, lets everybody go", "admit"},
	{"burnt, burns", "lost"},
	{"hand over, hands over, handed over", "defer to the queue, pass to"},
	{"gone away, gone back", "closed the connection, went down"},
	{"in hand", "available"},
	{"bury, buries, buried", "dead-letter"},
	{"once is enough", "the property, for example: at most once"},
	{"hearsay", "unconfirmed"},
	{"nonsense", "invalid, corrupt; parseErr for an error"},
	{"mortal", "bound"},
	{"chore, chores", "task"},
	{"ear, ears", "listener"},
	{"knock, knocks", "probe"},
	{"glance, glances", "read"},
	{"coverer, doubted, unproven", "signalsReliable, overtaken, withoutRefusal"},
	{"fate, fates", "fault, outcome"},
	{"police, polices", "check, OnMisuse"},
	{"goodbye", "close"},
	{"dawdle, dawdles, vandal, vandals, doomed, vigil, vigils", "the term: slow, corrupt, being deleted, wait"},
}

// privateNames are words that are plain in a sentence, but no names.
var privateNames = map[string]string{
	"notes": "casBlobs, or what is noted", "look": "read", "looked": "afterRead", "told": "reported", "bear": "retryable",
	"reach": "target", "trouble": "lastErr", "patient": "retrying",
}

// twoNames finds a second name for a bound; the first is maxX or minX.
var twoNames = regexp.MustCompile(`^(most|least|longest|shortest)[A-Z]`)

// allowed lists the exact texts that contain such a word for a reason.
var allowed = []struct{ text, why string }{
	{`"burnt"`, "a member of the published API"},
	{"`burnt`", "a member of the published API"},
	{`burnt: `, "a member of the published API"},
	{`updatedAt, perSecond, burnt]`, "members of the published API"},
	{`"inHand"`, "a member of the published API"},
	{"`inHand`", "a member of the published API"},
	{`inHand: `, "a member of the published API"},
	{`instance, inHand, highest, perSecond, burnt]`, "members of the published API"},
	{`secondsInHand`, "a member of the published API"},
	{`"heard"`, "a member of the published API"},
	{`'burnt'`, "a member of the published API"},
	{`'inHand'`, "a member of the published API"},
	{`'heard'`, "a member of the published API"},
	{`size quota for this stream (%d) has been exceeded`, "the wording of Service Bus"},
	{`a restore has been noticed`, "the wording of a promise"},
	{`maximum entity size has been reached`, "the wording of Service Bus"},
	{`is hereby granted`, "the wording of licences"},
	{`notice shall be included`, "the wording of licences"},
	{`has been moved to '%s' (delivery`, "the wording of the Functions host"},
}

func TestWords(t *testing.T) {
	all, err := texts()
	if err != nil {
		t.Fatal(err)
	}
	avoid := make(map[string][]phrase) // by their first words
	for _, w := range words {
		for text := range strings.SplitSeq(w.avoid, ", ") {
			p := phrase{strings.Fields(text), w.write}
			avoid[p.words[0]] = append(avoid[p.words[0]], p)
		}
	}
	used := make(map[string]bool)
	for path, text := range all {
		if path == "words_test.go" {
			continue
		}
		for _, found := range search(text, avoid) {
			if why := excuse(text, found.begin, found.end); why != "" {
				used[why] = true
				continue
			}
			t.Errorf("%s:%d: %q; write instead: %s", path, 1+strings.Count(text[:found.begin], "\n"), text[found.begin:found.end], found.write)
		}
	}
	for _, a := range allowed {
		if !used[a.text] {
			t.Errorf("allowed has %q, which no text contains: delete it", a.text)
		}
	}
}

func TestNames(t *testing.T) {
	for _, files := range sources(t) {
		for _, f := range files {
			ast.Inspect(f.syntax, func(n ast.Node) bool {
				id, ok := n.(*ast.Ident)
				if !ok {
					return true
				}
				if write := privateNames[id.Name]; write != "" {
					t.Errorf("%s: the name %s; write instead: %s", f.set.Position(id.Pos()), id.Name, write)
				}
				if twoNames.MatchString(id.Name) {
					t.Errorf("%s: the name %s; name a bound maxX or minX", f.set.Position(id.Pos()), id.Name)
				}
				return true
			})
		}
	}
}

// machine finds what only one machine or one network has.
var machine = regexp.MustCompile("(^|[\\s\"'`(=])/(home|root|Users|work|private|var/folders)/|https?://[^/\\s]*(registry|artifactory|nexus|goproxy|mirror)")

func TestDocumentsNameNoMachine(t *testing.T) {
	all, err := texts()
	if err != nil {
		t.Fatal(err)
	}
	for path, text := range all {
		if filepath.Ext(path) != ".md" {
			continue
		}
		n := 0
		for line := range strings.Lines(text) {
			if n++; machine.MatchString(line) {
				t.Errorf("%s:%d: a path or host of one machine: %s", path, n, line)
			}
		}
	}
}

func TestSearch(t *testing.T) {
	avoid := map[string][]phrase{"has": {{[]string{"has", "been"}, ""}}, "nobody": {{[]string{"nobody"}, ""}}}
	for text, want := range map[string]string{
		"Nobody's":             "[Nobody]",
		"waitsForNobody(1)":    "[Nobody]",
		"http.NoBody":          "[]",
		"it has\n\t// been so": "[has\n\t// been]",
		`"\nnobody", NOBODY`:   "[nobody NOBODY]",
		"has, beens, hasbeen":  "[]",
		"has has been":         "[has been]",
	} {
		got := []string{}
		for _, f := range search(text, avoid) {
			got = append(got, text[f.begin:f.end])
		}
		if fmt.Sprint(got) != want {
			t.Errorf("%q: found %q, want %s", text, got, want)
		}
	}
}

// phrase is a word or several, in lower case.
type phrase struct {
	words []string
	write string
}

type finding struct {
	begin, end int
	write      string
}

// search finds the phrases, also where a line break separates their words.
func search(text string, avoid map[string][]phrase) (found []finding) {
	all := split(text)
	for i, first := range all {
		for _, p := range avoid[first.lower] {
			last := i + len(p.words)
			if last <= len(all) && slices.EqualFunc(all[i:last], p.words, func(w word, s string) bool { return w.lower == s }) {
				found = append(found, finding{first.begin, all[last-1].end, p.write})
			}
		}
	}
	return found
}

type word struct {
	lower      string
	begin, end int
}

// split returns the words of sentences and of names. The letter of an escape
// sequence such as \n belongs to no word.
func split(text string) (all []word) {
	bytes := []byte(text)
	isUpper := make([]bool, len(text))
	for i, c := range bytes {
		if isUpper[i] = 'A' <= c && c <= 'Z'; isUpper[i] {
			bytes[i] += 'a' - 'A'
		}
	}
	lower := string(bytes)
	isLetter := func(i int) bool { return i < len(lower) && 'a' <= lower[i] && lower[i] <= 'z' }
	for i := 0; i < len(lower); {
		begin := i
		for isLetter(i) && isUpper[i] {
			i++
		}
		for isLetter(i) && !isUpper[i] {
			i++
		}
		switch {
		case begin < i:
			all = append(all, word{lower[begin:i], begin, i})
		case lower[i] == '\\':
			i += 2
		default:
			i++
		}
	}
	return all
}

// excuse returns the allowed text that surrounds text[begin:end], or "".
func excuse(text string, begin, end int) string {
	for _, a := range allowed {
		around := text[max(0, begin-len(a.text)):min(len(text), end+len(a.text))]
		if strings.Contains(a.text, text[begin:end]) && strings.Contains(around, a.text) {
			return a.text
		}
	}
	return ""
}
