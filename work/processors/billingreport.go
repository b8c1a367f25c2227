package processors

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"
	"strconv"

	"kennel/work"
	"kennel/work/internal/report"
)

// bill is the report of [Billing]. It is {"batch","totals","rejected"}, and
// "failed" if items failed. Totals are sorted by account, then currency, both by
// bytes. Items that are not done are in the order of the results.
type bill struct {
	batch  string
	totals map[billKey]*total
	report.NotDone
	scratch big.Int
}

type billKey struct{ account, currency string }

// total is the sum of an account in one currency, in minor units. 500,000
// amounts of 18 digits need more than 64 bits.
type total struct {
	units big.Int
	items int
}

// Add implements [Report].
func (b *bill) Add(r work.Result) error {
	if r.Outcome != work.ItemDone {
		b.NotDone.Add(r)
		return nil
	}
	m := [...]field{{name: "account"}, {name: "currency"}, {name: "amount"}}
	if err := readFields(r.Result, m[:]); err != nil {
		return corruptResult(r, err)
	}
	account, err := m[0].text()
	if err != nil {
		return corruptResult(r, err)
	}
	currency, err := m[1].text()
	if err != nil {
		return corruptResult(r, err)
	}
	amount, err := m[2].decimal()
	if err != nil {
		return corruptResult(r, err)
	}
	minor, known := minorDigits[string(currency)]
	units, fits := amount.times(decimal{digits: 1}, minor)
	if !known || !fits || amount.scale > minor {
		return corruptResult(r, fmt.Errorf("%s is not an amount of %s", m[2].value, m[1].value))
	}
	t := b.totals[billKey{string(account), string(currency)}]
	if t == nil {
		t = new(total)
		b.totals[billKey{string(account), string(currency)}] = t
	}
	t.units.Add(&t.units, b.scratch.SetInt64(units))
	t.items++
	return nil
}

func corruptResult(r work.Result, err error) error {
	return fmt.Errorf("%w: the result of item %q: %w", work.ErrCorrupt, r.ID, err)
}

type billLine struct {
	Account  string `json:"account"`
	Currency string `json:"currency"`
	Amount   string `json:"amount"`
	Items    int    `json:"items"`
}

func (b *bill) lines() []billLine {
	lines := make([]billLine, 0, len(b.totals))
	for key, t := range b.totals {
		amount := appendUnits(nil, t.units.Append(nil, 10), minorDigits[key.currency])
		lines = append(lines, billLine{key.account, key.currency, string(amount), t.items})
	}
	slices.SortFunc(lines, func(x, y billLine) int {
		return cmp.Or(cmp.Compare(x.Account, y.Account), cmp.Compare(x.Currency, y.Currency))
	})
	return lines
}

// JSON implements [Report].
func (b *bill) JSON() ([]byte, error) {
	return json.Marshal(struct {
		Batch  string     `json:"batch"`
		Totals []billLine `json:"totals"`
		report.NotDoneLists
	}{b.batch, b.lines(), b.NotDone.Lists()})
}

// CSV implements [Report]. It has the totals only.
func (b *bill) CSV() ([]byte, error) {
	rows := [][]string{{"account", "currency", "amount", "items"}}
	for _, l := range b.lines() {
		rows = append(rows, []string{l.Account, l.Currency, l.Amount, strconv.Itoa(l.Items)})
	}
	return report.WriteCSV(rows)
}
