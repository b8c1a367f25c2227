package project

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"kennel/internal/program"
)

// namedPackages returns the packages that were named when the functions were
// written; none for the usual one.
func namedPackages(root string) []string {
	last, _ := lastDescription(root)
	for _, name := range last.Packages {
		if checkPackage(name) != nil {
			return nil
		}
	}
	return last.Packages
}

// checkPackage accepts a folder of the module.
func checkPackage(name string) error {
	if name != "." && !strings.HasPrefix(name, "./") {
		return fmt.Errorf("%q is no folder of the module: write it as ./folder", name)
	}
	return nil
}

// lastDescription returns what infra/app.json has.
func lastDescription(root string) (d program.Description, err error) {
	return readDescription(filepath.Join(root, filepath.FromSlash(appFile)))
}

func readDescription(path string) (d program.Description, err error) {
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &d)
	}
	return d, err
}

// LastDescription returns the description that was written the last time, or that
// in a file; nil if it was none.
func (p *Project) LastDescription(file string) (*program.Description, error) {
	path := file
	if file == "" {
		path = filepath.Join(p.Root, filepath.FromSlash(appFile))
	}
	d, err := readDescription(path)
	switch {
	case file == "" && errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read what was deployed from %s: %w", path, err)
	case d.Version != program.DescriptionVersion:
		return nil, fmt.Errorf("%s is no description of version %d, as kennel functions writes it", path, program.DescriptionVersion)
	}
	return &d, nil
}

// errNotDescribed reports a program that is none of package kennel.
var errNotDescribed = errors.New("the program does not describe itself")

// Describe builds programs for this machine and returns what they consist of
// together: by default those that were named the last time. A program that is
// none of package kennel has no description.
func (p *Project) Describe(ctx context.Context, env map[string]string, packages ...string) (d program.Description, err error) {
	if len(packages) == 0 {
		packages = namedPackages(p.Root)
	}
	named := packages
	if len(named) == 0 {
		pkg, err := ProgramPackage(p.Root, p.Package)
		if err != nil {
			return d, err
		}
		packages = []string{pkg}
	}
	for i, pkg := range packages {
		if err := checkPackage(pkg); err != nil {
			return d, err
		}
		one, err := p.describeBy(p.command(ctx, env, "go", "run", pkg, "describe"))
		if err != nil {
			return d, fmt.Errorf("describe %s: %w", pkg, err)
		}
		if i == 0 {
			d = one
			continue
		}
		if d, err = d.With(one); err != nil {
			return d, fmt.Errorf("describe %s: %w", pkg, err)
		}
	}
	d.Packages = named
	return d, d.Complete()
}

// DescribeBuilt returns what the program in a built file consists of, with its
// other packages. found is false for one that does not describe itself.
func (p *Project) DescribeBuilt(ctx context.Context, file string) (d program.Description, found bool, err error) {
	if len(namedPackages(p.Root)) > 0 {
		d, err = p.Describe(ctx, nil)
		return d, err == nil, err
	}
	d, err = p.describeBy(p.command(ctx, nil, file, "describe"))
	if errors.Is(err, errNotDescribed) {
		return d, false, nil
	}
	if err == nil {
		err = d.Complete()
	}
	return d, err == nil, err
}

// describeTime is how long a description takes at most, with a build.
const describeTime = 5 * time.Minute

func (p *Project) describeBy(cmd *exec.Cmd) (d program.Description, err error) {
	var out, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	timer := time.AfterFunc(describeTime, func() { _ = cmd.Cancel() })
	defer timer.Stop()
	if err := cmd.Run(); err != nil {
		text := strings.TrimSpace(stderr.String())
		if strings.Contains(text, "the program cannot run:") {
			// `go run` adds the exit code.
			return d, errors.New(strings.TrimSuffix(text, "\nexit status 1"))
		}
		if cmd.Args[0] == "go" {
			return d, fmt.Errorf("%w\n%s", err, text)
		}
		return d, errNotDescribed
	}
	if err := json.Unmarshal(out.Bytes(), &d); err != nil || d.Version == 0 {
		return d, errNotDescribed
	}
	if d.Version != program.DescriptionVersion {
		return d, fmt.Errorf("the description has version %d, this program knows %d: build both from one version of the module", d.Version, program.DescriptionVersion)
	}
	return d, nil
}

