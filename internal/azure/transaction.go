package azure

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"kennel/internal/table"
)

// sendAll submits a transaction and parses the answer itself. The service
// answers 202 even if it refuses the transaction; a part of the body then holds
// the reason. aztables 1.4 does not return that reason, nor the new versions.
// It reports success for a body that ends too early, and panics for one without
// a line end.
func (t *Table) sendAll(ctx context.Context, writes []table.Write) ([]string, error) {
	actions := make([]aztables.TransactionAction, len(writes))
	for i, w := range writes {
		data, err := json.Marshal(entity(w))
		if err != nil {
			return nil, err
		}
		actions[i] = aztables.TransactionAction{ActionType: verbs[w.Verb], Entity: data}
		if w.If != "" {
			condition := azcore.ETag(w.If)
			actions[i].IfMatch = &condition
		}
	}
	var answer *http.Response
	began := time.Now()
	err := t.submit(policy.WithCaptureResponse(t.once.context(ctx), &answer), actions)
	if answer == nil || answer.StatusCode != http.StatusAccepted {
		if err = answered(ctx, err); err == nil {
			err = errors.New("the answer is not the answer to a transaction")
		}
		return nil, err
	}
	body, err := runtime.Payload(answer)
	if err != nil {
		return nil, answered(ctx, err)
	}
	versions, err := readAnswers(answer.Header.Get("Content-Type"), body, len(writes))
	if t.once.observed != nil {
		t.once.observed.answered(answer.Request.WithContext(t.once.context(ctx)), began, err)
	}
	for i, version := range versions {
		if version == "" && writes[i].Verb != table.Delete {
			return nil, fmt.Errorf("the answer for row %d has no ETag", i)
		}
	}
	if refusal, ok := errors.AsType[*Error](err); ok && refusal.RequestID == "" {
		refusal.RequestID = answer.Header.Get("x-ms-request-id")
	}
	return versions, err
}

var verbs = map[table.Verb]aztables.TransactionType{
	table.Insert:  aztables.TransactionTypeAdd,
	table.Merge:   aztables.TransactionTypeUpdateMerge,
	table.Replace: aztables.TransactionTypeUpdateReplace,
	table.Delete:  aztables.TransactionTypeDelete,
	table.Upsert:  aztables.TransactionTypeInsertReplace,
}

// submit returns panics of aztables as errors. It panics on some answers that
// it cannot parse.
func (t *Table) submit(ctx context.Context, actions []aztables.TransactionAction) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("read the answer: %v", p)
		}
	}()
	_, err = t.client.SubmitTransaction(ctx, actions, nil)
	return err
}

// readAnswers parses a multipart answer to n writes. It returns the new
// versions of all rows, or the refusal of the transaction. After any other
// error the outcome is unknown.
func readAnswers(contentType string, body []byte, n int) ([]string, error) {
	parts, err := splitParts(contentType, body)
	if err != nil || len(parts) != 1 {
		return nil, unreadable(err)
	}
	if strings.HasPrefix(parts[0].contentType, "multipart/") { // a refusal may have no change set
		if parts, err = splitParts(parts[0].contentType, parts[0].body); err != nil {
			return nil, unreadable(err)
		}
	}
	versions := make([]string, 0, len(parts))
	var reader bufio.Reader // one for all: its buffer is larger than most parts
	for _, part := range parts {
		reader.Reset(bytes.NewReader(part.body))
		answer, err := http.ReadResponse(&reader, nil)
		if err != nil {
			return nil, unreadable(err)
		}
		if answer.StatusCode >= http.StatusBadRequest {
			return nil, readRefusal(answer)
		}
		answer.Body.Close()
		versions = append(versions, answer.Header.Get("ETag"))
	}
	if len(versions) != n {
		return nil, fmt.Errorf("the answer to a transaction of %d rows is for %d rows", n, len(versions))
	}
	return versions, nil
}

// readRefusal parses the part for the row that made a transaction fail.
func readRefusal(answer *http.Response) error {
	defer answer.Body.Close()
	refusal := &Error{Status: answer.StatusCode, RequestID: answer.Header.Get("x-ms-request-id")}
	var body struct {
		Error struct {
			Code    string
			Message struct{ Value string }
		} `json:"odata.error"`
	}
	data, err := io.ReadAll(io.LimitReader(answer.Body, 64<<10))
	if err == nil && json.Unmarshal(data, &body) == nil {
		refusal.Code = body.Error.Code
		if row, _, ok := strings.Cut(body.Error.Message.Value, ":"); ok && len(row) <= 2 {
			return fmt.Errorf("row %s: %w", row, refusal)
		}
	}
	return refusal
}

type part struct {
	contentType string
	body        []byte
}

// splitParts splits a multipart body. It requires the closing boundary, so that
// it rejects a truncated answer.
func splitParts(contentType string, body []byte) ([]part, error) {
	kind, parameters, err := mime.ParseMediaType(contentType)
	if err != nil || !strings.HasPrefix(kind, "multipart/") {
		return nil, fmt.Errorf("content type %.80q is not multipart", contentType)
	}
	reader := multipart.NewReader(bytes.NewReader(body), parameters["boundary"])
	var parts []part
	for {
		p, err := reader.NextRawPart()
		if err == io.EOF {
			return parts, nil
		}
		if err != nil {
			return nil, err
		}
		data, err := io.ReadAll(p)
		if err != nil {
			return nil, err
		}
		parts = append(parts, part{p.Header.Get("Content-Type"), data})
	}
}

func unreadable(err error) error {
	if err == nil {
		return errors.New("the answer to a transaction does not have exactly one change set")
	}
	return fmt.Errorf("read the answer to a transaction: %w", err)
}
