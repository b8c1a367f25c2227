// Package report has the report for processors without one of their own, and what
// other reports share with it.
package report

import (
	"bytes"
	"encoding/csv"
	"encoding/json"

	"kennel/work/internal/model"
)

// New returns a report for processors without one of their own. As JSON it
// is {"batch","items","done","rejected"}, and "failed" if items failed: how many
// items there are, how many are done, and the id and error of each of the others.
// As CSV it has a row id,outcome,error for each item that is not done. Both are
// in the order of the results.
func New(batch string) model.Report { return &plainReport{batch: batch} }

type plainReport struct {
	batch string
	items int
	NotDone
}

// Add implements [Report].
func (p *plainReport) Add(r model.Result) error {
	p.items++
	if r.Outcome != model.ItemDone {
		p.NotDone.Add(r)
	}
	return nil
}

// JSON implements [Report].
func (p *plainReport) JSON() ([]byte, error) {
	return json.Marshal(struct {
		Batch string `json:"batch"`
		Items int    `json:"items"`
		Done  int    `json:"done"`
		NotDoneLists
	}{p.batch, p.items, p.items - len(p.NotDone), p.Lists()})
}

// CSV implements [Report].
func (p *plainReport) CSV() ([]byte, error) {
	rows := make([][]string, 0, 1+len(p.NotDone))
	rows = append(rows, []string{"id", "outcome", "error"})
	for _, r := range p.NotDone {
		rows = append(rows, []string{r.ID, string(r.Outcome), r.Error})
	}
	return WriteCSV(rows)
}

// NotDone is the results of the items that are not done.
type NotDone []model.Result

func (n *NotDone) Add(r model.Result) { *n = append(*n, r) }

// NotDoneLists is how reports show the items that are not done.
type NotDoneLists struct {
	Rejected []itemAndError `json:"rejected"`
	Failed   []itemAndError `json:"failed,omitempty"`
}

type itemAndError struct {
	ID    string `json:"id"`
	Error string `json:"error"`
}

func (n NotDone) Lists() NotDoneLists {
	l := NotDoneLists{Rejected: []itemAndError{}}
	for _, r := range n {
		if r.Outcome == model.ItemFailed {
			l.Failed = append(l.Failed, itemAndError{r.ID, r.Error})
		} else {
			l.Rejected = append(l.Rejected, itemAndError{r.ID, r.Error})
		}
	}
	return l
}

// WriteCSV quotes cells as RFC 4180 requires and ends lines with LF, so that a
// program reads exactly the text that was submitted. That includes a cell that
// begins with = + - or @, which a spreadsheet may take for a formula if the file
// is opened and not imported as text. An apostrophe before it would change the
// name of an account, and make a text of a credit.
func WriteCSV(rows [][]string) ([]byte, error) {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	if err := w.WriteAll(rows); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
