package queue

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// The checks reject requests that Azure would reject, even if the emulator
// would accept them, and accept requests just within the limits.
func TestLimits(t *testing.T) {
	const week, hour = 7 * 24 * time.Hour, time.Hour
	long := strings.Repeat("x", MaxBody)
	for _, tt := range []struct {
		name string
		good bool
		errs []error
	}{
		{"name", true, []error{CheckName("abc"), CheckName(strings.Repeat("a", 63)), CheckName("0-a-1")}},
		{"name", false, []error{CheckName(""), CheckName("ab"), CheckName(strings.Repeat("a", 64)), CheckName("Upper"), CheckName("-a1"),
			CheckName("a1-"), CheckName("a--b"), CheckName("a_b"), CheckName("a.b"), CheckName("ümlaut"),
			CheckPut("ab", "x", 0), CheckReceive("ab", 1, hour), CheckUpdate("ab", "x", hour), CheckPeek("ab", 1)}},
		{"body", true, []error{CheckPut("work", "", 0), CheckPut("work", long, 0), CheckPut("work", "\t\r\n<&>🐕", 0), CheckUpdate("work", long, 0)}},
		{"body", false, []error{CheckPut("work", long+"x", 0), CheckPut("work", "\x00", 0), CheckPut("work", "bell \a", 0),
			CheckPut("work", "\xff", 0), CheckPut("work", "\uffff", 0), CheckUpdate("work", long+"x", 0)}},
		{"delay", true, []error{CheckPut("work", "x", 0), CheckPut("work", "x", week-time.Second)}},
		{"delay", false, []error{CheckPut("work", "x", -1), CheckPut("work", "x", week-1), CheckPut("work", "x", week)}},
		{"max", true, []error{CheckReceive("work", 1, hour), CheckReceive("work", 32, hour), CheckPeek("work", 1), CheckPeek("work", 32)}},
		{"max", false, []error{CheckReceive("work", -1, hour), CheckReceive("work", 0, hour), CheckReceive("work", 33, hour),
			CheckPeek("work", 0), CheckPeek("work", 33)}},
		{"visibility", true, []error{CheckReceive("work", 1, 1), CheckReceive("work", 1, week), CheckUpdate("work", "x", 0), CheckUpdate("work", "x", week)}},
		{"visibility", false, []error{CheckReceive("work", 1, 0), CheckReceive("work", 1, -1), CheckReceive("work", 1, week+1),
			CheckUpdate("work", "x", -1), CheckUpdate("work", "x", week+1)}},
	} {
		for i, err := range tt.errs {
			if tt.good != (err == nil) || err != nil && !errors.Is(err, ErrLimit) {
				t.Errorf("%s %d: %v; good: %v", tt.name, i, err, tt.good)
			}
		}
	}
}
