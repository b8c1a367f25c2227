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
// those in the folder of the app; none if they do. In a folder that is no app,
// as that of the source, there is nothing to compare.
func checkFunctions(d *program.Declared, dir fs.FS) []app.Part {
	staged, err := fs.Glob(dir, "*/function.json")
	if _, missing := fs.Stat(dir, "host.json"); err != nil || missing != nil || len(staged) == 0 {
		return nil
	}
	var differ []string
	declared := make(map[string]bool)
	for _, f := range d.Describe().Functions {
		declared[f.Name] = true
		if !isStaged(f, dir) {
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
		return nil
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
	}}}}
}

// isStaged reports whether a function has its bindings in the folder of the app.
// Only these matter to the host, and their form does not.
func isStaged(f program.Function, dir fs.FS) bool {
	text, err := fs.ReadFile(dir, f.Name+"/function.json")
	var file struct{ Bindings []program.Binding }
	return err == nil && json.Unmarshal(text, &file) == nil && slices.Equal(file.Bindings, f.Bindings)
}
