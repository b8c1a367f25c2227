package policy

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"kennel/internal/version"
)

// layers is the import policy: what each package may import besides the
// standard library. Packages of this module are named by their folders. The
// test fails for a package without a row and for a row without a package.
//
// Foundations and the client import nothing of this module. Jobs import
// foundations, and never each other. Adapters import the jobs and foundations
// they serve, and never each other. Only executables import packages of their
// own layer. One public package is an exception: azurestore passes the adapters
// on to programs that use ids, gate, queue and relay without the app.
var layers = map[string][]string{
	".":        {"internal/attempt", "internal/inside", "internal/parts", "internal/program"}, // the public face: thin
	"internal": {},                                                                            // the tour
	"docs":     {},

	"client":          {},
	"internal/cost":   {}, // it computes only
	"internal/signal": {}, // the contract of what wakes processes
	"internal/cas":    {}, // the contract and the words of all stores
	"internal/table":  {"internal/cas"},
	"queue":           {"internal/cas", "internal/signal", "internal/table", "internal/names", "internal/trace", "golang.org/x/sync", "github.com/klauspost/compress/zstd"}, // for claim checks

	"internal/control":   {"internal/signal", "internal/table"}, // what people change about how a program runs
	"internal/instances": {"internal/table"},                    // a foundation for status, scaling and the bill, and a user of the other one

	"internal/trace": {"go.opentelemetry.io/otel"}, // its API, which records nothing by itself

	"channels":             {"internal/table", "internal/trace", "golang.org/x/sync"},
	"gate":                 {"internal/cas", "internal/signal", "golang.org/x/sync"},
	"internal/scale":       {},                                                                  // arithmetic
	"internal/scale/check": {"internal/instances", "queue", "internal/scale", "internal/table"}, // scale is its arithmetic
	"ids":                  {"internal/cas", "golang.org/x/sync"},
	"relay":                {azureSDK + "/sdk/messaging/azservicebus", "github.com/Azure/go-amqp"}, // their data types only: it never connects

	"internal/cost/bill": {"internal/cost", "internal/table"},

	"deadletters": {"queue", "internal/table", "golang.org/x/sync"},

	"work":                  {"work/internal", "queue", "internal/table", "internal/trace", "internal/names", "golang.org/x/sync", "github.com/klauspost/compress/zstd"},
	"work/internal/base":    {"work/internal/format", "work/internal/model", "work/internal/store", "internal/table", "internal/trace", "queue"},
	"work/internal/collect": {"work/internal/base", "work/internal/format", "work/internal/model", "work/internal/store", "internal/table", "internal/trace"},
	"work/internal/process": {"work/internal/base", "work/internal/collect", "work/internal/format", "work/internal/items", "work/internal/model", "work/internal/store", "internal/table", "internal/trace", "queue"},
	"work/internal/submit":  {"work/internal/base", "work/internal/collect", "work/internal/format", "work/internal/items", "work/internal/model", "work/internal/store", "internal/table", "internal/trace", "golang.org/x/sync"},
	"work/internal/sweep":   {"work/internal/base", "work/internal/collect", "work/internal/format", "work/internal/model", "work/internal/store", "work/internal/submit", "internal/names", "internal/table", "internal/trace", "queue"},
	"work/internal/format":  {"work/internal/items", "work/internal/model", "internal/names", "internal/table", "github.com/klauspost/compress/zstd"},
	"work/internal/store":   {"work/internal/format", "work/internal/model", "internal/table", "queue", "golang.org/x/sync"},
	"work/internal/items":   {"work/internal/model"},
	"work/internal/model":   {"queue"},
	"work/internal/report":  {"work/internal/model"},
	"work/processors":       {"work", "work/internal/items", "work/internal/report", "internal/retryafter"},

	"azurestore": {"gate", "ids", "queue", "relay", "internal/azure", "internal/names", "internal/table", azureSDK + "/sdk/azcore"}, // a credential is its parameter

	"devstore":                      {"devstore/internal", "internal/faultapi", "internal/loopback"}, // public; it names nothing else of this module
	"devstore/internal/auth":        {"devstore/internal/rest"},
	"devstore/internal/azuritetest": {}, // tests only
	"devstore/internal/blob":        {"devstore/internal/properties", "devstore/internal/rest", "devstore/internal/sorted", "internal/loopback"},
	"devstore/internal/journal":     {},
	"devstore/internal/properties":  {"devstore/internal/rest"},
	"devstore/internal/queue":       {"devstore/internal/properties", "devstore/internal/rest"},
	"devstore/internal/rest":        {},
	"devstore/internal/sorted":      {},
	"devstore/internal/table":       {"devstore/internal/properties", "devstore/internal/rest"},

	"internal/azure":              {"channels", "gate", "ids", "queue", "internal/cas", "internal/table", "internal/trace", "internal/azure/identity", "internal/azure/requests", "internal/names", "internal/version", "golang.org/x/sync", azureSDK},
	"internal/azure/containerapp": {"internal/scale/check", "internal/azure/identity", "internal/version", azureSDK},
	"internal/azure/identity":     {azureSDK},
	"internal/azure/requests":     {"internal/instances"},
	"internal/azure/servicebus":   {"gate", "queue", "relay", "internal/azure/identity", "internal/azure/requests", "internal/control", "internal/signal", "internal/version", azureSDK, "github.com/Azure/go-amqp"}, // the SDK returns its errors
	"internal/api":                {"channels", "deadletters", "docs", "gate", "ids", "internal/attempt", "internal/azure", "internal/control", "internal/customhandler", "internal/doctor", "internal/edge", "internal/instances", "internal/metrics", "internal/names", "internal/observe", "internal/program", "internal/queues", "internal/scale", "internal/scale/check", "internal/table", "internal/timers", "queue", "relay", "work"},
	"internal/app":                {"internal/config", "internal/customhandler", "internal/edge", "internal/instances", "internal/loopback", "internal/metrics", "internal/observe", "internal/version"}, // no job
	"internal/apptest":            {"channels", "docs", "internal/azure", "internal/customhandler", "internal/dev/devbus", "internal/faultproxy", "internal/names", "internal/storetest", "internal/table", "testing", "github.com/santhosh-tekuri/jsonschema", "go.yaml.in/yaml"},
	"internal/clients":            {"internal/azure/containerapp", "internal/azure/requests", "internal/azure/servicebus", "internal/config", "internal/names", "relay"},
	"internal/doctor":             {"gate", "internal/azure", "internal/clients", "internal/config", "internal/edge", "internal/loopback", "internal/names", "internal/program", "internal/scale/check", "internal/table", "internal/version", "relay"},
	"internal/edge":               {"internal/config", "internal/console", "internal/customhandler", "internal/loopback", "internal/principal", "internal/suggest", "internal/table", "internal/trace"}, // no resource
	"internal/observe":            {"gate", "ids", "internal/azure/requests", "internal/control", "internal/cost", "internal/customhandler", "internal/instances", "internal/metrics", "internal/table", "internal/version", "queue"},
	"internal/parts":              {"channels", "deadletters", "gate", "ids", "internal", "queue", "relay", "work"}, // it assembles the app
	"internal/inside":             {"internal/parts", "internal/program"},
	"internal/attempt":            {"queue"},                                                   // the words for the ends of a context
	"internal/program":            {"internal/attempt", "internal/names", "internal/schedule"}, // declarations only
	"internal/schedule":           {},                                                          // it computes only
	"internal/timers":             {"internal/attempt", "internal/control", "internal/instances", "internal/program", "internal/schedule", "internal/table", "internal/trace"},
	"internal/queues":             {"internal/attempt", "internal/control", "internal/customhandler", "internal/instances", "internal/observe", "internal/program", "internal/trace", "internal/worker", "queue"},
	"kenneltest":                  {".", "devstore", "internal/attempt", "internal/azure", "internal/customhandler", "internal/inside", "internal/parts", "internal/program", "internal/schedule", "internal/worker", "queue", "testing"},
	"otlp":                        {".", "internal/app", "internal/config", "internal/inside", "internal/telemetry", "internal/version"},
	"internal/worker":             {"internal/config", "internal/customhandler", "internal/instances", "internal/observe", "internal/table", "internal/trace", "queue", "golang.org/x/sync"},
	"internal/policy":             {}, // tests
	"internal/dev/azurite":        {},
	"internal/chance":             {},
	"internal/config":             {"gate", "internal/names", "internal/suggest"}, // the names of gates
	"internal/console":            {},
	"internal/customhandler":      {"internal/loopback"},
	"internal/dev/bicep":          {}, // for tests of infra/
	"internal/dev/browser":        {},
	"internal/dev/docs":           {"internal/azure", "internal/dev", "internal/version", "queue", "golang.org/x/sync"}, // it starts an app and gives it data
	"internal/dev/devbus":         {"internal/dev/devbus/amqp", "internal/faultapi", "internal/loopback"},
	"internal/dev/devbus/amqp":    {},
	"internal/dev/gotest":         {},
	"internal/dev/localhost":      {"queue", "internal/customhandler", "internal/loopback", "internal/names"}, // the host's side of the protocol
	"internal/dev/sbom":           {"internal/version"},
	"internal/dev/sdktests":       {}, // tests
	"internal/dev/typecheck":      {"golang.org/x/tools"},
	"internal/loopback":           {},
	"internal/memory":             {"gate", "ids", "queue", "internal/cas", "internal/chance", "internal/signal", "internal/table"},
	"internal/metrics":            {"internal/cost/bill", "internal/instances", "queue"}, // queue: the bounds of ages
	"internal/faultapi":           {},                                                    // of servers on a developer's machine
	"internal/faultproxy":         {"internal/azure/requests"},
	"internal/dev/project":        {"internal/names", "internal/program", "internal/version", "golang.org/x/mod"},
	"internal/dev/module":         {"golang.org/x/mod"},
	"internal/dev/starter":        {"internal/dev/project", "internal/version", "golang.org/x/mod"},
	"internal/dev/run":            {"devstore", "internal/azure", "internal/config", "internal/dev", "golang.org/x/sync"}, // it starts everything
	"internal/names":              {},                                                                                     // infra/ and functions/ repeat them
	"internal/principal":          {},
	"internal/suggest":            {},
	"internal/otlptest":           {"go.opentelemetry.io/proto/otlp", "google.golang.org/protobuf", "testing"}, // a collector for tests
	"internal/telemetry":          {"internal/trace", "go.opentelemetry.io/otel"},
	"internal/retryafter":         {},
	"internal/telemetry/otlp":     {"internal/retryafter", "go.opentelemetry.io/otel"},
	"internal/version":            {},
	"internal/storetest":          {"channels", "devstore", "ids", "queue", "internal/cas", "internal/chance", "internal/table", "internal/dev/azurite", "internal/version", "testing", "github.com/google/go-cmp"},

	"examples/numbers":            {"azurestore", "client", "gate", "ids"}, // only what other modules can import
	"examples/queuealone":         {"azurestore", "queue"},
	"examples/relayalone":         {"azurestore", "relay"},
	"examples/starter":            {"."},
	"examples/digest":             {"."},
	"examples/emails":             {"."},
	"examples/orders":             {"."},
	"examples/orders/api":         {".", "examples/orders"},
	"examples/orders/worker":      {".", "examples/orders"},
	"examples/thumbnails":         {"."},
	"cmd/kennel":                  {"client", "devstore", "internal/cost", "gate", "internal/scale", "internal", "github.com/spf13", "golang.org/x/sys"}, // scale: to check rules; sys: the width of a terminal
	"handler":                     {".", "otlp"},                                                                                                         // a program like others
	"handler/testdata/bare":       {},
	"testdata/shop":               {"."},                 // a program of the tests
	"internal/app/testdata/small": {"internal", "queue"}, // a program of the tests
}

