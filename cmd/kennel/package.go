package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"kennel/internal/config"
	"kennel/internal/dev/project"
	devrun "kennel/internal/dev/run"
	stored "kennel/internal/names"
	"kennel/internal/program"
)

func (con *console) packageCommand() *cobra.Command {
	var (
		out        string
		handler    string
		partitions int
		prefix     string
		local      bool
		asJSON     bool
	)
	cmd := &cobra.Command{
		Use:   "package [package]",
		Short: "build the package to deploy to Azure",
		Long: `Checks host.json and every function, builds the handler for Azure (Linux on x64),
copies all files to dist/ and packs them into a zip file that can be deployed.
The same commit produces the same bytes.

The program is the package in handler/ if the project has one, else that of its root, or
the package that is given.

With --local it builds the handler for this machine and leaves dist/ as a folder in which
"func start" runs the app, beside "kennel storage" or an Azurite that was started with
--skipApiVersionCheck. It adds local.settings.json: that of the project or else the
sample. One that was changed in dist/ is kept.`,
		Example:     "kennel package\nkennel package --local\naz functionapp deployment source config-zip -g my-group -n my-app --src dist/kennel.zip",
		Annotations: exits("written", "the project is invalid or does not build", interruptedExit),
		Args:        maybePackage,
		RunE: func(cmd *cobra.Command, args []string) error {
			if local && out != "" {
				return usagef("--local makes no package; use it without --out")
			}
			return con.makePackage(cmd.Context(), packaging{strings.Join(args, ""), out, handler, partitions, prefix, local, asJSON})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&out, "out", "", "write the package to `FILE` (default dist/kennel.zip in the project)")
	flags.StringVar(&handler, "handler", "", "pack the built handler in `FILE`, a Linux program for x64\n(default: built from the program)")
	flags.IntVar(&partitions, "partitions", config.DefaultPartitions, "stage the function ProcessWork for `N` partition queues, 1 to 32;\nset KENNEL_PARTITIONS of the app to the same number")
	flags.StringVar(&prefix, "prefix", "", "stage the names of queues with the `PREFIX` of the program;\nset KENNEL_PREFIX of the app to the same")
	flags.BoolVar(&local, "local", false, "prepare dist/ for func start on this machine; make no package")
	flags.BoolVar(&asJSON, "json", false, "print path, size, sha256 and version as JSON; with --local the path")
	completeFile(cmd, "out")
	completeFile(cmd, "handler")
	return cmd
}

// packaging is the arguments of kennel package.
type packaging struct {
	program, out, handler string
	partitions            int
	prefix                string
	local, asJSON         bool
}

// open checks the arguments and returns the project to stage.
func (o packaging) open() (*project.Project, error) {
	if o.partitions < 1 || o.partitions > config.MaxPartitions {
		return nil, usagef("--partitions %d: use 1 to %d", o.partitions, config.MaxPartitions)
	}
	if wrong := stored.CheckPrefix(o.prefix); wrong != "" {
		return nil, usagef("--prefix %.40q %s", o.prefix, wrong)
	}
	if err := checkOut(o.out); err != nil {
		return nil, err
	}
	p, err := openProject(o.program)
	if err != nil {
		return nil, err
	}
	p.Prefix = o.prefix
	return p, p.Partition(o.partitions)
}

func (con *console) makePackage(ctx context.Context, o packaging) error {
	p, err := o.open()
	if err != nil {
		return err
	}
	out, handler, local, asJSON := o.out, o.handler, o.local, o.asJSON
	target := project.Azure
	if local {
		target = devrun.Machine()
	}
	dist, err := p.Stage(ctx, target, &project.StageOptions{
		Prebuilt: handler, Env: con.env, Settings: local, Step: con.step,
		Running: func(ctx context.Context) string { return devrun.Running(ctx, p.Root, "") },
	})
	if err != nil {
		return err
	}
	if handler == "" {
		if err := con.checkFunctions(ctx, p, dist, target); err != nil {
			return err
		}
	}
	if local {
		return con.stagedLocally(p, dist, target, asJSON)
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

// checkFunctions returns an error if the functions are not those that the program
// declares.
func (con *console) checkFunctions(ctx context.Context, p *project.Project, dist string, target project.Target) error {
	var d program.Description
	found, err := true, error(nil)
	if target == devrun.Machine() {
		d, found, err = p.DescribeBuilt(ctx, filepath.Join(dist, target.Executable()))
	} else {
		d, err = p.Describe(ctx, con.env)
	}
	if err != nil || !found {
		return err
	}
	all, err := p.Differences(d)
	all = slices.DeleteFunc(all, func(one project.Difference) bool { return one.Is == "undeclared" })
	if err == nil && len(all) > 0 {
		return fmt.Errorf("%s does not match what the program declares, nor do %d others: functions/ is older than the code; run kennel functions", all[0].Path, len(all)-1)
	}
	return err
}

// stagedLocally checks the folder for `func start` and reports it.
func (con *console) stagedLocally(p *project.Project, dist string, target project.Target, asJSON bool) error {
	local, err := p.LocalSettings()
	if err != nil {
		return err
	}
	settings := maps.Clone(local.Values)
	if settings == nil {
		settings = make(map[string]string)
	}
	maps.Copy(settings, con.env) // which takes precedence
	if err := devrun.CheckStaged(dist, target, settings); err != nil {
		return err
	}
	if asJSON {
		return json.NewEncoder(con.stdout).Encode(struct {
			Path string `json:"path"`
		}{dist})
	}
	_, err = fmt.Fprintf(con.stdout, "dist is ready for %s/%s: run func start in it, beside kennel storage or azurite --skipApiVersionCheck\n", target.OS, target.Arch)
	return err
}

// checkOut checks the path of --out before anything is built.
func checkOut(path string) error {
	if path == "" {
		return nil
	}
	dir := filepath.Dir(path)
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return fmt.Errorf("folder %s of --out does not exist; create it first", dir)
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return fmt.Errorf("--out %s is a folder; add the name of the file", path)
	}
	return nil
}
