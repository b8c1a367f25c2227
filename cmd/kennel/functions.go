package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"kennel/internal/dev/project"
	"kennel/internal/program"
)

func (con *console) functionsCommand() *cobra.Command {
	var check, asJSON bool
	cmd := &cobra.Command{
		Use:   "functions [PACKAGE...]",
		Short: "write functions/ and infra/app.json from what the program declares",
		Long: `Builds the program for this machine, has it describe itself, which needs no network
and no settings, and writes a folder with a function.json for each function, and
infra/app.json for the infrastructure. Functions that the program no longer declares are
removed; others that it never declared stay. Declared settings that
local.settings.json.sample lacks are added to it, without values, and removed when the
program no longer declares them and they still have none.

PACKAGE is ./handler if that exists, else the root of the module. Two binaries of one
program are named together, that of the handler first, and what they declare is written
together; up and package give the host only what the handler serves. infra/app.json
remembers them for the next time.`,
		Example:     "kennel functions\nkennel functions --check\nkennel functions ./api ./worker",
		Annotations: exits("written, or with --check nothing differs", "the program does not build or has mistakes, or with --check something differs", interruptedExit),
		Args:        cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, packages []string) error {
			return con.writeFunctions(cmd.Context(), packages, check, asJSON)
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&check, "check", false, "write nothing; report what differs")
	flags.BoolVar(&asJSON, "json", false, "print the files that were written, or that differ, as JSON")
	return cmd
}

// changedFile is a file that differs from what the program declares.
type changedFile struct {
	Path string `json:"path"`
	Is   string `json:"is"` // before: missing, different or undeclared
}

// describeFiles returns a line for each file: what it is, or what was done with
// it.
func describeFiles(files []changedFile, check bool) string {
	var text strings.Builder
	for _, f := range files {
		is := f.Is
		if !check {
			is = doneWith[is]
		}
		fmt.Fprintf(&text, "%-10s %s\n", is, f.Path)
	}
	return text.String()
}

// doneWith is what was done with a file of each kind, where it was not only checked.
var doneWith = map[string]string{"missing": "added", "different": "changed", "undeclared": "removed"}

// describeProgram builds the packages of a program and has them describe
// themselves.
func (con *console) describeProgram(ctx context.Context, p *project.Project, packages []string) (program.Description, error) {
	defer con.step("building the program for its description")()
	return p.Describe(ctx, con.env, packages...)
}

func (con *console) writeFunctions(ctx context.Context, packages []string, check, asJSON bool) error {
	p, err := openProject("")
	if err != nil {
		return err
	}
	d, err := con.describeProgram(ctx, p, packages)
	if err != nil {
		return err
	}
	var all []project.Difference
	if check {
		all, err = p.Differences(d)
	} else {
		all, err = p.WriteFunctions(d)
	}
	if err != nil {
		return err
	}
	files := make([]changedFile, len(all))
	for i, one := range all {
		files[i] = changedFile{one.Path, one.Is}
	}
	if asJSON {
		err = json.NewEncoder(con.stdout).Encode(files)
	} else {
		_, err = io.WriteString(con.stdout, describeFiles(files, check))
	}
	if err == nil && check && len(files) > 0 {
		return fmt.Errorf("%d files differ from what the program declares; run kennel functions", len(files))
	}
	return err
}
