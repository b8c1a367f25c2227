package config

import (
	"cmp"
	"log/slog"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"kennel/gate"
	"kennel/internal/names"
)

func (r *reader) number(name string, byDefault, min, max int) int {
	text := r.get(name)
	if text == "" {
		return byDefault
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < min || n > max {
		r.problem("%s must be a whole number from %d to %d, for example %d", name, min, max, byDefault)
		return byDefault
	}
	return n
}

func (r *reader) duration(name string, byDefault, min, max time.Duration) time.Duration {
	text := r.get(name)
	if text == "" {
		return byDefault
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < min || d > max {
		r.problem("%s must be a duration with a unit, from %s to %s, for example %s", name, short(min), short(max), short(byDefault))
		return byDefault
	}
	return d
}

// units are the units of a number of bytes, the largest first.
var units = []struct {
	name string
	size int64
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}}

// bytes reads a number of bytes, plain or with a unit.
func (r *reader) bytes(name string, byDefault, min, max int64) int64 {
	text := r.get(name)
	if text == "" {
		return byDefault
	}
	size := int64(1)
	for _, unit := range units {
		if number, ok := strings.CutSuffix(strings.ToLower(text), strings.ToLower(unit.name)); ok {
			text, size = strings.TrimSpace(number), unit.size
			break
		}
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n > max/size || n*size < min {
		r.problem("%s must be a number of bytes, plain or with the unit KiB, MiB or GiB, from %s to %s, for example %s",
			name, inUnits(min), inUnits(max), inUnits(byDefault))
		return byDefault
	}
	return n * size
}

// inUnits formats a number of bytes in the largest unit of which it is a
// multiple.
func inUnits(n int64) string {
	for _, unit := range units {
		if n%unit.size == 0 {
			return strconv.FormatInt(n/unit.size, 10) + unit.name
		}
	}
	return strconv.FormatInt(n, 10)
}

// short formats a duration without zero units: 5m instead of 5m0s.
func short(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// patterns reads a comma-separated list of patterns.
func (r *reader) patterns(name, byDefault string) (patterns []string) {
	for text := range strings.SplitSeq(cmp.Or(r.get(name), byDefault), ",") {
		text = strings.TrimSpace(text)
		if _, err := path.Match(text, ""); err != nil || text == "" {
			r.problem("%s must be a list of names and patterns with * and ?, for example orders,invoices-*", name)
			return nil
		}
		patterns = append(patterns, text)
	}
	return patterns
}

// gate reads the name of a gate; "" is none.
func (r *reader) gate(name string) string {
	text := r.get(name)
	if text == "" || gate.CheckName(text) == nil {
		return text
	}
	r.problem("%s must be the name of a gate, 1 to 63 lower-case letters, digits and inner hyphens, for example billing", name)
	return ""
}

// flag reads true or false; "" is false.
func (r *reader) flag(name string) bool {
	text := r.get(name)
	if text != "" && !strings.EqualFold(text, "true") && !strings.EqualFold(text, "false") {
		r.problem("%s must be true or false", name)
	}
	return strings.EqualFold(text, "true")
}

// disabledSetting is the setting that switches a function off, as Linux plans
// write it, too.
var disabledSetting = regexp.MustCompile(`(?i)^AzureWebJobs(?:\.|__?)(\w+?)(?:\.|__?)Disabled$`)

// disabled returns the functions that are switched off.
func (r *reader) disabled() (names []string) {
	for setting, value := range r.env {
		value = strings.TrimSpace(value)
		if match := disabledSetting.FindStringSubmatch(setting); match != nil && (value == "1" || strings.EqualFold(value, "true")) {
			names = append(names, strings.ToLower(match[1]))
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// list reads a comma-separated list; "" is empty.
func (r *reader) list(name string) (parts []string) {
	list := r.get(name)
	if list == "" {
		return nil
	}
	for part := range strings.SplitSeq(list, ",") {
		parts = append(parts, strings.TrimSpace(part))
	}
	return parts
}

// withPrefix returns the settings whose names begin with prefix; nil if there
// are none.
func (r *reader) withPrefix(prefix string) map[string]string {
	var found map[string]string
	for name, value := range r.env {
		if value = strings.TrimSpace(value); value == "" || !strings.HasPrefix(name, prefix) {
			continue
		}
		if found == nil {
			found = make(map[string]string)
		}
		found[name] = value
	}
	return found
}

func (r *reader) level(name string) slog.Level {
	switch strings.ToLower(r.get(name)) {
	case "debug":
		return slog.LevelDebug
	case "", "info":
		return slog.LevelInfo
	case "warn":
		return slog.LevelWarn
	case "error":
		return slog.LevelError
	}
	r.problem("%s must be debug, info, warn or error", name)
	return slog.LevelInfo
}

const defaultPort = 7072

// port reads the port that the host assigns to the handler, from its name or
// the name in older hosts.
func (r *reader) port(name, legacy string) (port int, byDefault bool) {
	text, legacyText := r.get(name), r.get(legacy)
	if text == "" {
		name, text = legacy, legacyText
	}
	if text == "" {
		return defaultPort, true
	}
	port, err := strconv.Atoi(text)
	if err != nil || port < 1 || port > 65535 {
		r.problem("%s must be a port from 1 to 65535; it is set by the Functions host and is best left unset", name)
	}
	return port, false
}

// prefix reads the prefix of the names in storage.
func (r *reader) prefix(name string) string {
	prefix := r.get(name)
	if wrong := names.CheckPrefix(prefix); wrong != "" {
		r.problem("%s %s", name, wrong)
	}
	return prefix
}
