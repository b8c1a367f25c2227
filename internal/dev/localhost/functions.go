package localhost

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"kennel/internal/customhandler"
)

// A function is one direct sub-folder of the script root with a function.json.
// Its name is the folder's name, in its exact case. A function with a problem
// is kept, so that its status can report the problem, but nothing triggers it.
type function struct {
	name        string
	bindings    []binding
	disabled    bool
	retry       *retryPolicy     // nil: a failed invocation is not repeated
	problem     error            // why it cannot run in any host; nil: it can
	unsupported error            // why it cannot run in this host; nil: it can
	shown       []map[string]any // the bindings as written
}

// A binding is one entry of function.json. Only the fields of its type are
// meaningful.
type binding struct {
	name, kind, direction string

	route     string   // httpTrigger
	methods   []string // httpTrigger; empty: all
	authLevel string   // httpTrigger

	queue      string // queueTrigger, queue
	connection string // queueTrigger, queue

	schedule     string // timerTrigger
	useMonitor   bool   // timerTrigger
	runOnStartup bool   // timerTrigger

	dataType string
}

// defaultConnection is the connection of a queue trigger that names none.
const defaultConnection = "AzureWebJobsStorage"

func (b binding) is(kind string) bool { return strings.EqualFold(b.kind, kind) }

func (b binding) isTrigger() bool {
	return strings.HasSuffix(strings.ToLower(b.kind), "trigger")
}

// trigger is the one trigger of a function without a problem.
func (f *function) trigger() binding {
	for _, b := range f.bindings {
		if b.isTrigger() {
			return b
		}
	}
	return binding{}
}

// output returns the function's http output, if it has one.
func (f *function) output() (binding, bool) {
	i := slices.IndexFunc(f.bindings, func(b binding) bool { return b.is("http") })
	if i < 0 {
		return binding{}, false
	}
	return f.bindings[i], true
}

// forwards reports whether a request reaches the handler unchanged: only for a
// function whose bindings are exactly an httpTrigger and an http output.
func (f *function) forwards() bool {
	_, ok := f.output()
	return len(f.bindings) == 2 && f.trigger().is("httpTrigger") && ok
}

// checkOutputs returns an error if an answer has something for a queue: this
// host does not write to the queues of output bindings.
func (f *function) checkOutputs(answer customhandler.Answer) error {
	for _, b := range f.bindings {
		if value := answer.Outputs[b.name]; b.is("queue") && len(value) > 0 && string(value) != "null" {
			return fmt.Errorf("output %q is for queue %s, and this local host does not support outputs to queues", b.name, b.queue)
		}
	}
	return nil
}

