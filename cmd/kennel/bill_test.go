//go:build unix

package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// scriptBill compares the report of the processor billing, as CSV, with a sum
// of the items, which are valid and of the sample.
func scriptBill(ts *testscript.TestScript, _ bool, args []string) {
	rows, err := csv.NewReader(strings.NewReader(ts.ReadFile(args[1]))).ReadAll()
	ts.Check(err)
	got := make([]string, 0, len(rows))
	for _, row := range rows {
		got = append(got, strings.Join(row, " "))
	}
	want, err := billOf(ts.ReadFile(args[0]))
	ts.Check(err)
	if len(want) < 2 || !slices.Equal(got, want) {
		ts.Fatalf("the report has %d rows:\n%s\nwant %d:\n%s", len(got), strings.Join(got, "\n"), len(want), strings.Join(want, "\n"))
	}
}

// billOf returns the rows of the report on items, one on each line. It computes
// in fractions, and shares no code with the app.
func billOf(items string) (rows []string, err error) {
	type key struct{ account, currency string }
	units, count := make(map[key]*big.Int), make(map[key]int)
	for line := range strings.Lines(items) {
		var i item
		if err := json.Unmarshal([]byte(line), &i); err != nil {
			return nil, err
		}
		quantity, ok1 := new(big.Rat).SetString(strings.Trim(string(i.Quantity), `"`))
		price, ok2 := new(big.Rat).SetString(strings.Trim(string(i.UnitPrice), `"`))
		if !ok1 || !ok2 {
			return nil, fmt.Errorf("not two numbers: %s", line)
		}
		amount := new(big.Rat).Mul(quantity, price)
		k := key{i.Account, i.Currency}
		if units[k] == nil {
			units[k] = new(big.Int)
		}
		units[k].Add(units[k], halfToEven(amount.Mul(amount, unitsOf(i.Currency))))
		count[k]++
	}
	keys := slices.SortedFunc(maps.Keys(units), func(a, b key) int {
		return strings.Compare(a.account+" "+a.currency, b.account+" "+b.currency)
	})
	rows = []string{"account currency amount items"}
	for _, k := range keys {
		total := new(big.Rat).SetInt(units[k])
		rows = append(rows, fmt.Sprint(k.account, " ", k.currency, " ", total.Quo(total, unitsOf(k.currency)).FloatString(decimals[k.currency]), " ", count[k]))
	}
	return rows, nil
}

// unitsOf returns how many minor units a unit of the currency has.
func unitsOf(currency string) *big.Rat {
	return new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(decimals[currency])), nil))
}

// halfToEven returns the whole number that is nearest to x, the even one of two.
func halfToEven(x *big.Rat) *big.Int {
	below, rest := new(big.Int).DivMod(x.Num(), x.Denom(), new(big.Int)) // rounds down, as Denom is positive
	switch rest.Lsh(rest, 1).Cmp(x.Denom()) {
	case 1:
		below.Add(below, big.NewInt(1))
	case 0:
		below.Add(below, new(big.Int).And(below, big.NewInt(1)))
	}
	return below
}
