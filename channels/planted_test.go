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
			"	if err := d.c.dropFence(ctx, d.rec); err != nil {\n", "	if err := error(nil); err != nil {\n",
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
		"the channel comes whatever became of its announcement", "create.go",
		[]string{"Write{Verb: Replace, Row: made.row(), If: next.version}", "Write{Verb: Replace, Row: made.row(), If: AnyVersion}"},
		"TestSlowCreator",
	},
	{
		"the fence of a slow creator goes before its channel is ruled out", "sweep.go",
		[]string{"		if out, err = c.ruleOut(ctx, rec); err == nil {\n", "		c.dropFence(ctx, rec)\n		if out, err = c.ruleOut(ctx, rec); err == nil {\n"},
		"TestSlowCreator",
	},
	{
		"the fence of a creation that was given up is looked for only once", "sweep.go",
		[]string{"	if rec.state == abandoned {\n", "	if false {\n"},
		"TestVeryLateFence",
	},
	{
		"nobody clears up after a lost race", "create.go",
		[]string{"if left := c.withdraw(ctx, next); left != nil && mayCome {", "if left := error(nil); left != nil && mayCome {"},
		"TestCreateTogether",
	},
	{
		"a creation is given up when another channel came and went", "create.go",
		[]string{"mostCreations = 3", "mostCreations = 1"},
		"TestCreateAmidOthers",
	},
	{
		"what cannot be done is all that is tried", "sweep.go",
		[]string{"return place{from.page, row.Partition, row.Key}, false,", "return place{page: from.page}, false,"},
		"TestSweepPastWhatFails",
	},
	{
		"a sweep goes on after the row by the order of bytes", "sweep.go",
		[]string{"func(r Row) bool { return r.Partition == p.partition && r.Key == p.key }", "func(r Row) bool { return r.Partition > p.partition }", "rows[i+1:]", "rows[max(i, 0):]"},
		"TestSweepPastWhatFails",
	},
	{
		"deletions that stand still wait for all the rest", "sweep.go",
		[]string{
			"		{\"deletions\", Query{Column: stateColumn, Value: string(deleting)}, c.stalled, c.restart, half},\n", "",
			"c.overdue, c.clear, end},\n", "c.overdue, c.clear, end},\n		{\"deletions\", Query{Column: stateColumn, Value: string(deleting)}, c.stalled, c.restart, half},\n",
			"		if !all {\n			next[chore.name] = place.values()\n		}\n", "		if !all {\n			next[chore.name] = place.values()\n			break\n		}\n",
		}, "TestSweepDeletionsFirst",
	},
	{
		"the channel comes before its fence", "create.go",
		[]string{
			"		if _, err = c.blogs.SubmitOnce(ctx, Write{Verb: Insert, Row: next.fenceRow()}); err != nil {\n", "		if err != nil {\n",
			"	if err == nil {\n		c.opt.Step(StepChannelPut)\n",
			"	if err == nil {\n		c.opt.Step(StepChannelPut)\n		c.blogs.Submit(ctx, Write{Verb: Insert, Row: next.fenceRow()})\n",
		}, "TestCreatorMeetsEveryFault",
	},
	{
		"a fence is put up twice", "create.go",
		[]string{"c.blogs.SubmitOnce(ctx, Write{Verb: Insert, Row: next.fenceRow()})", "c.blogs.Submit(ctx, Write{Verb: Insert, Row: next.fenceRow()})"},
		"TestLateFence",
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
		"a refusal of the second try is asked for again", "patience.go",
		[]string{"		again := passing(err) && n < maxTries\n", "", "		if !again || ctx.Err()", "		if again := passing(err) && n < maxTries; !again || ctx.Err()"},
		"TestRefused",
	},
	{
		"a creation is ruled out whatever became of it", "create.go",
		[]string{"Row: rec.row(), If: announced.version})", "Row: rec.row(), If: AnyVersion})"},
		"TestSweepComesTooLate",
	},
	{
		"who lost a race takes the fence of what may still come", "create.go",
		[]string{"	case err != nil:\n		return err\n	}\n	if c.dropFence(ctx, rec)", "	case err != nil:\n		c.dropFence(ctx, announced)\n		return err\n	}\n	if c.dropFence(ctx, rec)"},
		"TestCreateThatMayStillCome",
	},
	{
		"all is well although a channel may still come", "create.go",
		[]string{"left != nil && mayCome {", "left != nil && mayCome && false {"},
		"TestCreateThatMayStillCome",
	},
	{
		"a refusal speaks for the creations before", "create.go",
		[]string{"		if n > 0 {\n			err = unproven(err)", "		if n > 99 {\n			err = unproven(err)"},
		"TestRefusedAfterOneThatCame",
	},
	{
		"the latest deletion is the one whose clock was ahead", "delete.go",
		[]string{"			if i == 0 || rec.startedAt", "			if i < 0 || rec.startedAt"},
		"TestDeleteAgainWithClocksApart",
	},
	{
		"a living channel has a record of its deletion", "delete.go",
		[]string{"	case rec.state != done:\n		return record{}, nil, ErrNotFound\n", ""},
		"TestNoDeletionOfTheLiving",
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
		"Delete stops early, and its message comes late", "delete.go",
		[]string{"	for n := 0; ; n++ {\n", "	for n := 0; n < 4; n++ {\n", "			return false\n		}\n	}\n}\n", "			return false\n		}\n	}\n	return false\n}\n"},
		"TestHandOver",
	},
	{
		"a round is begun that time will cut", "delete.go",
		[]string{"if time.Until(until) < each*time.Duration(acceptPortion(n+1)) {", "if each < 0 {"},
		"TestHandOver",
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
