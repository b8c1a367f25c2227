package work_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"kennel/work"
)

// Shout is a processor: it returns the text of each item in capitals.
type Shout struct{}

type shoutItem struct {
	ID   string `json:"id"`
	Text string `json:"text"`
}

// Validate sees each item when the batch is submitted. Its error is an answer
// 400, and nothing is queued.
func (Shout) Validate(item json.RawMessage) error {
	var i shoutItem
	if err := json.Unmarshal(item, &i); err != nil {
		return fmt.Errorf("the item is not like {\"id\",\"text\"}: %w", err)
	}
	if i.Text == "" {
		return errors.New("text is missing")
	}
	return nil
}

// Process may run more than once for an item.
func (Shout) Process(ctx context.Context, item work.Item) (json.RawMessage, error) {
	var i shoutItem
	if err := json.Unmarshal(item.Data, &i); err != nil {
		return nil, fmt.Errorf("%w: %w", work.ErrRejected, err)
	}
	if strings.ToUpper(i.Text) == i.Text {
		return nil, fmt.Errorf("%w: text is in capitals already", work.ErrRejected)
	}
	return json.Marshal(map[string]string{"text": strings.ToUpper(i.Text)})
}

// NewReport uses the report for processors without one of their own.
func (Shout) NewReport(batch string) work.Report { return work.NewReport(batch) }

// A third processor: one type, and one line that gives it a name.
func ExampleProcessor() {
	processors := map[string]work.Processor{
		"billing": work.Billing{},
		"shout":   Shout{}, // the line
	}

	p := processors["shout"]
	fmt.Println(p.Validate(json.RawMessage(`{"id":"1"}`)))
	report := p.NewReport("batch")
	for _, item := range []work.Item{
		{ID: "1", Data: json.RawMessage(`{"id":"1","text":"hello"}`)},
		{ID: "2", Data: json.RawMessage(`{"id":"2","text":"HELLO"}`)},
	} {
		result, err := p.Process(context.Background(), item)
		if err != nil {
			report.Add(work.Result{ID: item.ID, Outcome: work.ItemRejected, Error: err.Error()})
			continue
		}
		fmt.Println(string(result))
		report.Add(work.Result{ID: item.ID, Outcome: work.ItemDone, Result: result})
	}
	text, err := report.JSON()
	fmt.Println(string(text), err)

	// Output:
	// text is missing
	// {"text":"HELLO"}
	// {"batch":"batch","items":2,"done":1,"rejected":[{"id":"2","error":"rejected: text is in capitals already"}]} <nil>
}

func ExampleBilling() {
	item := work.Item{ID: "1", Data: json.RawMessage(
		`{"id":"1","account":"acme","sku":"disk","quantity":"2.5","unitPrice":"0.03","currency":"EUR"}`)}
	result, err := work.Billing{}.Process(context.Background(), item)
	fmt.Println(string(result), err) // 0.075 is rounded to the even cent

	// Output:
	// {"account":"acme","currency":"EUR","amount":"0.08"} <nil>
}

func ExampleNewWebhook() {
	w, err := work.NewWebhook([]string{"https://example.com/hooks"}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(w.Validate(json.RawMessage(`{"id":"1","url":"https://example.com/hooks/orders","body":{"order":1001}}`)))
	fmt.Println(w.Validate(json.RawMessage(`{"id":"2","url":"https://example.com/hooks/../admin","body":{}}`)))

	// Output:
	// <nil>
	// url has a path with . or .. or a backslash
}
