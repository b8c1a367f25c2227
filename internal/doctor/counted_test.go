package doctor

import "testing"

// TestCounted: one thing is named in the singular.
func TestCounted(t *testing.T) {
	for n, want := range map[int64]string{0: "0 messages", 1: "1 message", 2: "2 messages"} {
		if got := counted(n, "message"); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}
