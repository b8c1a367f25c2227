package instances

import (
	"context"
	"fmt"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"kennel/internal/memory"
	"kennel/internal/table"
)

// full is a report with something of everything.
func full(name string, sequences int) Report {
	at := time.Now().UTC()
	r := Report{
		Process: Process{name, Functions, "v1.2.3", at.Add(-time.Hour)},
		At:      at, CPU: 0.25, Memory: 20 << 20, Window: 60.012, Served: Served{100, 1.5}, Total: Served{20_000, 300.5},
		Problems: []Problem{{Code: GateUnreadable, Subject: "hounds", What: "it is corrupt", Since: at, Count: 2}},
	}
	RunningSection.Add(&r, map[string]int64{"work-0": 3})
	GateSection.Add(&r, []Gate{{"hounds", 20}})
	QueueSection.Add(&r, map[string]QueueSample{"work-0": {At: at, Ready: 10, OldestSeconds: 1.5, Poison: 1}})
	RequestSection.Add(&r, []Requests{{"blob", "get", "numbers", 12}, {"table", "query", "", 1}})
	WorkSection.Add(&r, map[string]Work{"work-0": {
		Receives: 500, EmptyReceives: 100, FailedReceives: 1, Done: 9000, Repeated: 2, Retried: 3, Returned: 4, DeadLetters: 5, Lost: 6,
		Ages: []int64{8000, 1000, 18, 0, 0, 0, 0, 0, 0, 1}, AgeSeconds: 1234.567,
		HandSeconds: 2345.678, Latencies: []int64{8000, 1000, 0, 0, 0, 0, 0, 0, 0, 0}, Pool: 32,
	}})
	SendSection.Add(&r, Sends{Primary: 10, Backlog: 5, Failed: 1, Ambiguous: 2, Throttled: 3, Failovers: 2, Failbacks: 1, Moved: 5, DeadLettered: 1, Expired: 1})
	RelaySection.Add(&r, []RelayEntity{{"orders", "failedOver", at, true, "reset"}})
	BacklogSection.Add(&r, &Backlog{at, true, []BacklogEntity{{"orders", 12, 34.567}}})
	RecentSection.Add(&r, map[string]Recent{"work-0": {Completed: 100, HandSeconds: 12.345, Latencies: []int64{90, 10, 0, 0, 0, 0, 0, 0, 0, 0}}})
	var used []Sequence
	for i := range sequences {
		used = append(used, Sequence{Name: fmt.Sprintf("orders-of-customer-%04d", i), Issued: 12_345, Available: 997, Highest: 1_000_000, PerSecond: 12.345, LastError: "reset", LastErrorAt: at})
	}
	SequenceSection.Add(&r, used)
	return r
}

// sections are all that this package declares, by their columns.
var sections = map[string]struct {
	Part
	of func(Report) any
}{
	"backlog":   {BacklogSection, func(r Report) any { return BacklogSection.Of(r) }},
	"gates":     {GateSection, func(r Report) any { return GateSection.Of(r) }},
	"queues":    {QueueSection, func(r Report) any { return QueueSection.Of(r) }},
	"recent":    {RecentSection, func(r Report) any { return RecentSection.Of(r) }},
	"relay":     {RelaySection, func(r Report) any { return RelaySection.Of(r) }},
	"requests":  {RequestSection, func(r Report) any { return RequestSection.Of(r) }},
	"running":   {RunningSection, func(r Report) any { return RunningSection.Of(r) }},
	"sends":     {SendSection, func(r Report) any { return SendSection.Of(r) }},
	"sequences": {SequenceSection, func(r Report) any { return SequenceSection.Of(r) }},
	"work":      {WorkSection, func(r Report) any { return WorkSection.Of(r) }},
}

// all returns the problems and all sections.
func all() []Part {
	parts := []Part{Problems}
	for _, s := range sections {
		parts = append(parts, s.Part)
	}
	return parts
}

// diff compares reports with all their sections.
func diff(want, got Report) string {
	text := cmp.Diff(want, got, cmpopts.EquateEmpty(), cmpopts.IgnoreUnexported(Report{}))
	for name, s := range sections {
		if diff := cmp.Diff(s.of(want), s.of(got), cmpopts.EquateEmpty()); diff != "" {
			text += name + ":\n" + diff
		}
	}
	return text
}

func TestRoundTrip(t *testing.T) {
	inBubble(t, memory.Options{}, func(t *testing.T, rows *memory.Table) {
		for i, want := range []Report{full("p", 2), {Process: Process{Instance: "q"}, At: time.Now().UTC()}} {
			put(t, rows, want)
			if diff := diff(want, read(t, rows).Live[i].Report); diff != "" {
				t.Errorf("written (-), read (+):\n%s", diff)
			}
		}
	})
}

