package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"kennel/internal/dev/starter"
)

func (con *console) newCommand() *cobra.Command {
	var (
		module string
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "new <folder>",
		Short: "write a new program, with its test",
		Long: `Writes a Go program with a queue, a timer, a route and a setting into a new folder, with
its test, functions, infrastructure, Makefile and workflow. It runs as it is: see its
README.md.

The folder carries a copy of this module in third_party/kennel, because no Go module proxy
has it. So a clone of the folder builds on a machine that has no copy of Kennel, and
"go tool kennel" in it runs this command line.

If the command fails or is killed, the folder does not exist.`,
		Example:     "kennel new shop\nkennel new shop --module example.org/ann/shop",
		Annotations: exits("written", "the folder is not empty, or it cannot be written", interruptedExit),
		Args:        oneWord("folder", "shop"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return con.writeProgram(cmd.Context(), args[0], module, asJSON)
		},
	}
	cmd.Flags().StringVar(&module, "module", "", "the `PATH` of the new Go module\n(default: example.com/ and the name of the folder)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print path, name and module as JSON")
	return cmd
}

func (con *console) writeProgram(ctx context.Context, dir, module string, asJSON bool) error {
	p, err := starter.Describe(dir, module)
	if err != nil {
		return err
	}
	source, err := starter.FindSource(ctx)
	if err != nil {
		return err
	}
	if err := p.Write(ctx, source); err != nil {
		return err
	}
	if asJSON {
		return json.NewEncoder(con.stdout).Encode(struct {
			Path   string `json:"path"`
			Name   string `json:"name"`
			Module string `json:"module"`
		}{p.Dir, p.Name, p.Module})
	}
	short := p.Dir
	if here, err := os.Getwd(); err == nil {
		if relative, err := filepath.Rel(here, p.Dir); err == nil && !strings.HasPrefix(relative, "..") {
			short = relative
		}
	}
	_, err = fmt.Fprintf(con.stdout, "%s is a program, the module %s\n", printable(short), p.Module)
	con.say("Try:")
	con.say("  cd %s", printable(short))
	con.say("  make test")
	con.say("  make run")
	return err
}
