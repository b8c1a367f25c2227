package table

import (
	"errors"
	"strings"
	"testing"
	"time"
)

var errCorrupt = errors.New("corrupt")

func TestColumns(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC)
	row := Row{Partition: "p", Key: "k", Values: map[string]string{
		FormatColumn: "1", "text": "a", "empty": "", "time": FormatTime(at), "zero": FormatTime(time.Time{}), "count": "9007199254740993", "int": "7", "float": "0.5",
		"negative": "-1", "word": "x", "infinite": "Inf",
	}}
	c := ReadColumns(row, "1", errCorrupt)
	if c.Text("text") != "a" || c.Text("empty") != "" || !c.Time("time").Equal(at) || !c.Time("zero").IsZero() ||
		c.Count("count") != 9007199254740993 || c.Int("int") != 7 || c.Float("float") != 0.5 || c.Err() != nil {
		t.Errorf("read %+v: %v", row.Values, c.Err())
	}
	for column, read := range map[string]func(*Columns, string){
		"missing":  func(c *Columns, column string) { c.Text(column) },
		"word":     func(c *Columns, column string) { c.Time(column) },
		"negative": func(c *Columns, column string) { c.Count(column) },
		"empty":    func(c *Columns, column string) { c.Count(column) },
		"count":    func(c *Columns, column string) { c.Int(column) },
		"infinite": func(c *Columns, column string) { c.Float(column) },
		"text":     func(c *Columns, column string) { c.Fail(column) },
	} {
		c := ReadColumns(row, "1", errCorrupt)
		read(c, column)
		c.Text("other") // is not the first error
		if err := c.Err(); !errors.Is(err, errCorrupt) || !strings.Contains(err.Error(), "column "+column+",") {
			t.Errorf("column %s: %v", column, err)
		}
	}
	c = ReadColumns(row, "2", errCorrupt)
	c.Text("missing")
	if err := c.Err(); !errors.Is(err, errCorrupt) || !strings.Contains(err.Error(), `has format "1"; this program knows "2"`) {
		t.Errorf("another format: %v", err)
	}
}
