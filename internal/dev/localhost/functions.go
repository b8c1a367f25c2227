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
)

// A function is one direct sub-folder of the script root with a function.json. Its name is the folder's
// name, in its exact case. A function with a problem is kept, so that its status can tell the problem, but
// nothing triggers it.
type function struct {
	name     string
	bindings []binding
	disabled bool
	retries  bool             // it has a retry policy
	problem  error            // nil: it can run
	shown    []map[string]any // the bindings as written
}

// A binding is one entry of function.json. Only the fields of its type are meaningful.
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

// defaultConnection is the connection of a queue binding that names none.
const defaultConnection = "AzureWebJobsStorage"

func (b binding) is(kind string) bool { return strings.EqualFold(b.kind, kind) }

func (b binding) isTrigger() bool {
	return len(b.kind) > len("Trigger") && strings.EqualFold(b.kind[len(b.kind)-len("Trigger"):], "Trigger")
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

// outputs are the function's output bindings of one kind.
func (f *function) outputs(kind string) []binding {
	return slices.DeleteFunc(slices.Clone(f.bindings), func(b binding) bool {
		return b.direction != "out" || !b.is(kind)
	})
}

// forwards reports whether a request reaches the handler as it is: only for a function whose bindings are
// exactly an httpTrigger and an http output.
func (f *function) forwards() bool {
	return len(f.bindings) == 2 && f.trigger().is("httpTrigger") && len(f.outputs("http")) == 1
}

var (
	functionName = regexp.MustCompile(`(?i)^[a-z][a-z0-9_\-]{0,127}$`)
	queueName    = regexp.MustCompile(`^[a-z0-9](-?[a-z0-9])*$`)
	bindingName  = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9]{0,127}$`)
)

// discover finds the functions below root, sorted by name. A function that cannot be read does not stop the
// others. The error is for a root that cannot be read at all.
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
		if info, err := os.Stat(filepath.Join(root, name)); err != nil || !info.IsDir() {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, name, "function.json"))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		f := &function{name: name}
		excluded := false
		if err == nil {
			excluded, err = f.read(text, filepath.Join(root, name), env)
		}
		if excluded {
			continue
		}
		for _, other := range functions {
			if strings.EqualFold(other.name, name) {
				err = cmp.Or(err, fmt.Errorf("the name differs from function %q by case only", other.name))
			}
		}
		f.problem = err
		functions = append(functions, f)
	}
	return functions, nil
}

// read fills a function from the text of its function.json.
func (f *function) read(text []byte, folder string, env settings) (excluded bool, err error) {
	if !functionName.MatchString(f.name) || strings.EqualFold(f.name, "host") {
		return false, fmt.Errorf("%q is no function name: a letter, then up to 127 letters, digits, - and _, and not \"host\"", f.name)
	}
	var problems []error
	file, err := newSection(text, &problems)
	if err != nil {
		return false, fmt.Errorf("read function.json: %w", err)
	}
	f.disabled = isDisabled(f.name, file, env)
	_, f.retries = file.get("retry")

	list, _ := file.get("bindings")
	entries, isList := list.([]any)
	if !isList || len(entries) == 0 {
		problems = append(problems, errors.New("bindings must be a list of at least one binding"))
	}
	for i, entry := range entries {
		values, _ := entry.(map[string]any)
		f.shown = append(f.shown, values)
		b := readBinding(section{path: fmt.Sprintf("bindings[%d]", i), values: values, problems: &problems})
		for _, text := range []*string{&b.queue, &b.schedule} {
			resolved, err := env.resolve(*text)
			if err != nil {
				problems = append(problems, fmt.Errorf("bindings[%d]: %w", i, err))
			}
			*text = resolved
		}
		f.bindings = append(f.bindings, b)
	}
	if script := file.text("scriptFile", ""); script != "" {
		if _, err := os.Stat(filepath.Join(folder, script)); err != nil {
			problems = append(problems, fmt.Errorf("scriptFile %q does not exist; a custom handler needs none", script))
		}
	}
	problems = append(problems, f.check()...)
	return file.flag("excluded", false), errors.Join(problems...)
}

func readBinding(s section) binding {
	return binding{
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
}

// check says what is wrong with the bindings, each problem by the binding's place in the file.
func (f *function) check() (problems []error) {
	triggers := 0
	for i, b := range f.bindings {
		bad := func(format string, args ...any) {
			problems = append(problems, fmt.Errorf("bindings[%d]: "+format, append([]any{i}, args...)...))
		}
		if !bindingName.MatchString(b.name) && !(b.name == "$return" && b.direction == "out") {
			bad("%q is no binding name: a letter, then up to 127 letters and digits", b.name)
		}
		for _, other := range f.bindings[:i] {
			if strings.EqualFold(other.name, b.name) {
				bad("a second binding is named %q", b.name)
			}
		}
		if b.direction != "in" && b.direction != "out" {
			bad(`direction %q must be "in" or "out"`, b.direction)
		}
		if b.isTrigger() {
			triggers++
		}
		switch strings.ToLower(b.kind) {
		case "httptrigger":
			if !slices.Contains([]string{"anonymous", "function", "admin"}, b.authLevel) {
				bad("authLevel %q must be anonymous, function or admin", b.authLevel)
			}
			if _, err := parseRoute(b.route); err != nil {
				bad("%w", err)
			}
		case "queuetrigger", "queue":
			if !queueName.MatchString(b.queue) || len(b.queue) < 3 || len(b.queue) > 63 {
				bad("queueName %q must be 3 to 63 lower case letters, digits and single hyphens", b.queue)
			}
		case "timertrigger":
			if _, err := parseSchedule(b.schedule); err != nil {
				bad("%w", err)
			}
		case "http", "servicebustrigger", "servicebus":
		default:
			bad("the binding type %q is not one this local host has", b.kind)
		}
		if b.isTrigger() != (b.direction == "in") {
			bad("a %s cannot have the direction %q", b.kind, b.direction)
		}
	}
	if len(f.bindings) > 0 && triggers != 1 {
		problems = append(problems, fmt.Errorf("there must be exactly one trigger, not %d", triggers))
	}
	return problems
}

// isDisabled reads the ways to switch a function off: "disabled" in its file (true, or the name of a
// setting), and the setting AzureWebJobs.<Name>.Disabled, also written with underscores.
func isDisabled(name string, file section, env settings) bool {
	if value, ok := file.get("disabled"); ok {
		if setting, isText := value.(string); isText && !isTrue(setting) {
			if env.truth(strings.Trim(setting, "%")) {
				return true
			}
		} else if file.flag("disabled", false) {
			return true
		}
	}
	return env.truth("AzureWebJobs."+name+".Disabled") ||
		env.truth("AzureWebJobs__"+name+"__Disabled") ||
		env.truth("AzureWebJobs_"+name+"_Disabled")
}

// invisible finds the function.json files that the host cannot see, because they are not in a direct
// sub-folder of the root. The real host says nothing about them. It looks four folders deep.
func invisible(root string) []string {
	var found []string
	// Problems of reading are ignored: this only looks for something to warn about.
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
