package channels_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// planted are the classic bugs of deletions that span two tables, each put
// into the real source by replacements, and the tests that must then fail. A
// test that stays green over its bug proves nothing.
var planted = []struct {
	bug, file string
	edits     []string // old, new, old, new, …
	caughtBy  string
}{
	{
		"the message is put after the tables are touched", "delete.go",
		[]string{
			"	receipt, err := c.put(ctx, name, c.opt.MessageDelay)\n	if err != nil {\n		return record{}, err\n	}\n	c.opt.Step(StepMessagePut)\n", "",
			"	d := &deletion{c: c, rec: rec}\n	if err := d.removeFence(ctx); err != nil {\n		return record{}, err\n	}\n",
			"	receipt, err := c.put(ctx, name, c.opt.MessageDelay)\n	if err != nil {\n		return record{}, err\n	}\n	d := &deletion{c: c, rec: rec}\n	if err := d.removeFence(ctx); err != nil {\n		return record{}, err\n	}\n",
		}, "TestKilledAtEachRequest/^1_",
	},
	{
		"the fence stays until the blogs are deleted", "deletion.go",
		[]string{
			"	_, err := d.c.blogs.Submit(ctx,\n		Write{Verb: Delete, Row: Row{Partition: d.rec.partition(), Key: fenceKey}, If: AnyVersion})\n", "	err := error(nil)\n",
			"page.Rows[0].Key == fenceKey", "page.Rows[0].Key == fenceKey && false",
		}, "TestKilledAtEachRequest/^101_",
	},
	{
		"blogs are inserted beside the fence", "blogs.go",
		[]string{"		touchFence(partition),\n", "", "row.Version = versions[1]", "row.Version = versions[0]"},
		"TestKilledAtEachRequest/^(0|1|101)_",
	},
	{
		"the message means whatever has the name now", "handle.go",
		[]string{
			"	until := c.until(ctx)\n",
			"	until := c.until(ctx)\n	if now, err := c.named(ctx, m.Channel); err == nil {\n		m.Incarnation = now.incarnation\n	}\n",
		}, "TestMessagesThatMeanNothing",
	},
	{
		"all incarnations share a partition", "names.go",
		[]string{`return channelPartition(name) + "@" + incarnation`, `return channelPartition(name) + "@"`},
		"TestDeleteIsIdempotent",
	},
	{
		"the channel's row is finished before its blogs are", "handle.go",
		[]string{"	if err := d.rounds(ctx, until);", "	d.finish(ctx)\n	if err := d.rounds(ctx, until);"},
		"TestKilledAtEachRequest/^101_",
	},
	{
		"an empty page is taken for the end", "deletion.go",
		[]string{`if page.Next == "" {`, `if page.Next == "" || len(page.Rows) == 0 {`},
		"TestKilledAtEachRequest/^101_",
	},
	{
		"a full page is taken for the end", "deletion.go",
		[]string{`if page.Next == "" {`, `if page.Next == "" || len(page.Rows) < MaxPage {`},
		"TestKilledAtEachRequest/^101_",
	},
	{
		"the place to go on from is saved", "deletion.go",
		[]string{
			"q := Query{Partition: d.rec.partition(), KeysOnly: true, Top: MaxPage}",
			"q := Query{Partition: d.rec.partition(), KeysOnly: true, Top: MaxPage, Above: d.rec.through}",
		}, "TestKilledAtEachRequest/^101_",
	},
	{
		"the last write is unconditional", "deletion.go",
		[]string{"Write{Verb: Replace, Row: next.row(), If: d.rec.version}", "Write{Verb: Replace, Row: next.row(), If: AnyVersion}"},
		"TestSlowWorker",
	},
	{
		"blogs are counted when they are gone", "deletion.go",
		[]string{
			"	if err := d.count(ctx, keys); err != nil {\n		return more, fmt.Errorf(\"count the blogs: %w\", err)\n	}\n", "",
			"	if end {\n		return last, nil", "	if err := d.count(ctx, keys); err != nil {\n		return more, err\n	}\n	if end {\n		return last, nil",
		}, "TestKilledAtEachRequest/^101_",
	},
	{
		"each row that is gone already makes its transaction fail for good", "deletion.go",
		[]string{
			"			if errors.Is(err, ErrNotFound) {\n				stale.Store(&err) // the other transactions may do well\n				return nil\n			}\n", "			if errors.Is(err, ErrNotFound) {\n				panic(err)\n			}\n",
		}, "TestOneDeleter|TestFaultAtEachRequest",
	},
	{
		"a name row is deleted whatever it stands for", "delete.go",
		[]string{"Row: name.nameRow(), If: name.version}", "Row: name.nameRow(), If: AnyVersion}"},
		"TestLateMark",
	},
	{
		"the fence of a slow creator is removed and nothing else", "sweep.go",
		[]string{"_, err = c.channels.Submit(ctx, Write{Verb: Insert, Row: rec.row()})", "err = nil"},
		"TestSlowCreator",
	},
	{
		"the channel comes before its fence", "channels.go",
		[]string{
			"		_, err := c.blogs.SubmitOnce(ctx, Write{Verb: Insert, Row: next.fenceRow()})\n		return next, err\n", "		return next, nil\n",
			"	if err == nil {\n		c.opt.Step(StepChannelPut)\n",
			"	if err == nil {\n		c.opt.Step(StepChannelPut)\n		c.blogs.Submit(ctx, Write{Verb: Insert, Row: next.fenceRow()})\n",
		}, "TestKilledCreator",
	},
	{
		"a second try puts up the fence of the same incarnation", "channels.go",
		[]string{
			"	return try(ctx, func(ctx context.Context) (record, error) {\n		now := time.Now().UTC()\n",
			"	now := time.Now().UTC()\n	once := newIncarnation(now)\n	return try(ctx, func(ctx context.Context) (record, error) {\n",
			"incarnation: newIncarnation(now)", "incarnation: once",
		}, "TestLateFence",
	},
	{
		"an echo of the own insert is an error", "blogs.go",
		[]string{"	case found == nil:\n		return readBlog(stored)\n	case errors.Is(found, ErrNotFound) &&", "	case found == nil:\n		return readBlog(Row{Values: stored.Values})\n	case errors.Is(found, ErrNotFound) &&"},
		"TestWritesThatFail",
	},
	{
		"an update forgets its condition", "blogs.go",
		[]string{"Write{Verb: Replace, Row: row, If: etag}", "Write{Verb: Replace, Row: row, If: AnyVersion}"},
		"TestWritersOfOneBlog",
	},
}

