package policy

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"kennel/internal/dev/project"
	"kennel/internal/program"
)

// TestDeclaredFunctions: functions/ and infra/app.json are what the Kennel app
// declares, byte for byte.
func TestDeclaredFunctions(t *testing.T) {
	d := &program.Declared{Name: "kennel"}
	d.UseAll()
	if err := d.Check(); err != nil {
		t.Fatal(err)
	}
	root, err := os.Getwd() // TestMain changes to the root
	if err != nil {
		t.Fatal(err)
	}
	differ, err := (&project.Project{Root: root}).Differences(d.Describe())
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range differ {
		t.Errorf("%s is %s: run `go run ./cmd/kennel functions`", one.Path, one.Is)
	}
	found, err := filepath.Glob("functions/*/function.json")
	if err != nil || len(found) < 20 {
		t.Errorf("%d functions, %v", len(found), err)
	}
}

// TestSmallProgramStagesLittle: a program without channels, relay, batches and
// bill stages at most 12 functions besides its own, and needs no role for what it
// does not use.
func TestSmallProgramStagesLittle(t *testing.T) {
	d := &program.Declared{Name: "shop", Queues: []*program.Queue{{Name: "emails", Handled: 1}}, Timers: []*program.Timer{{Name: "digest", Schedule: "0 6 * * *"}}}
	d.Use(program.Numbers)
	d.Use(program.Gates)
	described := d.Describe()
	own := []string{"Queue-emails", "Timer-digest"}
	var builtIn []string
	for _, f := range described.Functions {
		if !slices.Contains(own, f.Name) {
			builtIn = append(builtIn, f.Name)
		}
	}
	if len(builtIn) > 12 || len(described.Functions) != len(builtIn)+len(own) {
		t.Errorf("it stages %q", builtIn)
	}
	if len(described.Roles) != 3 || slices.Contains(described.Storage.Containers, "batch-claims") || slices.Contains(described.Storage.Tables, "Channels") {
		t.Errorf("it needs %q, %+v", described.Roles, described.Storage)
	}
}
