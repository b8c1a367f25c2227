package gate

const maxNameLen = 63

// CheckName reports whether a gate may have this name: 1 to 63 lower-case
// letters, digits and inner hyphens. The rule is narrower than that of blob
// names, so that a name needs no escaping in a URL, a blob path or a log.
func CheckName(gate string) error {
	if gate == "" || len(gate) > maxNameLen {
		return invalid("gate name of %d characters: use 1 to %d", len(gate), maxNameLen)
	}
	for i := range len(gate) {
		switch c := gate[i]; {
		case 'a' <= c && c <= 'z', '0' <= c && c <= '9':
		case c == '-' && i > 0 && i < len(gate)-1:
		default:
			return invalid("gate name %q: use lower-case letters, digits and inner hyphens only", gate)
		}
	}
	return nil
}
