package project

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"kennel/internal/program"
	"kennel/internal/storetest"
)

// describe returns the description of a program with these queues.
func describe(name string, queues ...*program.Queue) program.Description {
	return (&program.Declared{Name: name, Queues: queues}).Describe()
}

// TestPartitionsOfNewProcessor: the function of batches that a new declaration
// brings has its copies at once, and they go with it.
func TestPartitionsOfNewProcessor(t *testing.T) {
	p := &Project{Root: t.TempDir()}
	if err := p.Partition(3); err != nil {
		t.Fatal(err)
	}
	copies := func(d *program.Declared) (all []string) {
		t.Helper()
		if _, err := p.WriteFunctions(d.Describe()); err != nil {
			t.Fatal(err)
		}
		for _, name := range p.Functions {
			if strings.HasPrefix(name, "ProcessWork") && name != "ProcessWorkExpress" {
				all = append(all, name)
			}
		}
		return all
	}
	uses := map[program.Part]bool{program.Batches: true}
	if got, want := copies(&program.Declared{Name: "shop", Uses: uses}), []string{"ProcessWork", "ProcessWork1", "ProcessWork2"}; !slices.Equal(got, want) {
		t.Errorf("functions %q, want %q", got, want)
	}
	if got := copies(&program.Declared{Name: "shop"}); len(got) > 0 || len(p.copies) > 0 {
		t.Errorf("functions %q and %d copies of a program without batches", got, len(p.copies))
	}
}

