// Package version identifies the build of this program.
package version

import (
	"cmp"
	"reflect"
	"runtime"
	"runtime/debug"
	"strings"
)

// The linker sets both, from git. The Makefile and internal/dev/project pass
// the flags, so that the bytes of a build depend on the commit and not on the
// folder.
var version, commit string

// Info is a build. Members may be added, but not renamed or removed, because
// `kennel version --json` prints them.
type Info struct {
	Version  string `json:"version"`          // of the last tag, with the commits since; without a tag the commit
	Commit   string `json:"commit,omitempty"` // "" if unknown
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// Read returns the build of this program. If the linker was not given a
// version, the Go command's is used, and "devel" without one.
func Read() Info {
	info, _ := debug.ReadBuildInfo()
	return read(version, commit, info)
}

// Package is the import path of this package, for flags of the linker.
var Package = reflect.TypeFor[Info]().PkgPath()

// Module is the path of the module that contains this package, as in go.mod,
// also in a program of another module.
var Module = strings.TrimSuffix(Package, "/internal/version")

// UserAgent returns the name of the sender in requests to other services. It
// has at most 24 characters, the limit of the Azure SDK.
func UserAgent() string {
	const limit = 24
	agent := "kennel/" + Read().Version
	return agent[:min(len(agent), limit)]
}

func read(version, commit string, info *debug.BuildInfo) Info {
	if info != nil {
		if v := info.Main.Version; v != "(devel)" {
			version = cmp.Or(version, v)
		}
		for _, setting := range info.Settings {
			if setting.Key == "vcs.revision" {
				commit = cmp.Or(commit, setting.Value)
			}
		}
	}
	return Info{cmp.Or(version, "devel"), commit, runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
}
