package table

import (
	"fmt"
	"strconv"
	"time"
)

// Columns reads the values of a row, each of which must be there, and keeps the
// first error. It is for one goroutine.
type Columns struct {
	row     Row
	corrupt error
	err     error
}

// FormatColumn has the version of what the other columns of a row hold.
const FormatColumn = "v"

// ReadColumns returns a reader of a row. Every error wraps corrupt: a value that
// is missing or invalid, and a row whose FormatColumn does not have the format.
func ReadColumns(row Row, format string, corrupt error) *Columns {
	c := &Columns{row: row, corrupt: corrupt}
	if found := row.Values[FormatColumn]; found != format {
		c.err = fmt.Errorf("row %.80q of %.80q has format %.20q; this program knows %q: %w", row.Key, row.Partition, found, format, corrupt)
	}
	return c
}

// Err returns the first error.
func (c *Columns) Err() error { return c.err }

// Fail reports that the value of a column is invalid.
func (c *Columns) Fail(column string) {
	if c.err == nil {
		c.err = fmt.Errorf("row %.80q of %.80q, column %s, value %.80q: %w", c.row.Key, c.row.Partition, column, c.row.Values[column], c.corrupt)
	}
}

// Text returns a value as it is stored.
func (c *Columns) Text(column string) string {
	value, ok := c.row.Values[column]
	if !ok {
		c.Fail(column)
	}
	return value
}

// Time returns a time that [FormatTime] wrote.
func (c *Columns) Time(column string) time.Time {
	text := c.Text(column)
	if text == "" {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		c.Fail(column)
	}
	return t
}

// Count returns a whole number that is not negative.
func (c *Columns) Count(column string) int64 {
	n, err := strconv.ParseInt(c.Text(column), 10, 64)
	if err != nil || n < 0 {
		c.Fail(column)
	}
	return n
}

// Int returns a whole number that is not negative and has at most 31 bits.
func (c *Columns) Int(column string) int {
	n, err := strconv.ParseInt(c.Text(column), 10, 32)
	if err != nil || n < 0 {
		c.Fail(column)
	}
	return int(n)
}

// Float returns a number that is not negative and below 2⁵³.
func (c *Columns) Float(column string) float64 {
	f, err := strconv.ParseFloat(c.Text(column), 64)
	if err != nil || !(f >= 0 && f < 1<<53) {
		c.Fail(column)
	}
	return f
}

// FormatTime returns a time with its fraction, as a value of a column. The zero
// time is "".
func FormatTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}