// TestWriteFunctions: what is missing or different is written, what the program
// declared before and no longer does is removed, and a function that it never
// declared stays.
func TestWriteFunctions(t *testing.T) {
	p := &Project{Root: t.TempDir()}
	own := filepath.Join(p.Root, "functions", "Own", "function.json")
	if err := os.MkdirAll(filepath.Dir(own), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(own, []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	both := describe("shop", &program.Queue{Name: "emails", Handled: 1}, &program.Queue{Name: "orders", Handled: 1})
	if _, err := p.WriteFunctions(both); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(p.Functions, "Queue-emails") || !slices.Contains(p.Functions, "Own") {
		t.Errorf("functions %q", p.Functions)
	}
	paths := func(d program.Description) (all []string) {
		t.Helper()
		differ, err := p.Differences(d)
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range differ {
			all = append(all, one.Is+" "+one.Path)
		}
		return all
	}
	if got, want := paths(both), []string{"undeclared functions/Own/function.json"}; !slices.Equal(got, want) {
		t.Errorf("%q differ, want %q", got, want)
	}
	if err := os.WriteFile(filepath.Join(p.Root, "functions", "Queue-orders", "function.json"), []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	one := describe("shop", &program.Queue{Name: "orders", Handled: 1})
	want := []string{"different functions/Queue-orders/function.json", "different infra/app.json", "undeclared functions/Own/function.json", "undeclared functions/Queue-emails/function.json"}
	got := paths(one)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("%q differ, want %q", got, want)
	}
	written, err := p.WriteFunctions(one)
	if err != nil || len(written) != 3 {
		t.Errorf("written %+v, %v", written, err)
	}
	if slices.Contains(p.Functions, "Queue-emails") || !slices.Contains(p.Functions, "Own") {
		t.Errorf("functions %q", p.Functions)
	}
}

// TestTwoBinaries: what two binaries of a program declare is staged together,
// and a queue that neither works on is refused.
func TestTwoBinaries(t *testing.T) {
	api := describe("shop", &program.Queue{Name: "emails", SendOnly: true}, &program.Queue{Name: "orders", SendOnly: true})
	worker := describe("shop", &program.Queue{Name: "emails", Handled: 1})
	d, err := api.With(worker)
	if err != nil || d.Complete() != nil {
		t.Fatalf("%v, %v", err, d.Complete())
	}
	if len(d.Queues) != 2 || !d.Queues[0].Handled || d.Queues[1].Handled {
		t.Errorf("queues %+v", d.Queues)
	}
	if !slices.ContainsFunc(d.Functions, func(f program.Function) bool { return f.Name == "Queue-emails" }) {
		t.Errorf("functions %+v", d.Functions)
	}
	p := &Project{Root: t.TempDir()}
	if _, err := p.WriteFunctions(d); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(p.Root, "functions", "Queue-emails", "function.json")); err != nil {
		t.Error(err)
	}
	if slices.Contains(p.Functions, "Queue-emails") || !slices.Contains(p.Functions, "Queues") {
		t.Errorf("the host gets %q, and the handler does not work on the queue", p.Functions)
	}
	if d, err = worker.With(api); err != nil || len(d.Elsewhere) != 0 {
		t.Errorf("elsewhere %q, %v", d.Elsewhere, err)
	}
	if _, err := api.With(describe("billing")); err == nil || !strings.Contains(err.Error(), `"billing"`) {
		t.Errorf("two names: %v", err)
	}
	if err := describe("shop", &program.Queue{Name: "emails"}).Complete(); err == nil || !strings.Contains(err.Error(), `"emails"`) {
		t.Errorf("a queue without a handler: %v", err)
	}
}

// TestSampleSettings: the sample gets the declared settings that it lacks, and
// keeps everything else of the file.
func TestSampleSettings(t *testing.T) {
	d := (&program.Declared{Name: "shop", Settings: []*program.Setting{{Name: "SHOP_TOKEN", Secret: true}, {Name: "SHOP_LIMIT", Default: "7"}}}).Describe()
	sample := func(p *Project) string {
		t.Helper()
		if _, err := p.WriteFunctions(d); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(p.Root, "local.settings.json.sample"))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	p := &Project{Root: writeTree(t, map[string]string{
		"local.settings.json.sample": `{"Host": {"CORS": "*"}, "Values": {"Z": "1", "SHOP_LIMIT": "3", "A": "2"}}`,
	})}
	want := `{
  "Host": {
    "CORS": "*"
  },
  "Values": {
    "Z": "1",
    "SHOP_LIMIT": "3",
    "A": "2",
    "SHOP_TOKEN": ""
  }
}
`
	for range 2 {
		if got := sample(p); got != want {
			t.Errorf("the sample is %s, want %s", got, want)
		}
	}
	if got := sample(&Project{Root: t.TempDir()}); !strings.Contains(got, `"SHOP_LIMIT": ""`) || !strings.Contains(got, "UseDevelopmentStorage=true") {
		t.Errorf("a new sample is %s", got)
	}
	broken := &Project{Root: writeTree(t, map[string]string{"local.settings.json.sample": "[]"})}
	if _, err := broken.WriteFunctions(d); err == nil || !strings.Contains(err.Error(), "local.settings.json.sample") {
		t.Errorf("a broken sample: %v", err)
	}
}

// TestUndeclaredSettings: a setting that was added to the sample is removed when
// the program no longer declares it. One that a person added, or gave a value,
// stays.
func TestUndeclaredSettings(t *testing.T) {
	p := &Project{Root: writeTree(t, map[string]string{"local.settings.json.sample": `{"Values": {"A": ""}}`})}
	of := func(names ...string) program.Description {
		d := &program.Declared{Name: "shop"}
		for _, name := range names {
			d.Settings = append(d.Settings, &program.Setting{Name: name})
		}
		return d.Describe()
	}
	file := filepath.Join(p.Root, "local.settings.json.sample")
	steps := []struct {
		declared        []string
		edit, old, want string
	}{
		{[]string{"SHOP_A", "SHOP_B", "SHOP_C"}, "", "", `{"A":"","SHOP_A":"","SHOP_B":"","SHOP_C":""}`},
		{[]string{"SHOP_A"}, `"SHOP_B": "7"`, `"SHOP_B": ""`, `{"A":"","SHOP_A":"","SHOP_B":"7"}`},
		{nil, "", "", `{"A":"","SHOP_B":"7"}`},
		{nil, "", "", `{"A":"","SHOP_B":"7"}`},
	}
	for i, step := range steps {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(strings.Replace(string(text), step.old, step.edit, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		before, err := p.Differences(of(step.declared...))
		if err != nil {
			t.Fatal(err)
		}
		if changes := slices.ContainsFunc(before, func(d Difference) bool { return d.Path == "local.settings.json.sample" }); changes != (i < 3) {
			t.Errorf("step %d: a check finds %+v", i, before)
		}
		if _, err := p.WriteFunctions(of(step.declared...)); err != nil {
			t.Fatal(err)
		}
		var got struct{ Values json.RawMessage }
		if text, err = os.ReadFile(file); err != nil {
			t.Fatal(err)
		}
		var values bytes.Buffer
		if err := errors.Join(json.Unmarshal(text, &got), json.Compact(&values, got.Values)); err != nil || values.String() != step.want {
			t.Errorf("step %d: the sample has %s, %v, want %s", i, values.String(), err, step.want)
		}
		if after, err := p.Differences(of(step.declared...)); err != nil || len(after) > 0 {
			t.Errorf("step %d: afterwards %+v differ, %v", i, after, err)
		}
	}
}

// TestMistakes: the error of a program with mistakes has them alone.
func TestMistakes(t *testing.T) {
	t.Setenv("GOFLAGS", storetest.QuotedBuildFlags()) // so that the standard library is not compiled again
	p := &Project{Root: writeTree(t, map[string]string{
		"go.mod": "module shop\n\ngo 1.22\n", "main.go": "package main\n\nimport \"os\"\n\nfunc main() {\n\tos.Stderr.WriteString(\"shop: the program cannot run:\\ntimer \\\"X\\\": no\\n\")\n\tos.Exit(1)\n}\n",
	})}
	const want = "shop: the program cannot run:\ntimer \"X\": no"
	if _, err := p.Describe(t.Context(), nil); err == nil || err.Error() != "describe .: "+want {
		t.Errorf("described by go run: %v", err)
	}
	if _, _, err := p.DescribeBuilt(t.Context(), buildProgram(t, p.Root)); err == nil || err.Error() != want {
		t.Errorf("described by a built program: %v", err)
	}
}

// buildProgram builds the package in a folder.
func buildProgram(t *testing.T, dir string) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "program")
	cmd := exec.Command("go", "build", "-o", file, ".")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return file
}

// TestNamedPackages: the packages that were named are those of the next time, and
// the first one is the handler.
func TestNamedPackages(t *testing.T) {
	t.Setenv("GOFLAGS", storetest.QuotedBuildFlags())
	main := func(queue, handled string) string {
		return "package main\n\nfunc main() { print() }\n\nfunc print() { println2(`{\"version\":1,\"program\":\"shop\",\"queues\":[{\"name\":\"" + queue + "\",\"handled\":" + handled + "}]}`) }\n"
	}
	const println2 = "package main\n\nimport \"os\"\n\nfunc println2(text string) { os.Stdout.WriteString(text) }\n"
	p := &Project{Root: writeTree(t, map[string]string{
		"go.mod": "module shop\n\ngo 1.22\n", "api/main.go": main("emails", "false"), "api/print.go": println2,
		"worker/main.go": main("emails", "true"), "worker/print.go": println2,
	})}
	if got := programOf(p.Root); got != "." {
		t.Errorf("the program is %s", got)
	}
	if _, err := p.Describe(t.Context(), nil, "api"); err == nil || !strings.Contains(err.Error(), "./folder") {
		t.Errorf("a name that is no folder: %v", err)
	}
	if _, err := p.Describe(t.Context(), nil, "./api"); err == nil || !strings.Contains(err.Error(), `"emails"`) {
		t.Errorf("a queue without a handler: %v", err)
	}
	d, err := p.Describe(t.Context(), nil, "./api", "./worker")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.WriteFunctions(d); err != nil {
		t.Fatal(err)
	}
	again, found, err := p.DescribeBuilt(t.Context(), "")
	if err != nil || !found || string(again.Text()) != string(d.Text()) || programOf(p.Root) != "./api" {
		t.Errorf("the next time: %s, %t, %v, program %s", again.Text(), found, err, programOf(p.Root))
	}
}
