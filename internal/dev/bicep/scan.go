package bicep

import (
	"fmt"
	"strconv"
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

// operators, the longest first.
var operators = []string{"??", ".?", "==", "!=", "=~", "!~", "<=", ">=", "&&", "||"}

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
		case c == ' ' || c == '\t' || c == '\r':
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
			if n == 1 && !strings.ContainsRune("@=()[]{},:.?!<>+-*/%", rune(c)) {
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
// there. It has one line: the files do without the other form.
func scanString(text string) (parts []any, length int, err error) {
	var plain strings.Builder
	for i := 1; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\'':
			return append(parts, plain.String()), i + 1, nil
		case c == '\n':
			return nil, 0, fmt.Errorf("the string does not end on its line")
		case c == '\\' && i+1 < len(text):
			i++
			unquoted, err := strconv.Unquote(`"\` + strings.TrimPrefix(text[i:i+1], "'") + `"`)
			switch {
			case strings.ContainsRune(`'$`, rune(text[i])):
				unquoted = text[i : i+1]
			case err != nil:
				return nil, 0, fmt.Errorf(`\%c is no escape`, text[i])
			}
			plain.WriteString(unquoted)
		case c == '$' && strings.HasPrefix(text[i:], "${"):
			n := closing(text[i+2:])
			if n < 0 {
				return nil, 0, fmt.Errorf("${ is not closed")
			}
			x, err := parseExpression(text[i+2 : i+2+n])
			if err != nil {
				return nil, 0, err
			}
			parts = append(parts, plain.String(), x)
			plain.Reset()
			i += 2 + n
		default:
			plain.WriteByte(c)
		}
	}
	return nil, 0, fmt.Errorf("the string does not end")
}

// closing returns the index of the brace that closes an interpolation.
func closing(text string) int {
	depth, quoted := 0, false
	for i, c := range text {
		switch {
		case c == '\'':
			quoted = !quoted
		case quoted:
		case c == '{':
			depth++
		case c == '}' && depth == 0:
			return i
		case c == '}':
			depth--
		}
	}
	return -1
}
