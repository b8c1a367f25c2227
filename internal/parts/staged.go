package parts

import (
	"encoding/json"
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
// prefix of the program; none if they do. In a folder that is no app,
// as that of the source, there is nothing to compare.
func checkFunctions(d *program.Declared, prefix string, dir fs.FS) []app.Part {
	staged, err := fs.Glob(dir, "*/function.json")
	if _, missing := fs.Stat(dir, "host.json"); err != nil || missing != nil || len(staged) == 0 {
		return nil
	}
	var differ []string
	prefixed := false // with another prefix
	declared := make(map[string]bool)
	for _, f := range d.Describe().Functions {
		declared[f.Name] = true
		if !isStaged(f.WithPrefix(prefix), dir) {
			differ = append(differ, f.Name)
			prefixed = prefixed || hasOtherPrefix(f, dir)
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
		return nil
	}
	slices.Sort(differ)
	const shown = 5
	list := strings.Join(differ[:min(shown, len(differ))], ", ")
	if more := len(differ) - shown; more > 0 {
		list += fmt.Sprintf(" and %d more", more)
	}
	if prefixed {
		list += ". Their queues have another prefix than KENNEL_PREFIX; make the package with kennel package --prefix"
	}
	return []app.Part{{Knows: staleFunctions{problem: instances.Problem{
		Code: instances.FunctionsStale, Since: time.Now(), Count: int64(len(differ)),
		What: "The app was packaged with other functions than its code declares: " + list + ".",
	}}}}
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

// hasOtherPrefix reports whether a declared function differs in the folder of the
// app by the prefix of its queues.
func hasOtherPrefix(f program.Function, dir fs.FS) bool {
	staged := stagedBindings(f, dir)
	return len(staged) > 0 && slices.EqualFunc(staged, f.Bindings, func(is, declared program.Binding) bool {
		if is.QueueName == declared.QueueName {
			return is == declared
		}
		prefix, found := strings.CutSuffix(is.QueueName, "-"+declared.QueueName)
		is.QueueName = declared.QueueName
		return found && names.CheckPrefix(prefix) == "" && is == declared
	})
}
