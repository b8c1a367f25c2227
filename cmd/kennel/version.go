package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"

	"kennel/internal/version"
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
			v := version.Read()
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