func TestPlantedBugs(t *testing.T) {
	gotool, err := exec.LookPath("go")
	if err != nil {
		t.Fatalf("planting bugs needs the go command: %v", err)
	}
	slots := make(chan struct{}, 2)
	for _, p := range planted {
		t.Run(p.bug, func(t *testing.T) {
			t.Parallel()
			slots <- struct{}{}
			defer func() { <-slots }()
			cmd := exec.CommandContext(t.Context(), gotool, "test", "-count=1", "-vet=off", "-timeout=1m", "-overlay="+plant(t, p.file, p.edits),
				"-run="+p.caughtBy, "kennel/channels", "-simulations=500")
			out, err := cmd.CombinedOutput()
			switch {
			case bytes.Contains(out, []byte("no tests to run")):
				t.Errorf("there is no %s", p.caughtBy)
			case err == nil:
				t.Errorf("%s stayed green", p.caughtBy)
			case bytes.Contains(out, []byte("build failed")) || !bytes.Contains(out, []byte("FAIL")):
				t.Errorf("the tests did not run: %v\n%s", err, out)
			case bytes.Contains(out, []byte("test timed out")):
				t.Errorf("%s hung instead of failing:\n%.2000s", p.caughtBy, out)
			}
		})
	}
}

// plant writes the source file with its edits and an overlay that puts it in
// the place of the real one.
func plant(t *testing.T, file string, edits []string) (overlay string) {
	t.Helper()
	source, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text := string(source)
	for i := 0; i < len(edits); i += 2 {
		if n := strings.Count(text, edits[i]); n != 1 {
			t.Fatalf("%s holds %d times, and must hold once:\n%s", file, n, edits[i])
		}
		text = strings.Replace(text, edits[i], edits[i+1], 1)
	}
	dir := t.TempDir()
	planted := filepath.Join(dir, file)
	if err := os.WriteFile(planted, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	real, err := filepath.Abs(file)
	if err != nil {
		t.Fatal(err)
	}
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {real: planted}})
	if err != nil {
		t.Fatal(err)
	}
	overlay = filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(overlay, replace, 0o600); err != nil {
		t.Fatal(err)
	}
	return overlay
}