// TestRowsAreBounded: a row fits into storage, whatever it has to hold.
func TestRowsAreBounded(t *testing.T) {
	r := full("p", 0)
	long := strings.Repeat("🐕<\x00\xff", 10_000)
	busy := WorkSection.Of(r)["work-0"]
	busy.Done, busy.AgeSeconds = 1<<52, 1e15
	backlog := &Backlog{} // without More, but the row holds less than all
	running, queues := make(map[string]int64), make(map[string]QueueSample)
	work, recent := make(map[string]Work), make(map[string]Recent)
	for i := range 10_000 {
		r.Problems = append(r.Problems, Problem{Code: "c", Subject: fmt.Sprint(i), What: long})
		backlog.Entities = append(backlog.Entities, BacklogEntity{strings.Repeat("e", 260), 1 << 52, 1e15})
		queues[fmt.Sprint("q", i)] = QueueSample{Ready: 1 << 52}
		name := fmt.Sprint("delete-channel-and-blogs-", i)
		running[name], work[name], recent[name] = 1<<52, busy, RecentSection.Of(r)["work-0"]
	}
	SequenceSection.Add(&r, slices.Repeat([]Sequence{{Name: strings.Repeat("x", 63), LastError: long}}, 10_000))
	GateSection.Add(&r, slices.Repeat([]Gate{{strings.Repeat("g", 63), 1000}}, 10_000))
	RequestSection.Add(&r, slices.Repeat([]Requests{{Service: "blob", Operation: "get"}}, 10_000))
	RelaySection.Add(&r, slices.Repeat([]RelayEntity{{Entity: strings.Repeat("e", 260), State: "failedOver", LastError: long}}, 10_000))
	BacklogSection.Add(&r, backlog)
	RunningSection.Add(&r, running)
	QueueSection.Add(&r, queues)
	WorkSection.Add(&r, work)
	RecentSection.Add(&r, recent)
	written, err := row(r)
	if err != nil {
		t.Fatal(err)
	}
	if err := table.CheckWrites([]table.Write{{Verb: table.Upsert, Row: written}}); err != nil {
		t.Error(err)
	}
	for column, text := range written.Values {
		if len(text) > maxColumn {
			t.Errorf("column %s has %d bytes", column, len(text))
		}
	}
	back, err := parse(written, all())
	if err != nil || len(back.Problems) < 5 {
		t.Errorf("%v: %d problems are left", err, len(back.Problems))
	}
	for name, min := range map[string]int{"backlog": 50, "gates": 200, "queues": 100, "recent": 40, "relay": 10, "requests": 250, "running": 250, "sequences": 10, "work": 40} {
		of := reflect.Indirect(reflect.ValueOf(sections[name].of(back)))
		if of.Kind() == reflect.Struct {
			of = of.FieldByName("Entities")
		}
		if of.Len() < min || of.Len() > maxItems {
			t.Errorf("%d of %s are left", of.Len(), name)
		}
	}
	if !BacklogSection.Of(back).More {
		t.Error("a backlog that lacks entities seems to be whole")
	}
	usual, err := row(full("p", 10_000))
	if err != nil {
		t.Fatal(err)
	}
	if back, err = parse(usual, all()); err != nil || len(SequenceSection.Of(back)) < 140 {
		t.Errorf("%v: %d sequences are left", err, len(SequenceSection.Of(back)))
	}
}

