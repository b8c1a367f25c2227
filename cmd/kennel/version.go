package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"runtime"
	"runtime/debug"
)

func versionCommand() *command {
	var asJSON bool
	flags := flag.NewFlagSet("version", flag.ContinueOnError)
	flags.BoolVar(&asJSON, "json", false, "write the version as JSON")
	return &command{
		name:     "version",
		synopsis: "[--json]",
		summary:  "print version, commit and platform",
		about:    "Prints kennel's version, the commit it was built from if known, and the Go version.",
		example:  "kennel version",
		exits:    "0 printed",
		flags:    flags,
		run: func(_ context.Context, con *console, _ []string) error {
			info, _ := debug.ReadBuildInfo()
			v := versionOf(info)
			if asJSON {
				return json.NewEncoder(con.stdout).Encode(v)
			}
			commit := ""
			if v.Commit != "" {
				commit = " commit " + v.Commit
			}
			_, err := fmt.Fprintf(con.stdout, "kennel %s%s %s %s\n", v.Version, commit, v.Go, v.Platform)
			return err
		},
	}
}

// version is the output of "kennel version --json". Members may be added, but
// not renamed or removed.
type version struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

// versionOf returns the build information that the Go tool wrote into the
// binary. info is nil if the binary was built without modules.
func versionOf(info *debug.BuildInfo) version {
	v := version{Version: "(devel)", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	if info == nil {
		return v
	}
	if info.Main.Version != "" {
		v.Version = info.Main.Version
	}
	for _, setting := range info.Settings {
		switch {
		case setting.Key == "vcs.revision":
			v.Commit = setting.Value + v.Commit
		case setting.Key == "vcs.modified" && setting.Value == "true":
			v.Commit += "+changes"
		}
	}
	return v
}
