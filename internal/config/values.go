package config

import (
	"log/slog"
	"strconv"
	"strings"
	"time"
)

func (r *reader) number(name string, byDefault, least, most int) int {
	text := r.get(name)
	if text == "" {
		return byDefault
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		r.problem("%s must be a whole number from %d to %d, such as %d", name, least, most, byDefault)
		return byDefault
	}
	return n
}

func (r *reader) duration(name string, byDefault, least, most time.Duration) time.Duration {
	text := r.get(name)
	if text == "" {
		return byDefault
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < least || d > most {
		r.problem("%s must be a time with its unit from %s to %s, such as %s", name, short(least), short(most), short(byDefault))
		return byDefault
	}
	return d
}

// short writes a duration as people do: 5m, not 5m0s.
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

// port reads the port the host wants the handler at, under its name or the one
// it had in older hosts.
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
		r.problem("%s must be a port from 1 to 65535; the Functions host sets it, nobody else needs to", name)
	}
	return port, false
}
