package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"kennel/internal/dev/project"
)

func packageCommand() *command {
	var (
		out     string
		handler string
		asJSON  bool
	)
	flags := flag.NewFlagSet("package", flag.ContinueOnError)
	flags.StringVar(&out, "out", "", "write the package to `FILE` (default dist/kennel.zip in the project)")
	flags.StringVar(&handler, "handler", "", "pack the built handler in `FILE`, a Linux program for x64\n(default: built from ./handler)")
	flags.BoolVar(&asJSON, "json", false, "print path, size, sha256 and version as JSON")
	return &command{
		name:     "package",
		synopsis: "[--out FILE] [--handler FILE] [--json]",
		summary:  "build the package to deploy to Azure",
		about: `Checks host.json and every function, builds the handler for Azure (Linux on x64),
copies all files to dist/ and packs them into a zip file that can be deployed.
The same commit produces the same bytes.`,
		example: "kennel package\naz functionapp deployment source config-zip -g my-group -n my-app --src dist/kennel.zip",
		exits:   "0 written, 1 the project is invalid or does not build, 2 usage",
		flags:   flags,
		run: func(ctx context.Context, con *console, _ []string) error {
			return makePackage(ctx, con, out, handler, asJSON)
		},
	}
}

func makePackage(ctx context.Context, con *console, out, handler string, asJSON bool) error {
	p, err := openProject()
	if err != nil {
		return err
	}
	dist, err := p.Stage(ctx, project.Azure, &project.StageOptions{Prebuilt: handler, Env: con.env, Step: con.step})
	if err != nil {
		return err
	}
	if out == "" {
		out = filepath.Join(dist, "kennel.zip")
	}
	made, err := p.Pack(dist, out)
	if err != nil {
		return err
	}
	// Scripts need the absolute path; the text output shows the short one.
	if made.Path, err = filepath.Abs(made.Path); err != nil {
		return err
	}
	if asJSON {
		return json.NewEncoder(con.stdout).Encode(made)
	}
	if here, err := os.Getwd(); err == nil {
		if short, err := filepath.Rel(here, made.Path); err == nil {
			made.Path = short
		}
	}
	version := ""
	if made.Version != "" {
		version = "  version " + made.Version
	}
	_, err = fmt.Fprintf(con.stdout, "%s  %.1f MB  sha256 %s%s\n", made.Path, float64(made.Size)/1e6, made.SHA256, version)
	for _, file := range made.Files {
		con.say("  %s", file)
	}
	return err
}
