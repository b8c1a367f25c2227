package queue

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"kennel/internal/table"
)

// maxRowsPage is the length in bytes of an answer with all rows of a claim.
const maxRowsPage = 5 << 20

// claimRows are the claims in a table.
type claimRows struct{ *table.Table }

// rowKeys returns the keys of the rows for so many bytes.
func rowKeys(size int) (keys []string) {
	for begin := 0; begin < size; begin += rowBytes {
		keys = append(keys, strconv.Itoa(len(keys)))
	}
	return keys
}

func (r claimRows) insert(ctx context.Context, key string, content []byte) error {
	var writes []table.Write
	keys := rowKeys(len(content))
	for row := range slices.Chunk(content, rowBytes) {
		values := make(map[string]string)
		for value := range slices.Chunk(row, valueBytes) {
			values[fmt.Sprintf("c%02d", len(values))] = base64.RawStdEncoding.EncodeToString(value)
		}
		writes = append(writes, table.Write{Verb: table.Insert, Row: table.Row{Partition: key, Key: keys[len(writes)], Values: values}})
	}
	_, err := r.Submit(ctx, writes...)
	if errors.Is(err, table.ErrExists) {
		return nil // our own earlier try: no other claim has this key
	}
	return err
}

func (r claimRows) read(ctx context.Context, key string, size int) ([]byte, error) {
	q := table.Query{Partition: key, Top: maxRows + 1, MaxBytes: maxRowsPage}
	var rows []table.Row
	for {
		page, err := r.Query(ctx, q)
		if err != nil {
			return nil, err
		}
		if rows = append(rows, page.Rows...); len(rows) > maxRows {
			return nil, table.ErrLarge
		}
		if page.Next == "" {
			break
		}
		q.After = page.Next
	}
	if len(rows) == 0 {
		return nil, table.ErrNotFound
	}
	content := make([]byte, 0, size)
	for _, row := range rows {
		for _, column := range slices.Sorted(maps.Keys(row.Values)) {
			var err error
			if content, err = base64.RawStdEncoding.AppendDecode(content, []byte(row.Values[column])); err != nil {
				return nil, fmt.Errorf("%w: column %s of its claim: %w", ErrMessage, column, err)
			}
		}
	}
	return content, nil
}

// hasRows reports whether a claim has a row: they are inserted and deleted
// together.
func (r claimRows) has(ctx context.Context, key string) (found bool, err error) {
	q := table.Query{Partition: key, KeysOnly: true, Top: 1}
	for {
		page, err := r.Query(ctx, q)
		if err != nil || len(page.Rows) > 0 || page.Next == "" {
			return len(page.Rows) > 0, err
		}
		q.After = page.Next
	}
}

func (r claimRows) delete(ctx context.Context, partition string, keys []string) error {
	writes := make([]table.Write, len(keys))
	for i, key := range keys {
		writes[i] = table.Write{Verb: table.Delete, Row: table.Row{Partition: partition, Key: key}, If: table.AnyVersion}
	}
	_, err := r.Submit(ctx, writes...)
	if errors.Is(err, table.ErrNotFound) {
		return nil // an earlier try or another process deleted them together
	}
	return err
}
