package suggest

import "testing"

func TestNearest(t *testing.T) {
	candidates := []string{"up", "next", "list", "package", "version", "wait"}
	for word, want := range map[string]string{
		"nxt": "next", "Next": "next", "vresion": "version", "wiat": "wait", "evrsoin": "version", "upp": "up", "xy": "", "deploy": "",
		"pack": "package", "ne": "next", "v": "", "": "",
	} {
		if got := Nearest(word, candidates, 2); got != want {
			t.Errorf("nearest to %q: got %q, want %q", word, got, want)
		}
	}
}

// TestFarCandidates: names that are too short or too long to be near are left
// out without a comparison, those just within the limit are not.
func TestFarCandidates(t *testing.T) {
	for word, want := range map[string]string{"abcdxy": "abcd", "abcdxyz": "", "cd": "abcd", "d": "", "badc": "abcd"} {
		if got := Nearest(word, []string{"abcd"}, 2); got != want {
			t.Errorf("nearest to %q: got %q, want %q", word, got, want)
		}
	}
}
