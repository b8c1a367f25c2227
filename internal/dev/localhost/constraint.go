package localhost

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// A constraint is one :rule of a route parameter. check tells whether a text obeys it, and its value where
// the rule names a type other than text.
type constraint struct {
	check func(text string) (value any, ok bool)
}

var (
	alphaText = regexp.MustCompile(`(?i)^[a-z]*$`)
	guidText  = regexp.MustCompile(`(?i)^(\{[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\}|\([0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\)|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32})$`)
)

// parseConstraint reads one rule: int, bool, datetime, decimal, double, float, guid, long, alpha, required,
// minlength(n), maxlength(n), length(n) or length(n,m), min(n), max(n), range(n,m), regex(…).
func parseConstraint(text string) (constraint, error) {
	name, arguments, hasArguments := strings.Cut(text, "(")
	if hasArguments {
		inner, closed := strings.CutSuffix(arguments, ")")
		if !closed {
			return constraint{}, fmt.Errorf("constraint %q lacks its )", text)
		}
		arguments = inner
	}
	name = strings.ToLower(name)

	if name == "regex" {
		// Braces inside a template are written twice.
		expression := strings.NewReplacer("{{", "{", "}}", "}").Replace(arguments)
		compiled, err := regexp.Compile("(?i)" + expression)
		if err != nil {
			return constraint{}, fmt.Errorf("constraint %q: %w", text, err)
		}
		return textRule(compiled.MatchString), nil
	}

	var numbers []int64
	if hasArguments {
		for argument := range strings.SplitSeq(arguments, ",") {
			n, err := strconv.ParseInt(strings.TrimSpace(argument), 10, 64)
			if err != nil {
				return constraint{}, fmt.Errorf("constraint %q: %q is no number", text, argument)
			}
			numbers = append(numbers, n)
		}
	}
	within := func(low, high int64) constraint {
		return constraint{func(text string) (any, bool) {
			n, err := strconv.ParseInt(text, 10, 64)
			return nil, err == nil && low <= n && n <= high
		}}
	}
	sized := func(low, high int64) constraint {
		return textRule(func(text string) bool {
			n := int64(utf8.RuneCountInString(text))
			return low <= n && n <= high
		})
	}
	const most = 1<<63 - 1

	switch fmt.Sprintf("%s/%d", name, len(numbers)) {
	case "int/0":
		return integer(32), nil
	case "long/0":
		return integer(64), nil
	case "float/0", "double/0", "decimal/0":
		return constraint{func(text string) (any, bool) {
			n, err := strconv.ParseFloat(text, 64)
			return n, err == nil && !strings.ContainsAny(text, "xX_iInNpP")
		}}, nil
	case "bool/0":
		return constraint{func(text string) (any, bool) {
			return strings.EqualFold(text, "true"), strings.EqualFold(text, "true") || strings.EqualFold(text, "false")
		}}, nil
	case "datetime/0":
		return textRule(isDateTime), nil
	case "guid/0":
		return textRule(guidText.MatchString), nil
	case "alpha/0":
		return textRule(alphaText.MatchString), nil
	case "required/0":
		return textRule(func(text string) bool { return text != "" }), nil
	case "minlength/1":
		return sized(numbers[0], most), nil
	case "maxlength/1":
		return sized(0, numbers[0]), nil
	case "length/1":
		return sized(numbers[0], numbers[0]), nil
	case "length/2":
		return sized(numbers[0], numbers[1]), nil
	case "min/1":
		return within(numbers[0], most), nil
	case "max/1":
		return within(-most-1, numbers[0]), nil
	case "range/2":
		return within(numbers[0], numbers[1]), nil
	}
	return constraint{}, fmt.Errorf("%q is no constraint", text)
}

// textRule leaves the value a text.
func textRule(ok func(string) bool) constraint {
	return constraint{func(text string) (any, bool) { return nil, ok(text) }}
}

func integer(bits int) constraint {
	return constraint{func(text string) (any, bool) {
		n, err := strconv.ParseInt(text, 10, bits)
		return n, err == nil
	}}
}

// isDateTime knows the common forms; .NET's parser knows many more.
func isDateTime(text string) bool {
	for _, layout := range []string{time.DateOnly, time.DateTime, time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04", "2006-01-02T15:04", "1/2/2006", "1/2/2006 3:04pm"} {
		if _, err := time.Parse(layout, text); err == nil {
			return true
		}
	}
	return false
}