const azureSDK = "github.com/Azure/azure-sdk-for-go"

func TestLayers(t *testing.T) {
	comments := make(map[string]int)
	for dir, files := range sources(t) {
		allowed, ok := layers[dir]
		if !ok {
			t.Errorf("package %s has no row in layers: add one, or move the code to an existing package", dir)
			continue
		}
		comments[dir] += 0
		for _, f := range files {
			if f.syntax.Doc != nil && !f.test {
				comments[dir]++
			}
			if f.test {
				continue // tests may import anything
			}
			for _, path := range f.imports {
				if !mayImport(path, allowed) {
					t.Errorf("%s imports %s, which layers does not allow for package %s", f.path, path, dir)
				}
			}
			for _, d := range f.syntax.Decls {
				if fn, ok := d.(*ast.FuncDecl); ok && fn.Name.Name == "init" && fn.Recv == nil {
					t.Errorf("%s has an init function: call the code explicitly", f.path)
				}
			}
			if f.syntax.Name.Name != "main" && dir != "." && dir != "internal/storetest" { // Main is that of executables; storetest reads KENNEL_PROVE
				for _, name := range []string{"Getenv", "LookupEnv", "Environ"} {
					if uses(f.syntax, "os", name) {
						t.Errorf("%s calls os.%s: only executables read the environment, and pass it on", f.path, name)
					}
				}
			}
		}
	}
	for dir := range layers {
		if n, ok := comments[dir]; !ok {
			t.Errorf("layers has a row for %s, which is not a package", dir)
		} else if n != 1 {
			t.Errorf("package %s has %d package comments, want 1", dir, n)
		}
	}
}

