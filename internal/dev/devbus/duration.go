package devbus

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// isoDuration is a duration in ISO 8601, of days and smaller units.
type isoDuration time.Duration

var isoUnits = []struct {
	letter byte
	unit   time.Duration
	inTime bool // after the T
}{
	{'D', 24 * time.Hour, false}, {'H', time.Hour, true}, {'M', time.Minute, true}, {'S', time.Second, true},
}

// forever stands for durations that are too long for time.Duration.
const forever = time.Duration(math.MaxInt64)

// endlessText is the longest duration of .NET as the service encodes it.
const endlessText = "P10675199DT2H48M5.4775807S"

func endless(d time.Duration) isoDuration {
	if d == 0 {
		return isoDuration(forever)
	}
	return isoDuration(d)
}

func finite(d time.Duration) time.Duration {
	if d == forever {
		return 0
	}
	return d
}

func (d isoDuration) MarshalText() ([]byte, error) {
	if time.Duration(d) == forever {
		return []byte(endlessText), nil
	}
	if d == 0 {
		return []byte("PT0S"), nil
	}
	text := []byte("P")
	rest, inTime := time.Duration(d), false
	for _, u := range isoUnits {
		n := rest / u.unit
		if rest -= n * u.unit; n == 0 && (u.letter != 'S' || rest == 0) {
			continue
		}
		if u.inTime && !inTime {
			text, inTime = append(text, 'T'), true
		}
		text = strconv.AppendInt(text, int64(n), 10)
		if u.letter == 'S' && rest > 0 {
			fraction := strconv.FormatFloat(rest.Seconds(), 'f', -1, 64)
			text = append(text, fraction[1:]...) // without its leading zero
		}
		text = append(text, u.letter)
	}
	return text, nil
}

func (d *isoDuration) UnmarshalText(b []byte) error {
	text := string(b)
	rest, ok := strings.CutPrefix(text, "P")
	total, units, inTime := 0.0, 0, false
	for _, u := range isoUnits {
		if !inTime {
			rest, inTime = strings.CutPrefix(rest, "T")
		}
		number, after, found := strings.Cut(rest, string(u.letter))
		if !found || inTime != u.inTime {
			continue
		}
		n, err := strconv.ParseFloat(number, 64)
		if err != nil || n < 0 {
			ok = false
		}
		total += n * float64(u.unit)
		rest, units = after, units+1
	}
	if !ok || rest != "" || units == 0 {
		return fmt.Errorf("%q is not a duration such as PT1M", text)
	}
	*d = isoDuration(forever)
	if total < float64(forever) {
		*d = isoDuration(math.Round(total))
	}
	return nil
}
