package parts

import (
	"strings"
	"testing"
	"testing/fstest"

	"kennel/internal/instances"
	"kennel/internal/program"
)

// TestStaleFunctions: functions that are missing, different or undeclared in the
// folder of the app are a problem; the copies for partitions, and another form of
// the same bindings, are not.
func TestStaleFunctions(t *testing.T) {
	d := &program.Declared{Name: "shop", Queues: []*program.Queue{{Name: "emails", Handled: 1}}}
	d.Use(program.Batches)
	staged := fstest.MapFS{"host.json": {}}
	for _, f := range d.Describe().Functions {
		staged[f.Name+"/function.json"] = &fstest.MapFile{Data: []byte(strings.ReplaceAll(f.Text(), "\n", "\r\n"))}
	}
	staged["ProcessWork1/function.json"] = &fstest.MapFile{Data: []byte("{}")}
	if parts := checkFunctions(d, "", staged); len(parts) > 0 {
		t.Errorf("problems %+v", parts[0].Knows.Problems())
	}
	staged["Status/function.json"] = &fstest.MapFile{Data: []byte(`{"bindings":[{"type":"httpTrigger"}]}`)}
	staged["Queue-orders/function.json"] = &fstest.MapFile{Data: []byte("{}")}
	delete(staged, "Queue-emails/function.json")
	parts := checkFunctions(d, "", staged)
	if len(parts) != 1 {
		t.Fatalf("%d parts", len(parts))
	}
	problem := parts[0].Knows.Problems()[0]
	if problem.Code != instances.FunctionsStale || problem.Count != 3 || !strings.Contains(problem.What, ": Queue-emails, Queue-orders, Status.") {
		t.Errorf("problem %+v", problem)
	}
	if parts := checkFunctions(d, "test2", prefixed(d, "test2")); len(parts) > 0 {
		t.Errorf("problems with the right prefix: %+v", parts[0].Knows.Problems())
	}
	for _, tt := range [][2]string{{"test2", ""}, {"", "test2"}, {"test2", "test3"}} {
		parts := checkFunctions(d, tt[0], prefixed(d, tt[1]))
		if len(parts) != 1 || parts[0].Knows.Problems()[0].Count != 4 || !strings.Contains(parts[0].Knows.Problems()[0].What, "KENNEL_PREFIX") {
			t.Errorf("setting %q, package %q: %+v", tt[0], tt[1], parts)
		}
	}
	delete(staged, "host.json")
	if parts := checkFunctions(d, "", staged); len(parts) > 0 {
		t.Error("a folder that is no app was compared")
	}
}

// prefixed returns the folder of an app that was packaged with a prefix.
func prefixed(d *program.Declared, prefix string) fstest.MapFS {
	staged := fstest.MapFS{"host.json": {}}
	for _, f := range d.Describe().Functions {
		staged[f.Name+"/function.json"] = &fstest.MapFile{Data: []byte(f.WithPrefix(prefix).Text())}
	}
	return staged
}
