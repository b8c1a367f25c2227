package program

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"kennel/internal/names"
	"kennel/internal/schedule"
)

var (
	nameForm    = regexp.MustCompile(`^[a-z][a-z0-9]*(-[a-z0-9]+)*$`)
	settingForm = regexp.MustCompile(`^[A-Z][A-Z0-9_]{1,62}$`)
	segmentForm = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)
)

// maxName leaves room for the longest prefix with its hyphen and for the suffix of
// dead letters in the 63 characters of a storage queue.
const maxName = 63 - (names.MaxPrefix + 1) - len(names.PoisonSuffix)

// Check returns all mistakes of the declarations, joined.
func (d *Declared) Check() error {
	errs := slices.Clone(d.Mistakes)
	bad := func(format string, values ...any) { errs = append(errs, fmt.Errorf(format, values...)) }
	if err := checkName(d.Name); err != nil {
		bad("the program's name: %w", err)
	}
	d.checkQueues(bad)
	d.checkTimers(bad)
	d.checkRoutes(bad)
	d.checkSettings(bad)
	seen := make(map[string]bool)
	for _, p := range d.Processors {
		switch err := checkName(p.Name); {
		case err != nil:
			bad("processor %q: %w", p.Name, err)
		case seen[p.Name]:
			bad("processor %q is declared twice", p.Name)
		case p.Told > 1:
			bad("processor %q: OnEnd is called twice", p.Name)
		case p.Told > 0 && p.OnEnd == nil:
			bad("processor %q: the function of OnEnd is nil", p.Name)
		}
		for _, err := range p.Mistakes {
			bad("processor %q: %w", p.Name, err)
		}
		seen[p.Name] = true
	}
	return errors.Join(errs...)
}

// checkName checks a name that becomes part of those of queues and functions.
func checkName(name string) error {
	switch {
	case !nameForm.MatchString(name):
		return errors.New("use lower-case letters, digits and single hyphens, first a letter")
	case len(name) < 3 || len(name) > maxName:
		return fmt.Errorf("its length is %d: use 3 to %d characters", len(name), maxName)
	}
	return nil
}

// checkQueueName checks the name of a queue of a program's own.
func checkQueueName(name string) error {
	if err := checkName(name); err != nil {
		return err
	}
	if strings.HasPrefix(name, names.PartitionPrefix) || strings.HasPrefix(name, "kennel-") || strings.HasSuffix(name, names.PoisonSuffix) || name == names.CleanupQueue {
		return fmt.Errorf("the name is reserved: %s*, kennel-*, *%s and %s belong to built-in parts", names.PartitionPrefix, names.PoisonSuffix, names.CleanupQueue)
	}
	return nil
}

func (d *Declared) checkQueues(bad func(string, ...any)) {
	seen := make(map[string]bool)
	for _, q := range d.Queues {
		if seen[q.Name] {
			bad("queue %q is declared twice", q.Name)
		}
		seen[q.Name] = true
		if err := checkQueueName(q.Name); err != nil {
			bad("queue %q: %w", q.Name, err)
		}
		for _, other := range append(q.FormerNames[:len(q.FormerNames):len(q.FormerNames)], q.Storage()) {
			if err := checkQueueName(other); other != q.Name && err != nil {
				bad("queue %q: storage queue %q: %w", q.Name, other, err)
			}
		}
		if slices.Contains(q.FormerNames, q.Storage()) {
			bad("queue %q: FormerNames has %q, its storage queue of now", q.Name, q.Storage())
		}
		if q.Mistake != nil {
			bad("queue %q: %w", q.Name, q.Mistake)
		}
		switch {
		case q.Handled > 1:
			bad("queue %q has %d handlers: call Handle once", q.Name, q.Handled)
		case q.Handled == 1 && q.SendOnly:
			bad("queue %q has a handler and is SendOnly: remove one of them", q.Name)
		case q.Handled == 0 && !q.SendOnly:
			bad("queue %q has no handler: call Handle, or set SendOnly if another program works on it", q.Name)
		case q.Handled == 1 && q.Work == nil:
			bad("queue %q: its handler is nil", q.Name)
		}
		if q.Concurrency < 0 || q.Concurrency > MostAtOnce {
			bad("queue %q: HandleOptions.Concurrency is %d: use up to %d", q.Name, q.Concurrency, MostAtOnce)
		}
		for _, wrong := range attemptMistakes("HandleOptions", q.MaxAttempts, q.Timeout) {
			bad("queue %q: %s", q.Name, wrong)
		}
	}
}

// Beyond these, an option is a slip of the pen.
const (
	MostAtOnce   = 10_000 // messages or items
	mostAttempts = 10_000
	longest      = 7 * 24 * time.Hour
)

// attemptMistakes returns what is wrong with options of attempts.
func attemptMistakes(options string, attempts int, timeout time.Duration) (all []string) {
	if attempts < 0 || attempts > mostAttempts {
		all = append(all, fmt.Sprintf("%s.MaxAttempts is %d: use up to %d", options, attempts, mostAttempts))
	}
	if timeout < 0 || timeout > longest {
		all = append(all, fmt.Sprintf("%s.Timeout is %v: use up to %v", options, timeout, longest))
	}
	return all
}