var (
	functionName = regexp.MustCompile(`(?i)^[a-z][a-z0-9_\-]{0,127}$`)
	queueName    = regexp.MustCompile(`^[a-z0-9](-?[a-z0-9])*$`)
	bindingName  = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9]{0,127}$`)
)

// CheckFunction reads the function.json in a folder and returns the problems
// that it has in any Functions host, one per line. It does not resolve
// settings, so it accepts any %NAME%.
func CheckFunction(folder string) error {
	f, _ := readFunction(folder, nil)
	return f.problem
}

// discover finds the functions below root, sorted by name. A function that
// cannot be read does not stop the others. The error is for a root that cannot
// be read at all.
func discover(root string, only []string, env settings) ([]*function, error) {
	folders, err := os.ReadDir(root)
	if err != nil {
		return nil, fmt.Errorf("find functions: %w", err)
	}
	var functions []*function
	for _, folder := range folders {
		name := folder.Name()
		if len(only) > 0 && !slices.ContainsFunc(only, func(o string) bool { return strings.EqualFold(o, name) }) {
			continue
		}
		f, excluded := readFunction(filepath.Join(root, name), env)
		if excluded {
			continue
		}
		for _, other := range functions {
			if strings.EqualFold(other.name, name) {
				f.problem = cmp.Or(f.problem, fmt.Errorf("the name differs from function %q by case only", other.name))
			}
		}
		functions = append(functions, f)
	}
	return functions, nil
}

// readFunction reads a folder. A folder without a function.json counts as
// excluded. Without env, names of settings are not resolved.
func readFunction(folder string, env settings) (f *function, excluded bool) {
	f = &function{name: filepath.Base(folder)}
	info, err := os.Stat(folder)
	if err != nil || !info.IsDir() {
		return f, true
	}
	text, err := os.ReadFile(filepath.Join(folder, "function.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return f, true
	}
	var problems []error
	file, parseErr := newSection(text, &problems)
	if err = cmp.Or(err, parseErr); err != nil {
		f.problem = fmt.Errorf("read function.json: %w", err)
		return f, false
	}
	if !functionName.MatchString(f.name) || strings.EqualFold(f.name, "host") {
		problems = append(problems, fmt.Errorf("%q is not a function name: use a letter, then up to 127 letters, digits, - and _, but not \"host\"", f.name))
	}
	if _, ok := file.get("scriptFile"); ok {
		problems = append(problems, errors.New("scriptFile is set, but a custom handler has no scripts; remove it"))
	}
	f.disabled = isDisabled(f.name, env)
	f.retry = readRetry(file)
	f.readBindings(file, env)
	wrong, unsupported := f.check()
	f.problem = errors.Join(append(problems, wrong...)...)
	f.unsupported = errors.Join(unsupported...)
	return f, file.flag("excluded", false)
}

func (f *function) readBindings(file section, env settings) {
	list, _ := file.get("bindings")
	entries, isList := list.([]any)
	if !isList || len(entries) == 0 {
		file.problem("bindings", "a list of at least one binding")
	}
	for i, entry := range entries {
		values, _ := entry.(map[string]any)
		f.shown = append(f.shown, values)
		s := section{path: fmt.Sprintf("bindings[%d]", i), values: values, problems: file.problems}
		b := binding{
			name:         s.text("name", ""),
			kind:         s.text("type", ""),
			direction:    strings.ToLower(s.text("direction", "in")),
			route:        s.text("route", ""),
			methods:      s.texts("methods"),
			authLevel:    strings.ToLower(s.text("authLevel", "function")),
			queue:        s.text("queueName", ""),
			connection:   s.text("connection", defaultConnection),
			schedule:     s.text("schedule", ""),
			useMonitor:   s.flag("useMonitor", true),
			runOnStartup: s.flag("runOnStartup", false),
			dataType:     s.text("dataType", ""),
		}
		for _, text := range []*string{&b.queue, &b.schedule} {
			if env == nil && percentName.MatchString(*text) {
				continue // check accepts it
			}
			resolved, err := env.resolve(*text)
			if err != nil {
				*file.problems = append(*file.problems, fmt.Errorf("bindings[%d]: %w", i, err))
			}
			*text = resolved
		}
		f.bindings = append(f.bindings, b)
	}
}

// check returns the problems of the bindings in any host, and the features that
// only this host does not support, each with the index of the binding.
func (f *function) check() (wrong, unsupported []error) {
	triggers := 0
	for i, b := range f.bindings {
		report := func(err error) {
			err = fmt.Errorf("bindings[%d]: %w", i, err)
			if _, ok := errors.AsType[unsupportedError](err); ok {
				unsupported = append(unsupported, err)
			} else {
				wrong = append(wrong, err)
			}
		}
		bad := func(format string, args ...any) { report(fmt.Errorf(format, args...)) }
		if !bindingName.MatchString(b.name) && !(b.name == "$return" && b.direction == "out") {
			bad("%q is not a binding name: use a letter, then up to 127 letters and digits", b.name)
		}
		for _, other := range f.bindings[:i] {
			if strings.EqualFold(other.name, b.name) {
				bad("a second binding is named %q", b.name)
			}
		}
		if b.direction != "in" && b.direction != "out" || b.isTrigger() && b.direction == "out" || (b.is("http") || b.is("queue")) && b.direction == "in" {
			bad("a %s cannot have the direction %q", b.kind, b.direction)
		}
		if b.isTrigger() {
			triggers++
		}
		if err := b.check(); err != nil {
			report(err)
		}
	}
	if len(f.bindings) > 0 && triggers != 1 {
		wrong = append(wrong, fmt.Errorf("there must be exactly one trigger, not %d", triggers))
	}
	return wrong, unsupported
}

// check returns the problem of the fields of the binding's type.
func (b binding) check() (err error) {
	switch strings.ToLower(b.kind) {
	case "http":
		if b.name == "$return" {
			return unsupportedError("this local host does not support the binding name $return")
		}
	case "httptrigger":
		if !slices.Contains([]string{"anonymous", "function", "admin"}, b.authLevel) {
			return fmt.Errorf("authLevel %q must be anonymous, function or admin", b.authLevel)
		}
		_, err = parseRoute(b.route)
	case "queuetrigger", "queue":
		if !percentName.MatchString(b.queue) && (!queueName.MatchString(b.queue) || len(b.queue) < 3 || len(b.queue) > 63) {
			return fmt.Errorf("queueName %q must be 3 to 63 lower case letters, digits and single hyphens", b.queue)
		}
	case "timertrigger":
		if !percentName.MatchString(b.schedule) {
			_, err = parseSchedule(b.schedule)
		}
	case "":
		return errors.New("type is missing")
	default:
		return unsupportedError(fmt.Sprintf("this local host does not support the binding type %q", b.kind))
	}
	return err
}

// isDisabled reports whether a setting disables a function. "disabled" in
// function.json has no effect in the real host.
func isDisabled(name string, env settings) bool {
	return env.truth("AzureWebJobs."+name+".Disabled") ||
		env.truth("AzureWebJobs__"+name+"__Disabled") ||
		env.truth("AzureWebJobs_"+name+"_Disabled")
}

// invisible finds the function.json files that the host ignores, because they
// are not in a direct sub-folder of the root. The real host does not report
// them. It searches four folders deep.
func invisible(root string) []string {
	var found []string
	// Ignore read errors: the result is only used for warnings.
	_ = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		relative, relErr := filepath.Rel(root, path)
		if err != nil || relErr != nil {
			return nil
		}
		depth := strings.Count(filepath.ToSlash(relative), "/")
		if entry.IsDir() && relative != "." {
			if strings.HasPrefix(entry.Name(), ".") || entry.Name() == "node_modules" || depth >= 4 {
				return fs.SkipDir
			}
		}
		if entry.Name() == "function.json" && !entry.IsDir() && depth != 1 {
			found = append(found, filepath.ToSlash(relative))
		}
		return nil
	})
	return found
}
