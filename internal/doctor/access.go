package doctor

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"kennel/internal/edge"
)

// CheckAccess compares who may call the functions in the folder of the app,
// which the Functions host has, with what this process relies on. levels has the
// authLevel of the functions of routes that the program declares.
func CheckAccess(app fs.FS, levels map[string]string) (string, error) {
	files, err := fs.Glob(app, "*/function.json")
	if err != nil {
		return "", err // cannot occur: the pattern is valid
	}
	count := 0
	var wrong []error
	for _, file := range files {
		text, err := fs.ReadFile(app, file)
		if err != nil {
			return "", err
		}
		var function struct {
			Bindings []struct{ Type, AuthLevel string }
		}
		if err := json.Unmarshal(text, &function); err != nil {
			return "", settingError{text: file + " is not valid JSON"}
		}
		name := path.Dir(file)
		want := cmp.Or(levels[name], "function")
		if slices.Contains(edge.Anonymous, name) {
			want = "anonymous"
		}
		for _, binding := range function.Bindings {
			if binding.Type != "httpTrigger" {
				continue
			}
			count++
			if binding.AuthLevel != want {
				wrong = append(wrong, fmt.Errorf("the authLevel of function %s is %q instead of %q", name, binding.AuthLevel, want))
			}
			if enveloped := name == edge.ConsoleFunction || want != "function" && levels[name] != ""; enveloped && len(function.Bindings) != 3 {
				wrong = append(wrong, fmt.Errorf("function %s lacks its second output, without which callers can avoid the check of keys", name))
			}
		}
	}
	if err := errors.Join(wrong...); err != nil {
		return "", settingError{text: err.Error()}
	}
	return fmt.Sprintf("%d HTTP functions", count), nil
}
