package processors

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"kennel/work"
	"kennel/work/internal/items"
)

// Billing is the processor "billing". It rates transactions exactly. An item is
// an object with
//
//   - id,
//   - account and sku: names of 1 to 200 bytes,
//   - quantity and unitPrice: decimal numbers, as JSON numbers or as strings that
//     contain one. They have at most 18 digits, of which at most 12 are after the
//     point; zeros before the first and after the last other digit do not count.
//     A negative quantity is a credit.
//   - currency: an active code of ISO 4217 that has a minor unit.
//
// The amount of an item is quantity × unitPrice, rounded half to even to the
// minor unit of the currency. No step uses binary fractions. An amount of more
// than 18 digits, those of the minor unit included, rejects the item.
//
// The result of an item is {"account","currency","amount"}, with the amount as a
// string that has all digits of the minor unit. Its report has the total of each
// account and currency.
type Billing struct{}

// charge is an item of billing.
type charge struct {
	account  []byte // JSON text, as submitted
	currency []byte
	minor    int // digits of the currency

	quantity, unitPrice decimal
}

// Validate implements [Processor].
func (Billing) Validate(item json.RawMessage) error {
	_, err := readCharge(item)
	return err
}

// Process implements [Processor].
func (Billing) Process(_ context.Context, item work.Item) (json.RawMessage, error) {
	c, err := readCharge(item.Data)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", work.ErrRejected, err)
	}
	units, ok := c.quantity.times(c.unitPrice, c.minor)
	if !ok {
		return nil, fmt.Errorf("%w: quantity × unitPrice has more than %d digits", work.ErrRejected, maxDigits)
	}
	var digits [20]byte
	b := make([]byte, 0, len(`{"account":,"currency":"EUR","amount":"-."}`)+len(c.account)+maxDigits)
	b = append(append(b, `{"account":`...), c.account...)
	b = append(append(b, `,"currency":"`...), c.currency...)
	b = append(b, `","amount":"`...)
	b = appendUnits(b, strconv.AppendInt(digits[:0], units, 10), c.minor)
	return append(b, `"}`...), nil
}

// ParcelItems implements [Sized].
func (Billing) ParcelItems() int { return work.LargeParcel }

// New implements [Processor].
func (Billing) NewReport(batch string) work.Report {
	return &bill{batch: batch, totals: make(map[billKey]*total)}
}

func readCharge(item []byte) (c charge, err error) {
	m := [...]field{{name: "id"}, {name: "account"}, {name: "sku"}, {name: "quantity"}, {name: "unitPrice"}, {name: "currency"}}
	if err := readFields(item, m[:]); err != nil {
		return c, err
	}
	id, account, sku, quantity, unitPrice, currency := m[0], m[1], m[2], m[3], m[4], m[5]
	for _, name := range [...]field{id, account, sku} {
		if _, err := name.short(); err != nil {
			return c, err
		}
	}
	c.account = account.value
	if c.quantity, err = quantity.decimal(); err != nil {
		return c, err
	}
	if c.unitPrice, err = unitPrice.decimal(); err != nil {
		return c, err
	}
	if c.currency, err = currency.short(); err != nil {
		return c, err
	}
	var ok bool
	if c.minor, ok = minorDigits[string(c.currency)]; !ok {
		return c, fmt.Errorf("currency %s is not an active code of ISO 4217 with a minor unit, such as EUR", items.Quote(c.currency))
	}
	return c, nil
}
