package scale

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

//go:embed paper.json
var paperText []byte

func mustParse(text []byte) Rules {
	rules, err := ParseRules(text)
	if err != nil {
		panic(err) // the text is part of the tests
	}
	return rules
}

// The paper's own table: under 100 messages 10 hands, under 1,000 50, else 100.
func TestPaperRules(t *testing.T) {
	for depth, want := range map[int64]int{0: 10, 1: 10, 99: 10, 100: 50, 999: 50, 1000: 100, 1_000_000: 100} {
		advice, _ := Advise(mustParse(paperText), State{}, Reading{At: dayStart, Instances: 1, Samples: []Sample{{Queue: "q", Ready: depth}}})
		if got := advice.Queues[0].Hands; got != want {
			t.Errorf("%d messages: %d hands, want %d", depth, got, want)
		}
	}
}

// TestDefaultRules: what is left out has the values of the default rules, which
// are the zero Rules.
func TestDefaultRules(t *testing.T) {
	for _, text := range []string{`{"version":1}`, `{"version":1,"instances":{"min":1}}`, string(defaultText)} {
		rules, err := ParseRules([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if got, want := asJSON(t, rules), asJSON(t, Rules{}); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}

func asJSON(t testing.TB, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestRulesRoundTrip(t *testing.T) {
	for _, text := range []string{string(defaultText), string(paperText), dayRules, `{"version":1,"coolDown":"90s",
		"depth":[{"from":0,"below":0.5,"hands":1},{"from":0.5,"hands":2,"instances":3}],
		"ageSeconds":[{"from":0,"below":60,"hands":1},{"from":60,"hands":2,"instances":3}],
		"windows":[{"days":["mon","sun"],"from":"22:00","to":"24:00","zone":"America/New_York","lead":"1h30m","instances":2},{"from":"23:00","to":"01:00","instances":1}]}`} {
		once, err := ParseRules([]byte(text))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		twice, err := ParseRules([]byte(asJSON(t, once)))
		if err != nil || asJSON(t, once) != asJSON(t, twice) {
			t.Errorf("%s\nbecomes %s\nand then %s (%v)", text, asJSON(t, once), asJSON(t, twice), err)
		}
	}
}

// TestBadRules: each error names the row and the reason.
func TestBadRules(t *testing.T) {
	one := func(members string) string {
		return `{"version":1,"depth":[{"from":0,"hands":1}],` + members + `}`
	}
	depth := func(rows string) string { return `{"version":1,"depth":[` + rows + `]}` }
	window := func(members string) string {
		return one(`"windows":[{"from":"08:00","to":"09:00","instances":1},{` + members + `}]`)
	}
	for _, tt := range []struct{ name, text, want string }{
		{"overlap", depth(`{"from":0,"below":100,"hands":1},{"from":90,"hands":2}`), "row 2 of depth: from is 90, so it overlaps row 1, which ends at 100"},
		{"hole", depth(`{"from":0,"below":100,"hands":1},{"from":110,"hands":2}`), "row 2 of depth: from is 110, which leaves a hole after row 1, which ends at 100"},
		{"hole at the begin", depth(`{"from":1,"hands":1}`), "row 1 of depth: from is 1, which leaves a hole"},
		{"hole at the end", depth(`{"from":0,"below":5,"hands":1}`), "row 1 of depth: below is 5, so nothing applies from there on"},
		{"end in the middle", depth(`{"from":0,"hands":1},{"from":5,"hands":1}`), "row 1 of depth: below is missing"},
		{"shrinking hands", depth(`{"from":0,"below":5,"hands":2},{"from":5,"hands":1}`), "row 2 of depth: it has 1 hands and 0 instances, less than row 1 with 2 and 0"},
		{"shrinking instances", depth(`{"from":0,"below":5,"hands":2,"instances":2},{"from":5,"hands":2,"instances":1}`), "row 2 of depth: it has 2 hands and 1 instances"},
		{"wrong order", depth(`{"from":5,"hands":2},{"from":0,"below":5,"hands":1}`), "row 1 of depth: from is 5"},
		{"empty row", depth(`{"from":0,"below":0,"hands":1},{"from":0,"hands":1}`), "row 1 of depth: below is 0"},
		{"negative from", depth(`{"from":-1,"hands":1}`), "row 1 of depth: from is -1"},
		{"negative hands", depth(`{"from":0,"hands":-1}`), "row 1 of depth: hands is -1; use 1 to 10000"},
		{"faults of two rows", depth(`{"from":0,"hands":"x"},{"from":true}`), "row 1 of depth: hands has the wrong type: string instead of whole number; row 2 of depth: from has the wrong type: bool instead of number"},
		{"member of another place", one(`"min":1`), `unknown field "min"`},
		{"no hands", depth(`{"from":0}`), "row 1 of depth: hands is 0"},
		{"too many hands", depth(`{"from":0,"hands":10001}`), "row 1 of depth: hands is 10001"},
		{"half a hand", depth(`{"from":0,"hands":1.5}`), "row 1 of depth: hands has the wrong type: number 1.5 instead of whole number"},
		{"NaN", depth(`{"from":NaN,"hands":1}`), "not a valid rule table"},
		{"text NaN", depth(`{"from":"NaN","hands":1}`), "row 1 of depth: from has the wrong type: string instead of number"},
		{"infinite", depth(`{"from":0,"below":1e999,"hands":1}`), "not a valid rule table"},
		{"too many instances", depth(`{"from":0,"hands":1,"instances":21}`), "row 1 of depth: instances is 21"},
		{"no rows", depth(``), "depth has no rows"},
		{"age without a result", one(`"ageSeconds":[{"from":0}]`), "row 1 of ageSeconds: it has neither"},
		{"age with a hole", one(`"ageSeconds":[{"from":0,"below":1,"hands":1},{"from":2,"hands":1}]`), "row 2 of ageSeconds: from is 2"},
		{"two faults", one(`"finish":0,"cpu":1.5`), "finish is 0; use a number above 0, up to 1; cpu is 1.5"},
		{"negative min", one(`"instances":{"min":-1}`), "min is -1"},
		{"max below min", one(`"instances":{"min":5,"max":4}`), "max is 4 and min is 5"},
		{"no max", one(`"instances":{"min":0,"max":0}`), "max is 0"},
		{"no step", one(`"instances":{"step":0}`), "step is 0"},
		{"negative cool-down", one(`"coolDown":"-5m"`), "coolDown is -5m"},
		{"long cool-down", one(`"coolDown":"25h"`), "coolDown is 25h"},
		{"cool-down without a unit", one(`"coolDown":5`), "table: coolDown has the wrong type: number instead of string"},
		{"half an instance", one(`"instances":{"min":1.5}`), "table: instances.min has the wrong type: number 1.5 instead of whole number"},
		{"no list", one(`"windows":{}`), "table: windows has the wrong type: object instead of array"},
		{"day without a list", window(`"days":"mon"`), "row 2 of windows: days has the wrong type: string instead of array"},
		{"unit missing", one(`"coolDown":"5"`), `"5" is not a duration`},
		{"start-up", one(`"startUp":"1h"`), "startUp is 1h"},
		{"unknown day", window(`"days":["monday"],"from":"08:00","to":"09:00","instances":1`), `row 2 of windows: days has "monday"`},
		{"day twice", window(`"days":["mon","mon"],"from":"08:00","to":"09:00","instances":1`), `row 2 of windows: days has "mon"`},
		{"empty window", window(`"from":"08:00","to":"08:00","instances":1`), "row 2 of windows: from and to"},
		{"no times", window(`"instances":1`), "row 2 of windows: from and to"},
		{"unknown time", window(`"from":"8:00","to":"09:00","instances":1`), `row 2 of windows: "8:00" is not a time of day`},
		{"unknown zone", window(`"from":"08:00","to":"09:00","zone":"Mars/Base","instances":1`), `row 2 of windows: "Mars/Base" is not a time zone`},
		{"zone of the machine", window(`"from":"08:00","to":"09:00","zone":"Local","instances":1`), `row 2 of windows: "Local" is not a time zone`},
		{"long lead", window(`"from":"08:00","to":"09:00","lead":"5h","instances":1`), "row 2 of windows: lead is 5h"},
		{"no instances", window(`"from":"08:00","to":"09:00"`), "row 2 of windows: instances is 0"},
		{"no version", `{"depth":[{"from":0,"hands":1}]}`, "version of the rules is 0"},
		{"newer", `{"version":2,"depth":[{"from":0,"hands":1}]}`, "version of the rules is 2"},
		{"unknown member", one(`"cooldown":"5m"`), `"cooldown" is unknown`},
		{"member twice", one(`"cpu":0.5,"cpu":0.9`), `"cpu" is there twice`},
		{"null", one(`"windows":null`), "a value is null"},
		{"two objects", one(`"cpu":0.5`) + `{}`, "followed by something else"},
		{"no object", `[]`, "not a JSON object"},
		{"empty", ``, "not a valid rule table"},
		{"cut", `{"version":1`, "not a valid rule table"},
		{"long", strings.Repeat(" ", maxRuleBytes) + one(`"cpu":1`), "longer than 65536 bytes"},
		{"many faults", depth(strings.Repeat(`{"from":"a"},`, 22) + `{"from":0}`), "row 20 of depth: from has the wrong type: string instead of number; and 2 more"},
		{"many rows of depth", depth(strings.Repeat(`{"from":"a"},`, 1000) + `{"from":0}`), "depth has 1001 rows; use at most 100"},
		{"many rows", one(`"windows":[` + strings.Repeat(`{"from":"08:00","to":"09:00","instances":1},`, 100) + `{"from":"08:00","to":"09:00","instances":1}]`), "windows has 101 rows"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := ParseRules([]byte(tt.text)); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%.300s\ngot %v, want %s", tt.text, err, tt.want)
			}
		})
	}
}

func FuzzParseRules(f *testing.F) {
	for _, seed := range [][]byte{defaultText, paperText, []byte(dayRules)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		once, err := ParseRules(text)
		if err != nil {
			return
		}
		again, err := ParseRules([]byte(asJSON(t, once)))
		if err != nil || asJSON(t, again) != asJSON(t, once) {
			t.Fatalf("%s: %v", asJSON(t, once), err)
		}
		advice, _ := Advise(once, State{}, Reading{At: dayStart, Samples: []Sample{{Queue: "q", Ready: 40, OldestSeconds: 1000}}})
		if n := once.table().Instances; advice.Instances < n.Min || advice.Instances > n.Max {
			t.Fatalf("%d instances by %s", advice.Instances, asJSON(t, once))
		}
	})
}

func TestWindows(t *testing.T) {
	const berlin = `"days":["sun"],"from":"02:30","to":"04:00","zone":"Europe/Berlin","instances":5`
	at := func(text string) time.Time {
		parsed, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		return parsed
	}
	for _, tt := range []struct {
		window string
		open   []string // the times within, and
		closed []string // those outside
	}{
		{`"from":"08:00","to":"09:00","instances":5`,
			[]string{"2026-11-23T08:00:00Z", "2026-11-24T08:59:59Z"}, []string{"2026-11-23T07:59:59Z", "2026-11-23T09:00:00Z"}},
		{`"days":["mon"],"from":"08:00","to":"24:00","lead":"10m","instances":5`,
			[]string{"2026-11-23T07:50:00Z", "2026-11-23T23:59:59Z"}, []string{"2026-11-23T07:49:59Z", "2026-11-24T00:00:00Z", "2026-11-24T08:30:00Z"}},
		{`"days":["mon"],"from":"22:00","to":"02:00","instances":5`, // ends on Tuesday
			[]string{"2026-11-23T22:00:00Z", "2026-11-24T01:59:59Z"}, []string{"2026-11-23T01:00:00Z", "2026-11-24T02:00:00Z", "2026-11-24T22:30:00Z"}},
		{`"days":["mon"],"from":"00:05","to":"01:00","lead":"20m","instances":5`, // begins on Sunday with its lead
			[]string{"2026-11-22T23:45:00Z", "2026-11-23T00:30:00Z"}, []string{"2026-11-22T23:44:59Z", "2026-11-23T23:50:00Z"}},
		{`"from":"08:00","to":"09:00","zone":"Asia/Kolkata","instances":5`,
			[]string{"2026-11-23T02:30:00Z", "2026-11-23T03:29:59Z"}, []string{"2026-11-23T02:29:59Z", "2026-11-23T03:30:00Z"}},
		// On 29 March 2026 the clock of Berlin goes from 02:00 to 03:00 at 01:00 UTC.
		{berlin, []string{"2026-03-29T01:00:00Z", "2026-03-29T01:59:59Z"}, []string{"2026-03-29T00:59:59Z", "2026-03-29T02:00:00Z"}},
		// On 25 October it goes from 03:00 to 02:00 at 01:00 UTC, so 02:30 is there twice.
		{berlin, []string{"2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", "2026-10-25T02:59:59Z"}, []string{"2026-10-25T00:29:59Z", "2026-10-25T01:00:00Z", "2026-10-25T03:00:00Z"}},
		// A lead reaches over the change.
		{`"days":["sun"],"from":"03:30","to":"04:00","zone":"Europe/Berlin","lead":"45m","instances":5`,
			[]string{"2026-03-29T00:45:00Z"}, []string{"2026-03-29T00:44:00Z"}},
	} {
		rules := mustParse([]byte(`{"version":1,"depth":[{"from":0,"hands":1}],"windows":[{` + tt.window + `}]}`))
		for want, times := range map[int][]string{5: tt.open, 1: tt.closed} {
			for _, text := range times {
				advice, _ := Advise(rules, State{}, Reading{At: at(text), Instances: 1})
				if advice.Instances != want {
					t.Errorf("%s at %s: %d instances, want %d", tt.window, text, advice.Instances, want)
				}
			}
		}
	}
}

// TestRulesAreReadable keeps the examples in the form in which people edit them.
func TestRulesAreReadable(t *testing.T) {
	for name, text := range map[string][]byte{"default.json": defaultText, "paper.json": paperText} {
		if !bytes.HasPrefix(text, []byte("{\n  \"version\": 1,\n")) || !bytes.HasSuffix(text, []byte("}\n")) {
			t.Errorf("%s is not indented by two spaces", name)
		}
	}
}

// TestFaultsOfRules: a program finds each fault without taking a text apart.
func TestFaultsOfRules(t *testing.T) {
	faults := func(text string) *RulesError {
		t.Helper()
		_, err := ParseRules([]byte(text))
		e, ok := errors.AsType[*RulesError](err)
		if !ok {
			t.Fatalf("got %v, want a RulesError", err)
		}
		return e
	}
	const row = `{"from":0,"hands":1}`
	for _, tt := range []struct {
		text string
		want []Fault
	}{
		{`{"version":1,"cpu":2,"depth":[{"from":0,"below":5,"hands":1},{"from":9,"hands":2}],"windows":[{"instances":1}]}`, []Fault{
			{0, "cpu", "cpu is 2; use a number above 0, up to 1"},
			{2, "depth", "from is 9, which leaves a hole after row 1, which ends at 5"},
			{1, "windows", `from and to are missing or the same; use two different times, such as "07:30" and "09:00"`},
		}},
		{`{"version":1,"depth":[` + row + `],"ageSeconds":[{"from":"x"}]}`, []Fault{{1, "ageSeconds", "from has the wrong type: string instead of number"}}},
		{`{"version":2,"depth":[` + row + `]}`, []Fault{{0, "version", "the member version of the rules is 2; this program reads version 1"}}},
		{`[]`, []Fault{{0, "", "the rules are not a JSON object"}}},
	} {
		if e := faults(tt.text); !slices.Equal(e.Faults, tt.want) || e.More != 0 {
			t.Errorf("%s\ngot  %+v\nwant %+v", tt.text, *e, tt.want)
		}
	}
	if e := faults(`{"version":1,"depth":[` + strings.Repeat(`{"from":"a"},`, 22) + row + `]}`); len(e.Faults) != 20 || e.More != 2 {
		t.Errorf("%d faults and %d more, want 20 and 2", len(e.Faults), e.More)
	}
}

// TestRulesForQueues: rules without windows fit into a column of a table, which
// takes 32,768 characters, however long their numbers are.
func TestRulesForQueues(t *testing.T) {
	list := func() string {
		var rows []string
		for i := range maxRows {
			row := fmt.Sprintf(`{"from":%.17g,"below":%.17g,"hands":10000,"instances":1000}`, 1e-300*float64(i)/3, 1e-300*float64(i+1)/3)
			if i == maxRows-1 {
				row = fmt.Sprintf(`{"from":%.17g,"hands":10000,"instances":1000}`, 1e-300*float64(i)/3)
			}
			rows = append(rows, row)
		}
		return "[" + strings.Join(rows, ",") + "]"
	}
	rules, err := ParseRules([]byte(`{"version":1,"instances":{"max":1000},"depth":` + list() + `,"ageSeconds":` + list() + `,"windows":[{"from":"00:00","to":"12:00","instances":2}]}`))
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(rules.WithoutWindows())
	if err != nil || len(text) > 32<<10 || strings.Contains(string(text), "12:00") {
		t.Errorf("%d bytes, %v", len(text), err)
	}
	read, err := ParseRules(text)
	if err != nil || read.HandsFor(1, 0) != 10_000 {
		t.Errorf("%v", err)
	}
	if n := (Rules{}).HandsFor(150, time.Hour); n != 16 {
		t.Errorf("%d hands by default, want 16", n)
	}
	t.Logf("%d bytes", len(text))
}
