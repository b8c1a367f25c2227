package bicep

import (
	"fmt"
	"strings"
)

// A token is a name, a number, a string, an operator, a line end ("\n") or the
// end of the file ("").
type token struct {
	kind  byte // 'n'ame, '0' number, '\'' string, 'o'perator
	text  string
	parts []any // of a string: strings and expressions
	line  int
}

// operators are those of more than one character.
var operators = []string{"??", ".?", "==", "&&", "=>"}

// scan splits a text into tokens.
func scan(text string) (tokens []token, err error) {
	line := 1
	for i := 0; i < len(text); {
		c := text[i]
		add := func(kind byte, n int) {
			tokens = append(tokens, token{kind: kind, text: text[i : i+n], line: line})
			i += n
		}
		switch {
		case c == '\n':
			if n := len(tokens); n > 0 && tokens[n-1].text != "\n" {
				tokens = append(tokens, token{kind: 'o', text: "\n", line: line})
			}
			line++
			i++
		case c == ' ':
			i++
		case strings.HasPrefix(text[i:], "//"):
			i += lineEnd(text[i:])
		case isName(rune(c)) && !isDigit(rune(c)):
			n := strings.IndexFunc(text[i:], func(r rune) bool { return !isName(r) })
			if n < 0 {
				n = len(text) - i
			}
			add('n', n)
		case isDigit(rune(c)):
			n := strings.IndexFunc(text[i:], func(r rune) bool { return !isDigit(r) })
			if n < 0 {
				n = len(text) - i
			}
			add('0', n)
		case c == '\'':
			parts, n, err := scanString(text[i:])
			if err != nil {
				return nil, fmt.Errorf("line %d: %w", line, err)
			}
			tokens = append(tokens, token{kind: '\'', text: text[i : i+n], parts: parts, line: line})
			line += strings.Count(text[i:i+n], "\n")
			i += n
		default:
			n := 1
			for _, o := range operators {
				if strings.HasPrefix(text[i:], o) {
					n = len(o)
				}
			}
			if n == 1 && !strings.ContainsRune("@=()[]{},:.?!-", rune(c)) {
				return nil, fmt.Errorf("line %d: %q is not expected", line, c)
			}
			add('o', n)
		}
	}
	return append(tokens, token{kind: 'o', line: line}), nil
}

func isName(r rune) bool {
	return r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || isDigit(r)
}

func isDigit(r rune) bool { return r >= '0' && r <= '9' }

func lineEnd(text string) int {
	if n := strings.IndexByte(text, '\n'); n >= 0 {
		return n
	}
	return len(text)
}

// scanString reads the string at the beginning of a text, and returns its length
// there. It has one line, no escapes, and no braces within an expression: the
// files do without.
func scanString(text string) (parts []any, length int, err error) {
	var plain strings.Builder
	for i := 1; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\'':
			return append(parts, plain.String()), i + 1, nil
		case c == '\n' || c == '\\':
			return nil, 0, fmt.Errorf("%q in a string", c)
		case strings.HasPrefix(text[i:], "${"):
			inside, _, closed := strings.Cut(text[i+2:], "}")
			if !closed {
				return nil, 0, fmt.Errorf("${ is not closed")
			}
			x, err := parseExpression(inside)
			if err != nil {
				return nil, 0, err
			}
			parts = append(parts, plain.String(), x)
			plain.Reset()
			i += 2 + len(inside)
		default:
			plain.WriteByte(c)
		}
	}
	return nil, 0, fmt.Errorf("the string does not end")
}
