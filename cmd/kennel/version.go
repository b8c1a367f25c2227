package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"kennel/internal/version"
)

func (con *console) versionCommand() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:         "version",
		Short:       "print version, commit and platform",
		Long:        "Prints kennel's version, the commit it was built from if known, and the Go version.",
		Example:     "kennel version",
		Annotations: exits("printed", "it could not be written"),
		Args:        noWords,
		RunE:        func(*cobra.Command, []string) error { return con.printVersion(asJSON) },
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the version as JSON")
	return cmd
}

func (con *console) printVersion(asJSON bool) error {
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
}