// appFile has the description, for infra/ and for the process in Azure.
const appFile = "infra/app.json"

// A Difference is a file that does not match what the program declares.
type Difference struct {
	Path string // from the root, with slashes
	Is   string // missing, different or undeclared
	text []byte // that it should have; nil: none
}

// Differences compares the functions, infra/app.json and the sample settings with
// a description.
func (p *Project) Differences(d program.Description) (all []Difference, err error) {
	want := map[string][]byte{appFile: d.Text()}
	for _, f := range d.Functions {
		want["functions/"+f.Name+"/function.json"] = []byte(f.Text())
	}
	if want[sampleFile], err = p.sample(d.Settings); err != nil {
		return nil, err
	}
	if want[sampleFile] == nil {
		delete(want, sampleFile)
	}
	for _, path := range sortedPaths(want) {
		text, err := os.ReadFile(filepath.Join(p.Root, filepath.FromSlash(path)))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			all = append(all, Difference{path, "missing", want[path]})
		case err != nil:
			return nil, err
		case !bytes.Equal(text, want[path]):
			all = append(all, Difference{path, "different", want[path]})
		}
	}
	found, err := filepath.Glob(filepath.Join(p.Root, "functions", "*", "function.json"))
	if err != nil {
		return nil, err
	}
	for _, file := range found {
		path := "functions/" + filepath.Base(filepath.Dir(file)) + "/function.json"
		if want[path] == nil {
			all = append(all, Difference{path, "undeclared", nil})
		}
	}
	return all, nil
}

func sortedPaths(m map[string][]byte) []string {
	var all []string
	for path := range m {
		all = append(all, path)
	}
	slices.Sort(all)
	return all
}

// WriteFunctions writes what differs, and reads the functions again. A function
// or a setting of the sample without a value that the last description had, and
// this one has not, is removed; another undeclared one stays.
func (p *Project) WriteFunctions(d program.Description) (written []Difference, err error) {
	before := make(map[string]bool)
	if last, err := lastDescription(p.Root); err == nil {
		for _, f := range last.Functions {
			before["functions/"+f.Name+"/function.json"] = true
		}
	}
	all, err := p.Differences(d)
	if err != nil {
		return nil, err
	}
	// The last description comes last: if this process is killed before, the next
	// one still knows what to remove.
	slices.SortStableFunc(all, func(a, b Difference) int {
		switch {
		case a.Path == appFile:
			return 1
		case b.Path == appFile:
			return -1
		}
		return 0
	})
	for _, one := range all {
		path := filepath.Join(p.Root, filepath.FromSlash(one.Path))
		switch {
		case one.text != nil:
			if err = os.MkdirAll(filepath.Dir(path), 0o755); err == nil {
				err = replaceFile(path, 0o644, writerOf(one.text))
			}
		case before[one.Path]:
			err = os.RemoveAll(filepath.Dir(path))
		default:
			continue
		}
		if err != nil {
			return written, err
		}
		written = append(written, one)
	}
	p.Functions = nil
	found, err := filepath.Glob(filepath.Join(p.Root, "functions", "*", "function.json"))
	for _, file := range found {
		p.Functions = append(p.Functions, filepath.Base(filepath.Dir(file)))
	}
	slices.Sort(p.Functions)
	p.Functions = served(p.Functions, d)
	return written, errors.Join(err, p.Partition(p.partitions))
}

// served returns the functions without those that the handler does not serve: a
// host would call it in vain, and make dead letters of the messages that another
// binary works on.
func served(functions []string, d program.Description) []string {
	return slices.DeleteFunc(functions, func(name string) bool { return slices.Contains(d.Elsewhere, name) })
}
