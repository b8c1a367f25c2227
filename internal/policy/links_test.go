package policy

import (
	"fmt"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
)

var (
	link    = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	picture = regexp.MustCompile(`src(?:set)?="([^"]+)"`)
	heading = regexp.MustCompile(`^#{1,6} +(.*)`)
	// notInAnchor are the characters of a heading that its anchor does not have.
	notInAnchor = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
	// section is a section that a comment names.
	section = regexp.MustCompile(`"([^"\n]+)"(?:\s|//|#)+(?:in|of)(?:\s|//|#)+(docs/[a-z-]+\.md)`)
)

// prose returns the lines of a document that are not in a block of code.
func prose(document string) (lines []string) {
	code := false
	for line := range strings.Lines(document) {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			code = !code
		} else if !code {
			lines = append(lines, strings.TrimRight(line, "\n"))
		}
	}
	return lines
}

// anchors returns the anchors of the headings of a document, as GitHub makes them.
func anchors(document string) map[string]bool {
	found := make(map[string]bool)
	for _, line := range prose(document) {
		m := heading.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		plain := link.ReplaceAllString(m[1], "]")
		anchor := strings.ReplaceAll(notInAnchor.ReplaceAllString(strings.ToLower(plain), ""), " ", "-")
		name := anchor
		for n := 1; found[name]; n++ {
			name = fmt.Sprintf("%s-%d", anchor, n)
		}
		found[name] = true
	}
	return found
}

// TestLinks: each link of a document to a file of the repository leads to a file
// and to a heading in it, and so does each section that a comment names.
func TestLinks(t *testing.T) {
	all, err := texts()
	if err != nil {
		t.Fatal(err)
	}
	headings := make(map[string]map[string]bool)
	for name, text := range all {
		if path.Ext(name) == ".md" {
			headings[name] = anchors(text)
		}
	}
	links, sections := 0, 0
	for name, text := range all {
		if headings[name] == nil {
			for _, m := range section.FindAllStringSubmatch(text, -1) {
				sections++
				anchor := strings.ReplaceAll(notInAnchor.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-")
				if !headings[m[2]][anchor] {
					t.Errorf("%s: %s has no section %q", name, m[2], m[1])
				}
			}
			continue
		}
		content := strings.Join(prose(text), "\n")
		for _, m := range append(link.FindAllStringSubmatch(content, -1), picture.FindAllStringSubmatch(content, -1)...) {
			file, anchor, hasAnchor := strings.Cut(m[1], "#")
			if strings.Contains(file, ":") { // another site
				continue
			}
			links++
			target := name
			if file != "" {
				target = path.Join(path.Dir(name), file)
			}
			_, err := os.Stat(target)
			switch {
			case err != nil:
				t.Errorf("%s: the link %s leads to no file", name, m[1])
			case hasAnchor && !headings[target][anchor]:
				t.Errorf("%s: the link %s leads to no heading", name, m[1])
			}
		}
	}
	if links < 100 || sections < 3 {
		t.Errorf("%d links and %d sections found, so the test does not find them", links, sections)
	}
}