func (d *Declared) checkTimers(bad func(string, ...any)) {
	seen := make(map[string]bool)
	for _, t := range d.Timers {
		if seen[t.Name] {
			bad("timer %q is declared twice", t.Name)
		}
		seen[t.Name] = true
		if err := checkName(t.Name); err != nil {
			bad("timer %q: %w", t.Name, err)
		}
		if t.Work == nil {
			bad("timer %q: its function is nil", t.Name)
		}
		for _, wrong := range attemptMistakes("TimerOptions", t.MaxAttempts, t.Timeout) {
			bad("timer %q: %s", t.Name, wrong)
		}
		if _, err := schedule.Parse(t.Schedule, t.Zone); err != nil {
			bad("timer %q: %w", t.Name, err)
		}
	}
}

// BuiltInSegments returns the first segments of the built-in routes, and those
// that the host keeps for itself.
func BuiltInSegments() []string {
	return []string{
		"admin", "batches", "channels", "console", "deadletters", "doctor", "gates", "health", "limits", "audit", "messages", "metrics",
		"openapi.yaml", "queues", "relay", "runtime", "scale", "sequences", "status", "timers",
	}
}

var methods = []string{"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"}

func (d *Declared) checkRoutes(bad func(string, ...any)) {
	seen := make(map[string]bool)
	levels := make(map[string]Level)
	mux := http.NewServeMux()
	for _, r := range d.Routes {
		twice := seen[r.Pattern]
		seen[r.Pattern] = true
		method, path, found := strings.Cut(r.Pattern, " ")
		segment := r.Segment()
		switch {
		case twice:
			bad("route %q is declared twice", r.Pattern)
		case !found || !slices.Contains(methods, method):
			bad("route %q: begin it with one of the methods %s", r.Pattern, strings.Join(methods, ", "))
		case !strings.HasPrefix(path, "/"):
			bad("route %q: the path begins with /, and it names no host", r.Pattern)
		case strings.Contains(path, "{$}"):
			bad("route %q: the Functions host does not pass a path's last slash on, so {$} has no meaning", r.Pattern)
		case slices.Contains(BuiltInSegments(), segment):
			bad("route %q: /api/%s belongs to a built-in part", r.Pattern, segment)
		case !segmentForm.MatchString(segment):
			bad("route %q: its first segment is %q: use lower-case letters, digits and hyphens, first a letter", r.Pattern, segment)
		default:
			if wrong := conflict(mux, r.Pattern); wrong != "" {
				bad("route %q: %s", r.Pattern, wrong)
			}
		}
		switch level, known := levels[segment]; {
		case r.Level < LevelFunction || r.Level > LevelAdmin:
			bad("route %q: the level is unknown", r.Pattern)
		case known && level != r.Level:
			bad("route %q: another route below /%s has the level %v: one function serves both, so use one level", r.Pattern, segment, level)
		}
		levels[segment] = r.Level
		if r.Handler == nil {
			bad("route %q: its handler is nil", r.Pattern)
		}
	}
}

// conflict adds a pattern to a mux, and returns why it cannot be served beside
// those that are in it; "": it can. The mux panics, because its callers know their
// patterns; here they are all to be reported together.
func conflict(mux *http.ServeMux, pattern string) (wrong string) {
	defer func() {
		reason := recover()
		if reason == nil {
			return
		}
		wrong = fmt.Sprint(reason)
		if _, both, ok := strings.Cut(wrong, "\n"); ok { // after the places where they were registered
			wrong = strings.ReplaceAll(both, "\n", " ")
		} else {
			wrong = wrong[strings.LastIndex(wrong, ": ")+1:]
		}
		wrong = strings.TrimSpace(wrong)
	}()
	mux.Handle(pattern, http.NotFoundHandler())
	return ""
}

func (d *Declared) checkSettings(bad func(string, ...any)) {
	seen := make(map[string]bool)
	for _, s := range d.Settings {
		switch {
		case seen[s.Name]:
			bad("setting %q is declared twice", s.Name)
		case !settingForm.MatchString(s.Name):
			bad("setting %q: use capital letters, digits and underscores, first a letter", s.Name)
		case strings.HasPrefix(s.Name, "KENNEL_"), strings.HasPrefix(s.Name, "AZUREWEBJOBS"), strings.HasPrefix(s.Name, "FUNCTIONS_"), strings.HasPrefix(s.Name, "WEBSITE_"):
			bad("setting %q: its beginning is reserved for Kennel or for the Functions host", s.Name)
		case s.Name == "AZURE_CLIENT_ID", strings.HasPrefix(s.Name, "APPLICATIONINSIGHTS_"), strings.HasPrefix(s.Name, "WEBSITES_"), s.Name == "PATH":
			bad("setting %q: infra/ or the platform sets it; read it from the environment", s.Name)
		case s.Secret && s.Default != "":
			bad("setting %q: a secret has no default", s.Name)
		case s.Default != "":
			if err := s.Refusal(s.Default); err != nil {
				bad("setting %q: its Check refuses the default %q: %w", s.Name, s.Default, err)
			}
		}
		seen[s.Name] = true
	}
}