func mayImport(path string, allowed []string) bool {
	folder, own := strings.CutPrefix(path, version.Module+"/")
	if path == version.Module {
		folder = "."
	}
	if first, _, _ := strings.Cut(path, "/"); !own && path != version.Module && !strings.Contains(first, ".") && path != "testing" {
		return true // the standard library
	}
	return slices.ContainsFunc(allowed, func(prefix string) bool {
		return folder == prefix || strings.HasPrefix(folder, prefix+"/")
	})
}

func uses(file *ast.File, pkg, name string) bool {
	found := false
	ast.Inspect(file, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok && s.Sel.Name == name {
			if id, ok := s.X.(*ast.Ident); ok && id.Name == pkg {
				found = true
			}
		}
		return !found
	})
	return found
}

type sourceFile struct {
	path    string
	test    bool
	imports []string
	set     *token.FileSet // of syntax
	syntax  *ast.File
}

// sources returns every Go file of the module by package.
func sources(t *testing.T) map[string][]sourceFile {
	t.Helper()
	packages, err := parsed()
	if err != nil {
		t.Fatal(err)
	}
	if len(packages) < len(layers)/2 {
		t.Fatalf("found only %d packages: wrong working directory", len(packages))
	}
	return packages
}

// parsed does not use `go list`, because the test cache does not track the
// files that another process reads.
var parsed = sync.OnceValues(func() (map[string][]sourceFile, error) {
	packages := make(map[string][]sourceFile)
	all, err := texts()
	for path, text := range all {
		if filepath.Ext(path) != ".go" {
			continue
		}
		set := token.NewFileSet()
		syntax, err := parser.ParseFile(set, path, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		f := sourceFile{path: path, test: strings.HasSuffix(path, "_test.go"), set: set, syntax: syntax}
		for _, spec := range syntax.Imports {
			name, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				return nil, err
			}
			f.imports = append(f.imports, name)
		}
		dir := filepath.ToSlash(filepath.Dir(path))
		packages[dir] = append(packages[dir], f)
	}
	return packages, err
})

// texts reads the files of the repository that people write and read.
var texts = sync.OnceValues(func() (map[string]string, error) {
	found := make(map[string]string)
	if err := inRoot(); err != nil {
		return nil, err
	}
	return found, filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (path == "." || path == ".ci" || path == ".github"):
			return nil
		case entry.IsDir() && (strings.HasPrefix(entry.Name(), ".") || slices.Contains([]string{"bin", "dist", "node_modules"}, entry.Name())):
			return filepath.SkipDir
		case entry.IsDir() || !slices.Contains(textFiles, cmp.Or(filepath.Ext(path), entry.Name())) || entry.Name() == "package-lock.json":
			return nil
		}
		text, err := os.ReadFile(path)
		found[path] = string(text)
		return err
	})
})

// textFiles are the extensions, or else the names, of what texts reads.
var textFiles = []string{".go", ".md", ".txtar", ".txt", ".diff", ".json", ".yaml", ".yml", ".js", ".cjs", ".html", ".css", ".bicep", ".bicepparam", ".sample", ".sh", "Makefile", "Dockerfile", ".dockerignore", "run"}
