package cost

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"kennel/internal/azure/requests"
)

// TestClasses: each operation that the counter of requests names has a price
// class, and each class is that of an operation that it names, of an hour of
// Service Bus or of compute.
func TestClasses(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "../azure/requests/operation.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	counted := map[operation]bool{{"blob", "other"}: true, {"table", "other"}: true, {"queue", "other"}: true}
	for _, name := range []string{requests.Send, requests.Deliver, requests.Peek, requests.Settle, requests.Renew, requests.EmptyReceive} {
		counted[operation{requests.Bus, name}] = true
	}
	ast.Inspect(file, func(n ast.Node) bool {
		pair, ok := n.(*ast.KeyValueExpr)
		if !ok {
			return true
		}
		key, ok := pair.Key.(*ast.CompositeLit)
		if !ok {
			return true
		}
		name, err := strconv.Unquote(pair.Value.(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		counted[operation{strings.ToLower(key.Elts[0].(*ast.Ident).Name), name}] = true
		return true
	})
	if len(counted) < 20 {
		t.Fatalf("found only %d operations", len(counted))
	}
	for o := range counted {
		if classes[o] == "" {
			t.Errorf("%s %s has no price class", o.service, o.name)
		}
	}
	for o := range classes {
		if !counted[o] && o != (operation{bus, "hour"}) && o.service != compute && o.name != emptyReceive {
			t.Errorf("%s %s has a price class, but is no operation of the counter", o.service, o.name)
		}
	}
}

// TestClaimPrices: package queue stores a long body in the table if it fits,
// which is right while a claim in the table costs less than one in a blob.
func TestClaimPrices(t *testing.T) {
	price := func(class string) float64 { return row(t, ListPrices(), class).Price }
	inTable, inBlob := 3*price("table"), price("blob write")+price("blob read")+price("blob delete")
	if inTable >= inBlob {
		t.Errorf("a claim in the table costs %v, in a blob %v", inTable, inBlob)
	}
}

func row(t *testing.T, p Prices, class string) Row {
	t.Helper()
	i := slices.IndexFunc(p.Rows, func(r Row) bool { return r.Class == class })
	if i < 0 {
		t.Fatalf("no row of class %q", class)
	}
	return p.Rows[i]
}

func TestPrice(t *testing.T) {
	bill, err := ListPrices().Price([]Line{
		{Job: "a", Service: "queue", Operation: "put", Count: 10_000},
		{Job: "b", Service: "queue", Operation: "put", Count: 20_000},
		{Job: "a", Service: "blob", Operation: "delete", Count: 1e9},
		{Job: "a", Service: bus, Operation: "send", Count: 13e6},
		{Job: "b", Service: bus, Operation: "deliver", Count: 13e6},
		{Job: "c", Service: "table", Operation: "transaction", Count: 10_000},
	})
	if err != nil {
		t.Fatal(err)
	}
	var got []float64
	for _, l := range bill.Lines {
		got = append(got, math.Round(l.Amount*1e6)/1e6)
	}
	// Of 26 million operations of the bus, 13 million are included: half of each.
	if want := []float64{0.004, 0.008, 0, 5.2, 5.2, 0.00036}; !slices.Equal(got, want) || math.Abs(bill.Total-10.41236) > 1e-9 {
		t.Errorf("%v, in total %v, want %v", got, bill.Total, want)
	}
	for what, lines := range map[string][]Line{
		"queue sing has no class":        {{Service: "queue", Operation: "sing", Count: 1}},
		"is -1":                          {{Service: "queue", Operation: "put", Count: -1}},
		"is NaN":                         {{Service: "queue", Operation: "put", Count: math.NaN()}},
		"is +Inf":                        {{Service: "queue", Operation: "put", Count: math.Inf(1)}},
		"have no row of class \"table\"": {{Service: "table", Operation: "get", Count: 1}},
	} {
		p := ListPrices()
		p.Rows = slices.DeleteFunc(slices.Clone(p.Rows), func(r Row) bool { return r.Class == "table" })
		if _, err := p.Price(lines); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("error %v, want one with %q", err, what)
		}
	}
}

func TestParsePrices(t *testing.T) {
	for _, p := range []Prices{ListPrices(), PaperPrices()} {
		text, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := ParsePrices(text); err != nil || !slices.Equal(got.Rows, p.Rows) {
			t.Errorf("%s: %v, %v", p.Name, got, err)
		}
	}
	// spoilt returns list prices in which one thing is wrong.
	spoilt := func(change func(*Prices)) string {
		p := ListPrices()
		p.Rows = slices.Clone(p.Rows)
		change(&p)
		text, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	tests := map[string]string{
		"unknown field":                                strings.Replace(spoilt(func(*Prices) {}), `"date"`, `"day"`, 1),
		"text follows":                                 spoilt(func(*Prices) {}) + "{}",
		"unexpected EOF":                               "{",
		"rows.price has the wrong type: string":        `{"rows":[{"price":"dear"}]}`,
		"date has the wrong type: number":              `{"date":5}`,
		"1e999":                                        `{"rows":[{"price":1e999}]}`,
		"date is missing":                              spoilt(func(p *Prices) { p.Date = "" }),
		"row 3: class \"gold\" is unknown":             spoilt(func(p *Prices) { p.Rows[2].Class = "gold" }),
		"row 3: class \"blob write\" is repeated":      spoilt(func(p *Prices) { p.Rows[2].Class = "blob write" }),
		"row 2 (blob list): the price":                 spoilt(func(p *Prices) { p.Rows[1].Price = -1 }),
		"row 2 (blob list): the price or the included": spoilt(func(p *Prices) { p.Rows[1].Included = -1 }),
		"row 1 (blob write): the price is missing":     strings.Replace(spoilt(func(*Prices) {}), `"price":0.054,`, "", 1),
		"row 1 (blob write): per is 0":                 spoilt(func(p *Prices) { p.Rows[0].Per = 0 }),
		"the row of class \"queue class 2\" is missing": spoilt(func(p *Prices) {
			p.Rows = slices.DeleteFunc(p.Rows, func(r Row) bool { return r.Class == "queue class 2" })
		}),
	}
	for want, text := range tests {
		if _, err := ParsePrices([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
	for class := range maps.Values(classes) {
		text := spoilt(func(p *Prices) { p.Rows = slices.DeleteFunc(p.Rows, func(r Row) bool { return r.Class == class }) })
		if _, err := ParsePrices([]byte(text)); err == nil || !strings.Contains(err.Error(), strconv.Quote(class)) {
			t.Errorf("without a row of class %q: error %v", class, err)
		}
	}
}
