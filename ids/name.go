package ids

import "fmt"

const maxNameLen = 63

// CheckName returns an error unless the name is valid: 1 to 63 lower-case
// letters, digits, and inner hyphens and dots. The rule is stricter than that
// of blob names, so that a name needs no escaping in a URL, a blob path or a
// log.
func CheckName(sequence string) error {
	if sequence == "" || len(sequence) > maxNameLen {
		return fmt.Errorf("sequence name of %d characters: use 1 to %d", len(sequence), maxNameLen)
	}
	for i := range len(sequence) {
		switch c := sequence[i]; {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9':
		case (c == '-' || c == '.') && i > 0 && i < len(sequence)-1:
		default:
			return fmt.Errorf("sequence name %q: use lower-case letters, digits, and inner hyphens and dots only", sequence)
		}
	}
	return nil
}
