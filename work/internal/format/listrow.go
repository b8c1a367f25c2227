package format

import (
	"encoding/json"
	"fmt"

	"kennel/internal/table"
	"kennel/work/internal/model"
)

// finalColumn holds the batch in its rows in the lists after its end, so that a
// list reads no row of a finished batch.
const finalColumn = "batch"

// ListRows returns the writes of the rows of a batch in the lists: at its
// launch, or with the final batch at its end.
func ListRows(d Details, final *model.Batch) []table.Write {
	verb, values := table.Insert, map[string]string{DetailsColumn: d.Text()}
	if final != nil {
		verb = table.Upsert
		text, err := json.Marshal(final)
		if err != nil {
			panic(err) // cannot occur: texts, numbers and times
		}
		values[finalColumn] = string(text)
	}
	return []table.Write{
		{Verb: verb, Row: table.Row{Partition: ListIn, Key: Oldest + d.ID, Values: values}},
		{Verb: verb, Row: table.Row{Partition: ListIn, Key: Newest + Invert(d.ID), Values: values}},
	}
}

// ReadListRow reads a row of a list. final is nil if the batch is not finished.
func ReadListRow(row table.Row) (d Details, final *model.Batch, err error) {
	if d, err = ReadDetails(row.Values[DetailsColumn]); err != nil {
		return d, nil, err
	}
	text, ok := row.Values[finalColumn]
	if !ok {
		return d, nil, nil
	}
	final = new(model.Batch)
	if err := json.Unmarshal([]byte(text), final); err != nil || final.ID != d.ID || final.FinishedAt == nil {
		return d, nil, fmt.Errorf("row %.80q of %.80q, column %s: %w", row.Key, row.Partition, finalColumn, model.ErrCorrupt)
	}
	return d, final, nil
}
