package channels_test

import (
	"testing"

	"kennel/internal/plant"
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
			"	d := &deletion{c: c, rec: rec}\n	if err := d.removeFence(ctx); err != nil {\n		return record{}, unproven(err)\n	}\n",
			"	receipt, err := c.put(ctx, name, c.opt.MessageDelay)\n	if err != nil {\n		return record{}, err\n	}\n	d := &deletion{c: c, rec: rec}\n	if err := d.removeFence(ctx); err != nil {\n		return record{}, unproven(err)\n	}\n",
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
		[]string{"	case found == nil:\n		return readBlog(stored)\n	case errors.Is(found, ErrNotFound):", "	case found == nil:\n		return readBlog(Row{Values: stored.Values})\n	case errors.Is(found, ErrNotFound):"},
		"TestWritesThatFail",
	},
	{
		"a refusal of the second try counts for the first", "patience.go",
		[]string{`err = fmt.Errorf("%w: %w", errRepeated, unproven(err))`, `err = fmt.Errorf("%w: %w", errRepeated, err)`},
		"TestRefused",
	},
	{
		"a refusal after the message says that nothing comes of it", "delete.go",
		[]string{"		return rec, unproven(err)\n", "		return rec, err\n"},
		"TestRefused",
	},
	{
		"what was refused is asked for again", "patience.go",
		[]string{"ErrLimit, ErrToken, ErrRefused}", "ErrLimit, ErrToken}"},
		"TestRefused",
	},
	{
		"a blog that is not there counts as posted", "blogs.go",
		[]string{"		return Blog{}, err // it is not there, though it may still come\n", "		row.Version = `W/\"1\"`\n		return readBlog(row)\n"},
		"TestNoWriteArrives",
	},
	{
		"the simulation does not miss lost blogs", "blogs.go",
		[]string{"		return Blog{}, err // it is not there, though it may still come\n", "		row.Version = `W/\"1\"`\n		return readBlog(row)\n"},
		"TestSimulations",
	},
	{
		"a blog is inserted twice under the same key", "blogs.go",
		[]string{"	versions, err := c.blogs.SubmitOnce(ctx,\n		touchFence(partition),", "	versions, err := c.blogs.Submit(ctx,\n		touchFence(partition),"},
		"TestLateBlog",
	},
	{
		"the simulation does not miss removed blogs that come back", "blogs.go",
		[]string{"	versions, err := c.blogs.SubmitOnce(ctx,\n		touchFence(partition),", "	versions, err := c.blogs.Submit(ctx,\n		touchFence(partition),"},
		"TestSimulations",
	},
	{
		"a blog is inserted under another key after the first", "blogs.go",
		[]string{
			"	versions, err := c.blogs.SubmitOnce(ctx,\n		touchFence(partition),\n		Write{Verb: Insert, Row: row})\n",
			"	versions, err := try(ctx, func(ctx context.Context) ([]string, error) {\n		row = blogRow(partition, newBlogKey(c.now()), d, randomHex(8))\n		return c.blogs.SubmitOnce(ctx, touchFence(partition), Write{Verb: Insert, Row: row})\n	})\n",
		}, "TestLateBlog",
	},
	{
		"a removal under a condition takes a missing blog for removed", "blogs.go",
		[]string{`etag == "" || errors.Is(err, errRepeated)`, "true"},
		"TestConditions",
	},
	{
		"a removal takes its own echo for somebody else", "blogs.go",
		[]string{`etag == "" || errors.Is(err, errRepeated)`, `etag == ""`},
		"TestWritesThatFail",
	},
	{
		"an update forgets its condition", "blogs.go",
		[]string{"Write{Verb: Replace, Row: row, If: etag}", "Write{Verb: Replace, Row: row, If: AnyVersion}"},
		"TestWritersOfOneBlog",
	},
}

func TestPlantedBugs(t *testing.T) {
	for _, p := range planted {
		t.Run(p.bug, func(t *testing.T) { plant.Bug(t, p.file, p.edits, p.caughtBy, "-simulations=500") })
	}
}
