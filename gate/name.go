package gate

import "fmt"

const maxNameLen = 63

// CheckName reports whether a gate may have this name: 1 to 63 lower-case
// letters, digits and inner hyphens. The rule is narrower than that of blob
// names, so that a name needs no escaping in a URL, a blob path or a log.
func CheckName(gate string) error {
	if gate == "" || len(gate) > maxNameLen {
		return fmt.Errorf("%w: gate name of %d characters: use 1 to %d", ErrInvalid, len(gate), maxNameLen)
	}
	for i := range len(gate) {
		switch c := gate[i]; {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9':
		case c == '-' && i > 0 && i < len(gate)-1:
		default:
			return fmt.Errorf("%w: gate name %q: use lower-case letters, digits and inner hyphens only", ErrInvalid, gate)
		}
	}
	return nil
}
