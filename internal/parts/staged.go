package parts

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"kennel/internal/app"
	"kennel/internal/instances"
	"kennel/internal/names"
	"kennel/internal/observe"
	"kennel/internal/program"
)

// staleFunctions reports that the folders which the Functions host has are not
// those that this build declares: the host then does not call it for some, or
// calls it for what it does not know. What matches is served.
type staleFunctions struct {
	observe.NoFacts
	problem instances.Problem
}

// Problems implements [observe.Source].
func (s staleFunctions) Problems() []instances.Problem { return []instances.Problem{s.problem} }

// checkFunctions returns the parts of a program whose functions do not match
// those in the folder of the app, where the host has the names of queues with the
// prefix of the program; none if they do. The error is errOtherPrefix if the host
// has those of another prefix: it would call the program for the messages of
// another one. In a folder that is no app, as that of the source, there is nothing
// to compare.
func checkFunctions(d *program.Declared, prefix string, dir fs.FS) ([]app.Part, error) {
	staged, err := fs.Glob(dir, "*/function.json")
	if _, missing := fs.Stat(dir, "host.json"); err != nil || missing != nil || len(staged) == 0 {
		return nil, nil
	}
	var differ []string
	declared := make(map[string]bool)
	for _, f := range d.Describe().Functions {
		declared[f.Name] = true
		if !isStaged(f.WithPrefix(prefix), dir) {
			if hasOtherPrefix(f, dir) {
				return nil, fmt.Errorf("%w: the host has the queue of function %s with another prefix than KENNEL_PREFIX, which is %q, and would call this program for messages of another; make the package with kennel package --prefix, or correct the setting",
					errOtherPrefix, f.Name, prefix)
			}
			differ = append(differ, f.Name)
		}
	}
	for _, file := range staged {
		name := path.Dir(file)
		partition := strings.HasPrefix(name, names.PartitionFunction) && declared[names.PartitionFunction] // compared with KENNEL_PARTITIONS
		if !declared[name] && !partition {
			differ = append(differ, name)
		}
	}
	if len(differ) == 0 {
		return nil, nil
	}
	slices.Sort(differ)
	const shown = 5
	list := strings.Join(differ[:min(shown, len(differ))], ", ")
	if more := len(differ) - shown; more > 0 {
		list += fmt.Sprintf(" and %d more", more)
	}
	return []app.Part{{Knows: staleFunctions{problem: instances.Problem{
		Code: instances.FunctionsStale, Since: time.Now(), Count: int64(len(differ)),
		What: "The app was packaged with other functions than its code declares: " + list + ".",
	}}}}, nil
}

// unservedQueues returns the storage queues for whose messages the program has
// functions, and the host none, because they are not in the folder of the app. In
// a folder that is no app it returns none.
func unservedQueues(d *program.Declared, prefix string, partitions int, dir fs.FS) map[string]bool {
	staged, err := fs.Glob(dir, "*/function.json")
	if _, missing := fs.Stat(dir, "host.json"); err != nil || missing != nil || len(staged) == 0 {
		return nil
	}
	all := make(map[string]bool)
	check := func(f program.Function) {
		for _, b := range f.Bindings {
			if b.Type == "queueTrigger" && !isStaged(f.WithPrefix(prefix), dir) {
				all[b.QueueName] = true
			}
		}
	}
	for _, f := range d.Describe().Functions {
		check(f)
		if f.Name != names.PartitionFunction {
			continue
		}
		for n := 1; n < partitions; n++ { // copies of the function of the first one
			f.Name, f.Bindings = names.FunctionOfPartition(n), slices.Clone(f.Bindings)
			for i := range f.Bindings {
				f.Bindings[i].QueueName = names.PartitionQueue(n)
			}
			check(f)
		}
	}
	return all
}

// isStaged reports whether a function has its bindings in the folder of the app.
// Only these matter to the host, and their form does not.
func isStaged(f program.Function, dir fs.FS) bool {
	return slices.Equal(stagedBindings(f, dir), f.Bindings)
}

func stagedBindings(f program.Function, dir fs.FS) []program.Binding {
	var file struct{ Bindings []program.Binding }
	if text, err := fs.ReadFile(dir, f.Name+"/function.json"); err != nil || json.Unmarshal(text, &file) != nil {
		return nil
	}
	return file.Bindings
}

// errOtherPrefix reports a package that was made for another prefix.
var errOtherPrefix = errors.New("invalid setting: KENNEL_PREFIX")

// hasOtherPrefix reports whether a declared function of a queue differs in the
// folder of the app by the prefix of the queue.
func hasOtherPrefix(f program.Function, dir fs.FS) bool {
	staged := stagedBindings(f, dir)
	receives := func(b program.Binding) bool { return b.Type == "queueTrigger" }
	return slices.ContainsFunc(staged, receives) && slices.EqualFunc(staged, f.Bindings, func(is, declared program.Binding) bool {
		if is.QueueName == declared.QueueName {
			return is == declared
		}
		prefix, found := strings.CutSuffix(is.QueueName, "-"+declared.QueueName)
		is.QueueName = declared.QueueName
		return found && names.CheckPrefix(prefix) == "" && is == declared
	})
}
