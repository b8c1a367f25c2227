package edge

import (
	"testing"
)

func TestThisMachine(t *testing.T) {
	for host, want := range map[string]string{"evil.example:7100": "127.0.0.1:7100", "evil.example": "127.0.0.1", "[::2]:1": "127.0.0.1:1", "x:<b>": "127.0.0.1", "x:99999": "127.0.0.1"} {
		if got := thisMachine(host); got != want {
			t.Errorf("%s: %s, want %s", host, got, want)
		}
	}
}
