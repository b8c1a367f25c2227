package parts

import (
	"errors"
	"strings"
	"testing"
	"testing/fstest"

	"kennel/internal/instances"
	"kennel/internal/program"
)

// TestStaleFunctions: functions that are missing, different or undeclared in the
// folder of the app are a problem; the copies for partitions, and another form of
// the same bindings, are not. A package with the queues of another prefix is
// refused.
func TestStaleFunctions(t *testing.T) {
	d := &program.Declared{Name: "shop", Queues: []*program.Queue{{Name: "emails", Handled: 1}}}
	d.Use(program.Batches)
	staged := fstest.MapFS{"host.json": {}}
	for _, f := range d.Describe().Functions {
		staged[f.Name+"/function.json"] = &fstest.MapFile{Data: []byte(strings.ReplaceAll(f.Text(), "\n", "\r\n"))}
	}
	staged["ProcessWork1/function.json"] = &fstest.MapFile{Data: []byte("{}")}
	if parts, err := checkFunctions(d, "", staged); len(parts) > 0 || err != nil {
		t.Errorf("parts %+v, %v", parts, err)
	}
	staged["Status/function.json"] = &fstest.MapFile{Data: []byte(`{"bindings":[{"type":"httpTrigger"}]}`)}
	staged["Queue-orders/function.json"] = &fstest.MapFile{Data: []byte("{}")}
	delete(staged, "Queue-emails/function.json")
	parts, err := checkFunctions(d, "", staged)
	if len(parts) != 1 || err != nil {
		t.Fatalf("%d parts, %v", len(parts), err)
	}
	problem := parts[0].Knows.Problems()[0]
	if problem.Code != instances.FunctionsStale || problem.Count != 3 || !strings.Contains(problem.What, ": Queue-emails, Queue-orders, Status.") {
		t.Errorf("problem %+v", problem)
	}
	if parts, err := checkFunctions(d, "test2", prefixed(d, "test2")); len(parts) > 0 || err != nil {
		t.Errorf("with the right prefix: %+v, %v", parts, err)
	}
	for _, tt := range [][2]string{{"test2", ""}, {"", "test2"}, {"test2", "test3"}} {
		if _, err := checkFunctions(d, tt[0], prefixed(d, tt[1])); !errors.Is(err, errOtherPrefix) || !strings.Contains(err.Error(), "kennel package --prefix") {
			t.Errorf("setting %q, package %q: %v", tt[0], tt[1], err)
		}
	}
	none := new(program.Declared) // receives nothing
	if _, err := checkFunctions(none, "test2", prefixed(none, "")); err != nil {
		t.Errorf("without queues: %v", err)
	}
	delete(staged, "host.json")
	if parts, err := checkFunctions(d, "", staged); len(parts) > 0 || err != nil {
		t.Error("a folder that is no app was compared")
	}
}

// TestUnservedQueues: queues whose functions are not in the folder of the app are
// not worked on behind its host.
func TestUnservedQueues(t *testing.T) {
	d := &program.Declared{Name: "shop", Queues: []*program.Queue{{Name: "emails", FormerNames: []string{"mail"}, Handled: 1}, {Name: "sent", SendOnly: true}}}
	d.Use(program.Batches)
	for _, prefix := range []string{"", "test2"} {
		staged := prefixed(d, prefix)
		if all := unservedQueues(d, prefix, 1, staged); len(all) > 0 {
			t.Errorf("of a whole package: %v", all)
		}
		delete(staged, "Queue-mail/function.json")
		if all := unservedQueues(d, prefix, 3, staged); len(all) != 3 || !all["mail"] || !all["work-1"] || !all["work-2"] {
			t.Errorf("without the former name and two partitions: %v", all)
		}
		delete(staged, "host.json")
		if all := unservedQueues(d, prefix, 3, staged); len(all) > 0 {
			t.Errorf("of a folder that is no app: %v", all)
		}
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
