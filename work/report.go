package work

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
)

// NewReport returns a report for processors without one of their own. As JSON it
// is {"batch","items","done","rejected"}, and "failed" if items failed: how many
// items there are, how many are done, and the id and error of each of the others.
// As CSV it has a row id,outcome,error for each item that is not done. Both are
// in the order of the results.
func NewReport(batch string) Report { return &plainReport{batch: batch} }

type plainReport struct {
	batch string
	items int
	notDone
}

// Add implements [Report].
func (p *plainReport) Add(r Result) error {
	p.items++
	if r.Outcome != ItemDone {
		p.notDone.add(r)
	}
	return nil
}

// JSON implements [Report].
func (p *plainReport) JSON() ([]byte, error) {
	return json.Marshal(struct {
		Batch string `json:"batch"`
		Items int    `json:"items"`
		Done  int    `json:"done"`
		notDoneLists
	}{p.batch, p.items, p.items - len(p.notDone), p.lists()})
}

// CSV implements [Report].
func (p *plainReport) CSV() ([]byte, error) {
	rows := make([][]string, 0, 1+len(p.notDone))
	rows = append(rows, []string{"id", "outcome", "error"})
	for _, r := range p.notDone {
		rows = append(rows, []string{r.ID, string(r.Outcome), r.Error})
	}
	return writeCSV(rows)
}

// notDone is the results of the items that are not done.
type notDone []Result

func (n *notDone) add(r Result) { *n = append(*n, r) }

// notDoneLists is how reports show the items that are not done.
type notDoneLists struct {
	Rejected []itemAndError `json:"rejected"`
	Failed   []itemAndError `json:"failed,omitempty"`
}

type itemAndError struct {
	ID    string `json:"id"`
	Error string `json:"error"`
}

func (n notDone) lists() notDoneLists {
	l := notDoneLists{Rejected: []itemAndError{}}
	for _, r := range n {
		if r.Outcome == ItemFailed {
			l.Failed = append(l.Failed, itemAndError{r.ID, r.Error})
		} else {
			l.Rejected = append(l.Rejected, itemAndError{r.ID, r.Error})
		}
	}
	return l
}

// writeCSV quotes cells as RFC 4180 requires and ends lines with LF, so that a
// program reads exactly the text that was submitted. That includes a cell that
// begins with = + - or @, which a spreadsheet may take for a formula if the file
// is opened and not imported as text. An apostrophe before it would change the
// name of an account, and make a text of a credit.
func writeCSV(rows [][]string) ([]byte, error) {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	if err := w.WriteAll(rows); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
