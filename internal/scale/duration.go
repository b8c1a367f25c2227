package scale

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// duration is a time.Duration that JSON writes as "5m0s".
type duration time.Duration

func (d duration) String() string               { return short(time.Duration(d)) }
func (d duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

func (d *duration) UnmarshalText(text []byte) error {
	parsed, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%.50q is not a duration such as \"5m\"", text)
	}
	*d = duration(parsed)
	return nil
}

func (d duration) within(low, high time.Duration) bool {
	return time.Duration(d) >= low && time.Duration(d) <= high
}

// short returns a duration without units that are zero, as in "5m".
func short(d time.Duration) string {
	d = d.Round(time.Second)
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

func seconds(s float64) time.Duration {
	return time.Duration(min(s, math.MaxInt32) * float64(time.Second))
}
