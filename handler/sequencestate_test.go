package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"

	"kennel/ids"
	"kennel/internal/api"
	"kennel/internal/apptest"
	"kennel/internal/azure"
	"kennel/internal/names"
	"kennel/internal/storetest"
)

// numbers calls POST …/next and returns the first number, or the error code.
func (p *process) numbers(t *testing.T, sequence string, count int) (first int64, code string) {
	t.Helper()
	_, _, body := p.call(t, "POST", fmt.Sprintf("/api/sequences/%s/next?count=%d", sequence, count), nil)
	var a struct {
		First int64
		Error struct{ Code string }
	}
	if err := json.Unmarshal([]byte(body), &a); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return a.First, a.Error.Code
}

func (p *process) raise(t *testing.T, sequence string, body string) (status int, answer api.RaisedState, text string) {
	t.Helper()
	status, _, text = p.call(t, "POST", "/api/sequences/"+sequence+"/raise", strings.NewReader(body), "Content-Type", "application/json")
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return status, answer, text
}

// A sequence whose blob is deleted stops in every instance, is not begun again,
// and goes on above every number after a raise.
func TestDeletedSequence(t *testing.T) {
	t.Parallel()
	a, b := start(t, built.handler, withStorage(t), "KENNEL_RANGE_SIZE=20", "KENNEL_RANGE_LASTS=1s"), start(t, built.handler, withStorage(t))
	name := storetest.Name()
	issued := make(map[int64]bool)
	draw := func(p *process) string {
		t.Helper()
		n, code := p.numbers(t, name, 1)
		if code == "" && issued[n] {
			t.Fatalf("%d was issued twice", n)
		}
		issued[n] = true
		return code
	}
	for range 3 {
		if code := draw(a); code != "" {
			t.Fatal(code)
		}
	}
	client, err := azblob.NewClientFromConnectionString(storetest.Storage(t).ConnectionString(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.DeleteBlob(t.Context(), names.SequencesContainer, name, nil); err != nil {
		t.Fatal(err)
	}
	if code := draw(b); code != "sequence_missing" {
		t.Errorf("a new instance: %q, want sequence_missing", code)
	}
	if status, _, body := b.call(t, "GET", "/api/sequences/"+name, nil); status != 500 || !strings.Contains(body, "sequence_missing") {
		t.Errorf("its state: %d %s", status, body)
	}
	code := ""
	for i := 0; i < 10_000 && code == ""; i++ {
		code = draw(a)
	}
	if code != "sequence_missing" {
		t.Errorf("the instance that used it: %q, want sequence_missing after what it had available", code)
	}
	// What is to be done names a number above all that were issued.
	var last int64
	for n := range issued {
		last = max(last, n)
	}
	_, _, state := a.call(t, "GET", "/api/sequences/"+name, nil)
	_, _, status := a.call(t, "GET", "/api/status", nil)
	for where, text := range map[string]string{"state": state, "status": status} {
		_, rest, _ := strings.Cut(text, "`kennel sequences raise "+name+" --at-least ")
		number, _, found := strings.Cut(rest, "`")
		if n, err := strconv.ParseInt(number, 10, 64); !found || err != nil || n <= last {
			t.Errorf("the command in the %s raises to %q, want more than %d: %s", where, number, last, text)
		}
	}
	if status, _, body := a.raise(t, name, `{"atLeast":5}`); status != 409 || !strings.Contains(body, "raise_too_low") {
		t.Errorf("a raise below what was issued: %d %s", status, body)
	}
	if status, answer, body := b.raise(t, name, `{"atLeast":1000000,"reason":"it was deleted"}`); status != 200 || answer.Next != 1_000_000 || !answer.Changed {
		t.Errorf("a raise: %d %s", status, body)
	}
	for _, p := range []*process{a, b, a} {
		if n, code := p.numbers(t, name, 1); code != "" || n < 1_000_000 || issued[n] {
			t.Errorf("after the raise: %d %s, want a new number above it", n, code)
		} else {
			issued[n] = true
		}
	}

	// An older copy is noticed by the instance that has seen a higher number.
	store := azure.NewSequences(apptest.OpenBlobs(t), names.SequencesContainer)
	for range 30 {
		draw(a)
	}
	for { // the instance may be reserving
		mark, err := store.Load(t.Context(), name, "")
		if err != nil {
			t.Fatal(err)
		}
		older := mark
		older.Text = "1000001"
		if _, err = store.Replace(t.Context(), name, mark, older); err == nil {
			break
		}
		if !errors.Is(err, ids.ErrChanged) {
			t.Fatal(err)
		}
	}
	code = ""
	for i := 0; i < 1000 && code == ""; i++ {
		_, code = a.numbers(t, name, 1000) // more than it has available, soon
	}
	if code != "sequence_corrupt" {
		t.Errorf("after the restore of an older copy: %q, want sequence_corrupt", code)
	}
}

func TestSequenceList(t *testing.T) {
	p := shared(t)
	name := storetest.Name()
	all := []string{name + ".a", name + ".b", name + ".c"}
	for i, n := range all {
		if _, code := p.numbers(t, n, i+1); code != "" {
			t.Fatal(code)
		}
	}
	corrupt := name + ".d"
	store := azure.NewSequences(apptest.OpenBlobs(t), names.SequencesContainer)
	if _, err := store.Replace(t.Context(), corrupt, ids.Value{}, ids.Value{Text: "12x"}); err != nil {
		t.Fatal(err)
	}
	found := make(map[string]api.SequenceItem)
	for path := "/api/sequences?top=2"; ; {
		var page struct {
			Items        []api.SequenceItem
			Continuation string
		}
		status, _, body := p.call(t, "GET", path, nil)
		if err := json.Unmarshal([]byte(body), &page); err != nil || status != 200 || len(page.Items) > 2 {
			t.Fatalf("%d %s", status, body)
		}
		for _, item := range page.Items {
			found[item.Sequence] = item
		}
		if page.Continuation == "" {
			break
		}
		path = "/api/sequences?top=2&continuation=" + page.Continuation
	}
	for _, n := range all {
		if item := found[n]; item.Next == nil || *item.Next <= 3 || item.UpdatedAt.IsZero() {
			t.Errorf("%s: %+v, want it above 3", n, item)
		}
	}
	if item, ok := found[corrupt]; !ok || item.Next != nil {
		t.Errorf("a corrupt sequence: %+v, want it without a number", item)
	}

	status, _, body := p.call(t, "GET", "/api/sequences/"+all[2], nil)
	var state api.SequenceState
	if err := json.Unmarshal([]byte(body), &state); err != nil || status != 200 || state.Next <= 3 || len(state.Instances) != 1 ||
		state.Instances[0].Highest != state.Next-1 || state.Instances[0].Available != state.Next-4 {
		t.Errorf("state of a sequence: %d %s", status, body)
	}
	if status, answer, body := p.raise(t, all[2], `{"atLeast":10}`); status != 200 || answer.Changed || answer.Next != state.Next {
		t.Errorf("a raise that changes nothing: %d %s", status, body)
	}
	if status, answer, body := p.raise(t, corrupt, `{"atLeast":10}`); status != http.StatusInternalServerError {
		t.Errorf("a raise of a corrupt sequence: %d %s", status, body)
	} else if status, answer, body = p.raise(t, corrupt, `{"atLeast":10,"force":true}`); status != 200 || !answer.Changed || answer.Next != 10 {
		t.Errorf("a forced raise of a corrupt sequence: %d %s", status, body)
	}
}

// Only the sequences that the settings allow are served.
func TestAllowedSequences(t *testing.T) {
	t.Parallel()
	name := storetest.Name()
	p := start(t, built.handler, withStorage(t), "KENNEL_SEQUENCES="+name+"-*, x")
	if n, code := p.numbers(t, name+"-orders", 1); n != 1 || code != "" {
		t.Errorf("an allowed sequence: %d %s", n, code)
	}
	if _, code := p.numbers(t, name, 1); code != "bad_sequence" {
		t.Errorf("another sequence: %q, want bad_sequence", code)
	}
}