// TestWrongClocks: neither the clock of the process that reads nor that of one
// that reports decides how long it counts.
func TestWrongClocks(t *testing.T) {
	for _, reader := range []time.Duration{-time.Hour, 0, time.Hour} {
		for _, writer := range []time.Duration{-48 * time.Hour, -time.Hour, 0, time.Hour, 48 * time.Hour} {
			inBubble(t, memory.Options{}, func(t *testing.T, memoryRows *memory.Table) {
				rows := memory.ClockOff{Table: memoryRows, By: reader}
				r := full("p", 1)
				r.At = r.At.Add(writer)
				r.StartedAt = r.At.Add(-time.Hour)
				r.Problems[0].Since = r.At.Add(-time.Minute)
				QueueSection.Add(&r, map[string]QueueSample{"work-0": {At: r.At.Add(-time.Second)}})
				SequenceSection.Of(r)[0].LastErrorAt = r.At
				RelaySection.Of(r)[0].Since = r.At
				BacklogSection.Of(r).At = r.At
				put(t, rows, r)
				stored := time.Now()
				for _, age := range []time.Duration{0, time.Minute, LiveFor - 2*time.Second, LiveFor + time.Second, time.Hour} {
					time.Sleep(age - time.Since(stored))
					d := read(t, rows)
					if live := len(d.Live) == 1; live != (age < LiveFor) {
						t.Errorf("clocks off by %v and %v: after %v live is %t", reader, writer, age, live)
					}
					if age > 0 || len(d.Live) == 0 {
						continue
					}
					i := d.Live[0]
					if kept := RecentSection.Of(i.Report)["work-0"].Latencies != nil; kept != (reader == writer) {
						t.Errorf("clocks off by %v and %v: latencies %v", reader, writer, RecentSection.Of(i.Report))
					}
					want := stored.Add(reader)
					near := func(at, want time.Time) bool {
						return at.Sub(want).Abs() < 10*time.Second || reader == 0 && writer == 0
					}
					if !near(i.SeenAt, want) || !near(i.StartedAt, want.Add(-time.Hour)) || !near(i.Problems[0].Since, want.Add(-time.Minute)) ||
						!near(QueueSection.Of(i.Report)["work-0"].At, want) || !near(SequenceSection.Of(i.Report)[0].LastErrorAt, want) ||
						!near(RelaySection.Of(i.Report)[0].Since, want) || !near(BacklogSection.Of(i.Report).At, want) {
						t.Errorf("clocks off by %v and %v: %+v, want times of the store's clock %v", reader, writer, i, want)
					}
				}
				newNode(rows, "q").reporter.sweep(t.Context())
				if n := memoryRows.Rows(""); n != 1 {
					t.Errorf("clocks off by %v and %v: the row was removed after an hour", reader, writer)
				}
				time.Sleep(keepFor)
				newNode(rows, "q").reporter.sweep(t.Context())
				if n := memoryRows.Rows(""); n != 0 {
					t.Errorf("clocks off by %v and %v: the row was kept for longer than a day", reader, writer)
				}
			})
		}
	}
}

// undated is a table whose answers have no time.
type undated struct{ *memory.Table }

func (u undated) Query(ctx context.Context, q table.Query) (table.Page, error) {
	page, err := u.Table.Query(ctx, q)
	page.ReadAt = time.Time{}
	return page, err
}

// Without the time of the answer, the newest row shows how late it is.
func TestUndatedAnswer(t *testing.T) {
	inBubble(t, memory.Options{}, func(t *testing.T, rows *memory.Table) {
		put(t, rows, full("old", 0))
		time.Sleep(LiveFor)
		put(t, rows, full("new", 0))
		time.Sleep(time.Minute)
		if d := read(t, undated{rows}); namesOf(d.Live) != "new" || namesOf(d.Gone) != "old" {
			t.Errorf("live %q, gone %q", namesOf(d.Live), namesOf(d.Gone))
		}
	})
}

// TestUnreadableRows: a row of a newer build, or of another program, is counted
// while it is renewed, and nothing else is lost.
func TestUnreadableRows(t *testing.T) {
	inBubble(t, memory.Options{}, func(t *testing.T, rows *memory.Table) {
		good, err := row(full("good", 1))
		if err != nil {
			t.Fatal(err)
		}
		putRow(t, rows, good)
		for name, spoil := range map[string]func(map[string]string){
			"newer":      func(v map[string]string) { v[columnFormat] = "3" },
			"empty":      func(v map[string]string) { clear(v) },
			"not JSON":   func(v map[string]string) { v[columnReport] = "{" },
			"not a list": func(v map[string]string) { v["sequences"] = "{}" },
			"damaged":    func(v map[string]string) { v["running"] = `[{"name":7}]` },
			"missing":    func(v map[string]string) { delete(v, columnReport) },
		} {
			bad := good
			bad.Key, bad.Values = name, maps.Clone(good.Values)
			spoil(bad.Values)
			putRow(t, rows, bad)
		}
		if d := read(t, rows); namesOf(d.Live) != "good" || d.Unreadable != 6 {
			t.Errorf("live %q, %d unreadable, want 6", namesOf(d.Live), d.Unreadable)
		}
		time.Sleep(LiveFor + time.Second)
		if d := read(t, rows); namesOf(d.Gone) != "good" || d.Unreadable != 0 {
			t.Errorf("gone %q, %d unreadable, want none", namesOf(d.Gone), d.Unreadable)
		}
	})
}

