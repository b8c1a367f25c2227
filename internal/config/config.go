// Package config turns the environment into one checked struct. It is the only
// place that knows the names of settings.
//
// Every setting but the storage account has a default that works. Whatever is
// wrong is reported at once and together, by the setting's name and with what
// to write instead. No value is ever repeated, since one of them may be a
// secret in the wrong place.
package config

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"kennel/internal/suggest"
)

// Config is what the app is told from outside.
type Config struct {
	// Port is where the Functions host looks for the handler.
	// FUNCTIONS_CUSTOMHANDLER_PORT, set by the host.
	Port int

	// PortFromDefault says that no host has set a port: somebody runs the
	// handler by hand.
	PortFromDefault bool

	// Storage is the account that everything is kept in. AzureWebJobsStorage
	// or its __ forms.
	Storage Storage

	// ServiceBus is the namespace that carries signals. Without one the app
	// does without. ServiceBus or its __ forms.
	ServiceBus ServiceBus

	// ServiceBusSecondary is the namespace that stands in for it.
	// ServiceBusSecondary or its __ forms.
	ServiceBusSecondary ServiceBus

	// SignedIn says that the platform signs callers in before they reach the
	// app, so that what it says about them can be believed; anybody could send
	// such headers otherwise. WEBSITE_AUTH_ENABLED, set by the platform.
	SignedIn bool

	// RangeSize is how many order numbers are reserved at least with one
	// request. A crash loses two ranges at most. KENNEL_RANGE_SIZE.
	RangeSize int

	// RangeLasts is how long a reserved range should last: the higher the
	// demand, the larger the range. KENNEL_RANGE_LASTS.
	RangeLasts time.Duration

	// ReserveTimeout is how long a request for order numbers waits for
	// storage. KENNEL_RESERVE_TIMEOUT.
	ReserveTimeout time.Duration

	// InvocationTimeout ends an invocation before the host does, which would
	// kill all others with it. KENNEL_INVOCATION_TIMEOUT.
	InvocationTimeout time.Duration

	// Drain is how long a stopping handler lets invocations finish.
	// KENNEL_DRAIN.
	Drain time.Duration

	// LogLevel is the least level that is logged. KENNEL_LOG_LEVEL.
	LogLevel slog.Level
}

// keyOfCommands is what the command line shows to the app: none of the app's
// settings, but often in the same shell.
const keyOfCommands = "KENNEL_KEY"

// The bounds of the settings.
const (
	defaultPort = 7072

	// functionTimeout is the one in host.json, at which the host restarts the
	// handler.
	functionTimeout = 5 * time.Minute
)

// Load reads the environment. Its error is an [*Error].
func Load(env map[string]string) (Config, error) {
	r := &reader{env: env}
	c := Config{
		Storage:             r.storage("AzureWebJobsStorage"),
		ServiceBus:          r.serviceBus("ServiceBus"),
		ServiceBusSecondary: r.serviceBus("ServiceBusSecondary"),
		SignedIn:            strings.EqualFold(r.get("WEBSITE_AUTH_ENABLED"), "true"),
		RangeSize:           r.number("KENNEL_RANGE_SIZE", 1000, 1, 1_000_000),
		RangeLasts:          r.duration("KENNEL_RANGE_LASTS", time.Minute, time.Second, 24*time.Hour),
		ReserveTimeout:      r.duration("KENNEL_RESERVE_TIMEOUT", 10*time.Second, 100*time.Millisecond, functionTimeout),
		InvocationTimeout:   r.duration("KENNEL_INVOCATION_TIMEOUT", 4*time.Minute+30*time.Second, time.Second, functionTimeout),
		Drain:               r.duration("KENNEL_DRAIN", 5*time.Second, 0, time.Minute),
		LogLevel:            r.level("KENNEL_LOG_LEVEL"),
	}
	if c.ServiceBusSecondary.Given() && !c.ServiceBus.Given() {
		r.problem("ServiceBusSecondary is set without ServiceBus, for which it is to stand in: set that, too, or remove it")
	}
	if c.ServiceBusSecondary.Given() && c.ServiceBusSecondary == c.ServiceBus {
		r.problem("ServiceBusSecondary is the same as ServiceBus: a namespace cannot stand in for itself")
	}
	c.Port, c.PortFromDefault = r.port("FUNCTIONS_CUSTOMHANDLER_PORT", "FUNCTIONS_HTTPWORKER_PORT")
	if c.InvocationTimeout >= functionTimeout {
		r.problem("KENNEL_INVOCATION_TIMEOUT must be shorter than functionTimeout in host.json, which is %v: the default 4m30s leaves time to answer", functionTimeout)
	}
	if c.ReserveTimeout > c.InvocationTimeout {
		r.problem("KENNEL_RESERVE_TIMEOUT must not be longer than KENNEL_INVOCATION_TIMEOUT, within which order numbers have to come")
	}
	r.get(keyOfCommands)
	r.unknown("KENNEL_")
	if len(r.problems) > 0 {
		return Config{}, &Error{r.problems}
	}
	return c, nil
}

// Error is everything that is wrong with the settings.
type Error struct {
	Problems []string // a sentence each, beginning with the setting's name
}

func (e *Error) Error() string {
	if len(e.Problems) == 1 {
		return "invalid setting: " + e.Problems[0]
	}
	return fmt.Sprintf("%d invalid settings:\n- %s", len(e.Problems), strings.Join(e.Problems, "\n- "))
}

// reader reads settings, remembers the names it was asked for, and collects
// problems.
type reader struct {
	env      map[string]string
	asked    []string
	problems []string
}

func (r *reader) problem(format string, args ...any) {
	r.problems = append(r.problems, fmt.Sprintf(format, args...))
}

// get returns a setting without the white space around it. A blank one counts
// as absent.
func (r *reader) get(name string) string {
	r.asked = append(r.asked, name)
	return strings.TrimSpace(r.env[name])
}

// maxTypos is how many letters of a misspelt setting may be wrong, missing or
// too many for a suggestion.
const maxTypos = 3

// unknown reports the names with our prefix that nobody asked for.
func (r *reader) unknown(prefix string) {
	var names []string
	for name := range r.env {
		ours := len(name) >= len(prefix) && strings.EqualFold(name[:len(prefix)], prefix)
		if ours && !slices.Contains(r.asked, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		advice := "remove it"
		if known := suggest.Nearest(strings.ToUpper(name), r.asked, maxTypos); known != "" {
			advice = "did you mean " + known + "?"
		}
		r.problem("%.60s is not a setting of Kennel: %s", name, advice)
	}
}
