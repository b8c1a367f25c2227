package processors_test

import (
	"context"
	"encoding/json"
	"fmt"

	"kennel/work"
	"kennel/work/processors"
)

func ExampleBilling() {
	item := work.Item{ID: "1", Data: json.RawMessage(
		`{"id":"1","account":"acme","sku":"disk","quantity":"2.5","unitPrice":"0.03","currency":"EUR"}`)}
	result, err := processors.Billing{}.Process(context.Background(), item)
	fmt.Println(string(result), err) // 0.075 is rounded to the even cent

	// Output:
	// {"account":"acme","currency":"EUR","amount":"0.08"} <nil>
}

func ExampleNewWebhook() {
	w, err := processors.NewWebhook([]string{"https://example.com/hooks"}, nil)
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