// TestCrowd reads the table of many instances, each with many sequences.
func TestCrowd(t *testing.T) {
	const crowd = 200
	for _, sequences := range []int{5, 100} {
		rows := memory.NewTable(nil)
		for i := range crowd {
			put(t, rows, full(fmt.Sprintf("p%03d", i), sequences))
		}
		before := rows.Calls()
		d := read(t, rows)
		if n := rows.Calls() - before; n != 1 || len(d.Live) != crowd {
			t.Errorf("%d requests for %d instances", n, len(d.Live))
		}
		groups := groupsOf(d)
		if len(groups) != 1 || groups[0].Count != 2*crowd || len(groups[0].Instances) != crowd {
			t.Errorf("problems %.500v", groups)
		}
		var used []time.Duration
		for range 3 {
			began := processorTime()
			read(t, rows)
			used = append(used, processorTime()-began)
		}
		slices.Sort(used)
		t.Logf("figure: processor time of reading %d instances with %d sequences each, in one request to a table in memory | %.1f ms | ≤ 50 ms", crowd, sequences, float64(used[len(used)/2].Microseconds())/1000)
	}
}

func TestGroupProblems(t *testing.T) {
	at := func(minute int) time.Time { return time.Date(2026, 1, 2, 3, minute, 0, 0, time.UTC) }
	got := GroupProblems([]Report{
		{Process: Process{Instance: "b"}, Problems: []Problem{
			{Code: SequenceMissing, Subject: "orders", What: "newest", Since: at(5), Count: 2},
			{Code: BlobsFailing, What: "reset", Since: at(9), Count: 4}}},
		{Process: Process{Instance: "a"}, Problems: []Problem{{Code: SequenceMissing, Subject: "orders", What: "oldest", Since: at(1), Count: 1}}},
		{Process: Process{Instance: "c"}, Problems: []Problem{{Code: SequenceMissing, Subject: "bills", What: "other", Since: at(3)}, {Code: "unheard_of", What: "?", Since: at(3), Count: 1}}},
		{Process: Process{Instance: "d"}, Problems: []Problem{{Code: DeadLetters, Subject: "work", What: "9", Since: at(4), Count: 9}}},
		{Process: Process{Instance: "e"}, Problems: []Problem{{Code: DeadLetters, Subject: "work", What: "8", Since: at(5), Count: 8}}},
	})
	want := []ProblemGroup{
		{BlobsFailing, "", "reset", at(9), 4, []string{"b"}, help[BlobsFailing]},
		{DeadLetters, "work", "8", at(4), 9, []string{"d", "e"}, help[DeadLetters]},
		{SequenceMissing, "bills", "other", at(3), 1, []string{"c"}, help[SequenceMissing]},
		{SequenceMissing, "orders", "newest", at(1), 3, []string{"a", "b"}, help[SequenceMissing]},
		{"unheard_of", "", "?", at(3), 1, []string{"c"}, Help("")},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("want (-), got (+):\n%s", diff)
	}
	if none := GroupProblems(nil); none == nil || len(none) != 0 {
		t.Errorf("%v, want an empty list", none)
	}
}

// A report covers the time since the report before the last one, and in Total
// that since the start.
func TestUsage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		served := Served{}
		s := NewSelf(Process{Instance: "p"}, func() []Problem { return nil }, func(r *Report) { r.Served = served })
		for i, want := range []int64{0, 1, 2, 2, 2} {
			served.Count, served.Seconds = int64(i), float64(i)/8
			if got := s.Report(); got.Served.Count != want || got.Window != float64(want*30) || got.Served.Seconds != float64(want)/8 {
				t.Errorf("report %d: %+v, want %d invocations", i, got, want)
			}
			if got := s.next(); got.Served.Count != want || got.Total != served {
				t.Errorf("stored report %d: %+v, want %d invocations", i, got, want)
			}
			time.Sleep(30 * time.Second)
		}
		if r := s.Report(); r.Memory < 1<<20 || r.Memory > 1<<40 {
			t.Errorf("%d bytes of memory", r.Memory)
		}
	})
	before := processorTime()
	for deadline := time.Now().Add(time.Minute); processorTime() == before && time.Now().Before(deadline); {
	}
	if processorTime() == before {
		t.Error("a busy process uses no processor time")
	}
}

func TestNewName(t *testing.T) {
	a, b := NewName(), NewName()
	if a == b {
		t.Errorf("two processes are named %s", a)
	}
	if err := table.CheckWrites([]table.Write{{Verb: table.Upsert, Row: table.Row{Partition: partition, Key: a}}}); err != nil || len(a) > 100 {
		t.Error(a, err)
	}
}

