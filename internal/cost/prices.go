package cost

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
)

// Prices is a table of prices. Each class of operations has one row.
type Prices struct {
	Name       string `json:"name"`
	Date       string `json:"date"` // of the prices
	Region     string `json:"region"`
	Redundancy string `json:"redundancy"`
	Currency   string `json:"currency"`
	About      string `json:"about,omitempty"`
	Rows       []Row  `json:"rows"`
}

// Row is the price of a class: Price for Per units, of which the first Included
// in a month are free.
type Row struct {
	Class    string  `json:"class"`
	Price    float64 `json:"price"`
	Per      float64 `json:"per"`
	Included float64 `json:"included,omitempty"`
}

//go:embed prices.json
var embedded []byte

// ListPrices returns the list prices that the package knows.
func ListPrices() Prices { return embeddedPrices("list") }

// PaperPrices returns the prices of the paper.
func PaperPrices() Prices { return embeddedPrices("paper") }

func embeddedPrices(name string) Prices {
	var tables []Prices
	if err := json.Unmarshal(embedded, &tables); err != nil {
		panic(err) // a test reads it
	}
	return tables[slices.IndexFunc(tables, func(p Prices) bool { return p.Name == name })]
}

// ParsePrices reads a table of prices. Its errors name the row.
func ParsePrices(text []byte) (Prices, error) {
	var p Prices
	if err := decode(text, &p); err != nil {
		return Prices{}, fmt.Errorf("read prices: %w", err)
	}
	var given struct{ Rows []struct{ Price *float64 } }
	if err := json.Unmarshal(text, &given); err != nil {
		return Prices{}, fmt.Errorf("read prices: %w", err)
	}
	for i, row := range given.Rows {
		if row.Price == nil { // which is not a price of 0
			return Prices{}, fmt.Errorf("read prices: row %d (%s): the price is missing", i+1, p.Rows[i].Class)
		}
	}
	if err := p.check(); err != nil {
		return Prices{}, fmt.Errorf("read prices: %w", err)
	}
	return p, nil
}

// decode reads one JSON value strictly: an unknown member, or text after the
// value, is an error.
func decode(text []byte, into any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(into)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Errorf("%s has the wrong type: %s", cmp.Or(wrong.Field, "the text"), wrong.Value)
	}
	if err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err := decoder.Token(); err != io.EOF {
		return errors.New("text follows the JSON value")
	}
	return nil
}

func (p Prices) check() error {
	for _, text := range []struct{ name, value string }{
		{"date", p.Date}, {"region", p.Region}, {"redundancy", p.Redundancy}, {"currency", p.Currency},
	} {
		if text.value == "" {
			return fmt.Errorf("%s is missing; state what the prices are of", text.name)
		}
	}
	known := slices.Compact(slices.Sorted(maps.Values(classes)))
	seen := make(map[string]bool)
	for i, row := range p.Rows {
		switch {
		case !slices.Contains(known, row.Class):
			return fmt.Errorf("row %d: class %q is unknown", i+1, row.Class)
		case seen[row.Class]:
			return fmt.Errorf("row %d: class %q is repeated", i+1, row.Class)
		case !isCount(row.Price) || !isCount(row.Included):
			return fmt.Errorf("row %d (%s): the price or the included number is negative or no number", i+1, row.Class)
		case !isCount(row.Per) || row.Per == 0:
			return fmt.Errorf("row %d (%s): per is %v; use how many units the price is for, such as 10000", i+1, row.Class, row.Per)
		}
		seen[row.Class] = true
	}
	for _, class := range known {
		if !seen[class] {
			return fmt.Errorf("the row of class %q is missing", class)
		}
	}
	return nil
}

// isCount reports whether x is a finite number that is not negative.
func isCount(x float64) bool { return x >= 0 && !math.IsInf(x, 1) }

// Line is how often an operation is made for a job.
type Line struct {
	Job       string  `json:"job"`
	Service   string  `json:"service"`
	Operation string  `json:"operation"`
	Count     float64 `json:"count"`
	Modelled  bool    `json:"modelled,omitempty"` // see the package
}

// HasPrice reports whether the operation has a price class.
func (l Line) HasPrice() bool {
	_, ok := classes[operation{l.Service, l.Operation}]
	return ok
}

// Priced is a line with its price.
type Priced struct {
	Line
	Class  string  `json:"class"`
	Amount float64 `json:"amount"`
}

// Bill is the cost of operations together.
type Bill struct {
	Currency string   `json:"currency"`
	Total    float64  `json:"total"`
	Lines    []Priced `json:"lines"`
}

// Price prices the operations of a month, or of a part of it. The lines of a
// class share its included operations in proportion. An operation without a
// class, or a class without a row, is an error.
func (p Prices) Price(lines []Line) (Bill, error) {
	units := make(map[string]float64) // by class
	priced := make([]Priced, len(lines))
	for i, l := range lines {
		class, ok := classes[operation{l.Service, l.Operation}]
		switch {
		case !ok:
			return Bill{}, fmt.Errorf("price operations: %s %s has no class", l.Service, l.Operation)
		case !isCount(l.Count):
			return Bill{}, fmt.Errorf("price operations: the count of %s %s is %v", l.Service, l.Operation, l.Count)
		}
		priced[i] = Priced{Line: l, Class: class}
		units[class] += l.Count
	}
	b := Bill{Currency: p.Currency, Lines: priced}
	for i, l := range priced {
		at := slices.IndexFunc(p.Rows, func(r Row) bool { return r.Class == l.Class })
		if at < 0 {
			return Bill{}, fmt.Errorf("price operations: the prices have no row of class %q", l.Class)
		}
		row := p.Rows[at]
		if n := units[l.Class]; n > row.Included {
			priced[i].Amount = l.Count * row.Price / row.Per * ((n - row.Included) / n)
		}
		b.Total += priced[i].Amount
	}
	return b, nil
}
