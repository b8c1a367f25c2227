package main

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// What the host accepts as the name of a function and of a binding.
var (
	functionName = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9_-]{0,127}$`)
	bindingName  = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9]{0,127}$`)
)

// A binding holds the fields of a binding that a wrong value can break
// without a word from the host until the app runs in Azure.
type binding struct {
	Type, Direction, Name string
	AuthLevel             string
	QueueName, Schedule   string
}

// checkName says what is wrong with the folder name of a function, given the
// names that came before it.
func checkName(name string, before []string) (problems []error) {
	if !functionName.MatchString(name) {
		problems = append(problems, fmt.Errorf("%q is no function name: a letter first, then letters, digits, - and _", name))
	}
	if strings.EqualFold(name, "host") || strings.EqualFold(name, handlerName) {
		problems = append(problems, fmt.Errorf("the name %q is taken: choose another one for the function", name))
	}
	for _, other := range before {
		if strings.EqualFold(name, other) {
			problems = append(problems, fmt.Errorf("differs from the function %q in case only, which the host does not tell apart", other))
		}
	}
	return problems
}

// checkBindings says what is wrong with one function.json. Types of bindings
// it does not know are left to the host and its extensions.
func checkBindings(path string) (problems []error) {
	var file struct {
		ScriptFile string
		Bindings   []binding
	}
	if err := readJSON(path, &file); err != nil {
		return []error{err}
	}
	if file.ScriptFile != "" {
		problems = append(problems, errors.New("scriptFile is set, but the package holds no scripts: leave it out"))
	}
	triggers := 0
	names := make(map[string]bool)
	for i, b := range file.Bindings {
		if b.isTrigger() {
			triggers++
		}
		found := b.problems()
		if lower := strings.ToLower(b.Name); names[lower] {
			found = append(found, fmt.Errorf("name %q is used twice", b.Name))
		} else {
			names[lower] = true
		}
		for _, problem := range found {
			problems = append(problems, fmt.Errorf("binding %d: %w", i+1, problem))
		}
	}
	if triggers != 1 {
		problems = append(problems, fmt.Errorf("has %d triggers: every function has exactly one", triggers))
	}
	return problems
}

func (b binding) isTrigger() bool {
	return strings.HasSuffix(strings.ToLower(b.Type), "trigger")
}

func (b binding) problems() (problems []error) {
	if b.Type == "" {
		problems = append(problems, errors.New("type is missing"))
	}
	if !bindingName.MatchString(b.Name) && !(b.Name == "$return" && b.Direction == "out") {
		problems = append(problems, fmt.Errorf("%q is no binding name: a letter first, then letters and digits only", b.Name))
	}
	directions := []string{"in", "out"}
	if b.isTrigger() {
		directions = []string{"in"}
	}
	if !slices.Contains(directions, b.Direction) {
		problems = append(problems, fmt.Errorf("direction of a %s is %q: write %s", b.Type, b.Direction, strings.Join(directions, " or ")))
	}
	switch strings.ToLower(b.Type) {
	case "httptrigger":
		// Absent means function, the safe choice.
		if !slices.Contains([]string{"", "anonymous", "function", "admin"}, b.AuthLevel) {
			problems = append(problems, fmt.Errorf("authLevel is %q: write anonymous, function or admin", b.AuthLevel))
		}
	case "queuetrigger":
		if b.QueueName == "" {
			problems = append(problems, errors.New("queueName is missing"))
		}
	case "timertrigger":
		if b.Schedule == "" {
			problems = append(problems, errors.New("schedule is missing"))
		}
	}
	return problems
}
