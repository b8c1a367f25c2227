package api

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"regexp"
)

// amount is what a spreadsheet takes for a number, and not for a formula.
var amount = regexp.MustCompile(`^[+-]?[0-9]+(\.[0-9]+)?$`)

// safeCSV puts an apostrophe before each cell of a CSV that a spreadsheet may
// take for a formula, so that it shows the cell as text.
func safeCSV(text []byte) ([]byte, error) {
	r := csv.NewReader(bytes.NewReader(text))
	r.FieldsPerRecord = -1
	rows, err := r.ReadAll()
	if err != nil {
		return nil, fmt.Errorf("read the stored report: %w", err)
	}
	for _, row := range rows {
		for i, cell := range row {
			if cell != "" && bytes.IndexByte([]byte("=+-@\t\r\n"), cell[0]) >= 0 && !amount.MatchString(cell) {
				row[i] = "'" + cell
			}
		}
	}
	var b bytes.Buffer
	err = csv.NewWriter(&b).WriteAll(rows)
	return b.Bytes(), err
}