// TestHelp: each code has help, and a row of the table in docs/operations.md.
func TestHelp(t *testing.T) {
	text, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Problems\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var documented []string
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z_]+)` \\|").FindAllStringSubmatch(section, -1) {
		documented = append(documented, row[1])
	}
	slices.Sort(documented)
	if diff := cmp.Diff(slices.Sorted(maps.Keys(help)), documented); diff != "" {
		t.Errorf("codes with help (-), in docs/operations.md (+):\n%s", diff)
	}
}

// TestRecent: a report has what was done within its window, of each queue with
// completed messages.
func TestRecent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		work := map[string]Work{}
		s := NewSelf(Process{Instance: "p"}, func() []Problem { return nil }, func(r *Report) { WorkSection.Add(r, maps.Clone(work)) })
		do := func(queue string, w Work) { work[queue] = w }
		for i, tt := range []struct {
			do   func()
			want map[string]Recent
		}{
			{func() {}, map[string]Recent{}},
			{func() {
				do("a", Work{Done: 5, Repeated: 1, DeadLetters: 1, Retried: 9, HandSeconds: 2.5, Latencies: []int64{5, 0}})
			},
				map[string]Recent{"a": {7, 5, 10, 2.5, []int64{5, 0}}}},
			{func() { do("b", Work{Returned: 3, HandSeconds: 1}) }, map[string]Recent{"a": {7, 5, 10, 2.5, []int64{5, 0}}}},
			{func() {
				do("a", Work{Done: 8, Repeated: 1, DeadLetters: 1, Retried: 10, HandSeconds: 4, Latencies: []int64{5, 3}})
			},
				map[string]Recent{"a": {3, 3, 1, 1.5, []int64{0, 3}}}},
			{func() {}, map[string]Recent{"a": {3, 3, 1, 1.5, []int64{0, 3}}}},
			{func() {}, map[string]Recent{}},
			{func() { do("b", Work{Returned: 3, Retried: 2, HandSeconds: 1}) }, map[string]Recent{"b": {Failed: 2}}}, // all attempts fail
		} {
			tt.do()
			if got := s.next(); cmp.Diff(tt.want, RecentSection.Of(got)) != "" || got.CPUs < 1 {
				t.Errorf("report %d: %+v, %d processors, want %+v", i, RecentSection.Of(got), got.CPUs, tt.want)
			}
			time.Sleep(30 * time.Second)
		}
	})
}

// TestAttempted: a report has the attempts of the declared queues within its
// window, of those with any; without attempts it has no section.
func TestAttempted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now map[string]Messaging
		s := NewSelf(Process{Instance: "p"}, func() []Problem { return nil }, func(r *Report) { MessagingSection.Add(r, now) })
		for i, tt := range []struct {
			now  map[string]Messaging
			want map[string]Attempted
		}{
			{map[string]Messaging{"mails": {Sent: 3}}, nil},
			{map[string]Messaging{"mails": {Outcomes: map[string]int64{"done": 5, "failed": 2, "rejected": 1, "retried_later": 3, "snoozed": 7, "put_back": 8}}}, map[string]Attempted{"mails": {5, 6}}},
			{map[string]Messaging{"mails": {Outcomes: map[string]int64{"done": 9, "failed": 2, "rejected": 1, "retried_later": 3}}, "bills": {Outcomes: map[string]int64{"failed": 1}}}, map[string]Attempted{"mails": {9, 6}, "bills": {0, 1}}},
			{map[string]Messaging{"mails": {Outcomes: map[string]int64{"done": 9, "failed": 2, "rejected": 1, "retried_later": 3}}, "bills": {Outcomes: map[string]int64{"failed": 1}}}, map[string]Attempted{"mails": {4, 0}, "bills": {0, 1}}},
			{map[string]Messaging{"mails": {Outcomes: map[string]int64{"done": 9, "failed": 2, "rejected": 1, "retried_later": 3}}, "bills": {Outcomes: map[string]int64{"failed": 1}}}, nil},
		} {
			now = tt.now
			r := s.next()
			if got := AttemptedSection.Of(r); cmp.Diff(tt.want, got) != "" {
				t.Errorf("report %d: %+v, want %+v", i, got, tt.want)
			}
			if stored, err := row(r); err != nil || (stored.Values["attempted"] != "") != (tt.want != nil) {
				t.Errorf("report %d: the column %q, %v", i, stored.Values["attempted"], err)
			}
			time.Sleep(30 * time.Second)
		}
	})
}
