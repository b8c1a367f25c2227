package rest

import (
	"encoding/json"
	"encoding/xml"
	"net/http"
	"net/url"
	"sync"
	"testing"
	"time"
)

var now = time.Date(2026, 11, 27, 12, 0, 0, 150, time.UTC)

// No two changes have the same time, whatever the clock does, also after a
// restart.
func TestStampsNeverRepeat(t *testing.T) {
	var s Stamps
	var mu sync.Mutex
	seen := make(map[string]bool)
	take := func(at time.Time) {
		tag := ETag(s.Next(at))
		mu.Lock()
		defer mu.Unlock()
		if seen[tag] {
			t.Errorf("%s twice", tag)
		}
		seen[tag] = true
	}
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			for i := range 500 {
				take(now.Add(time.Duration(i%7-3) * time.Second))
			}
		})
	}
	callers.Wait()
	last := s.Next(now)
	s = Stamps{}
	s.Seen(last)
	s.Seen(last.Add(-time.Hour))
	if next := s.Next(now.Add(-time.Minute)); !next.After(last) {
		t.Errorf("after a restart %v, which is not after %v", next, last)
	}
}

func TestErrorsAsTheSDKsReadThem(t *testing.T) {
	e := Fail(400, "InvalidInput", "One of the %s is <not> valid.", "inputs")
	e.Details = []string{"Reason", `a & b`}
	e.Header = http.Header{"Retry-After": {"1"}}
	r := &Request{ID: "id", Now: now}
	const message = "One of the inputs is <not> valid.\nRequestId:id\nTime:2026-11-27T12:00:00.0000001Z"

	a := e.XML(r)
	var inXML struct {
		XMLName               xml.Name `xml:"Error"`
		Code, Message, Reason string
	}
	if err := xml.Unmarshal(a.Body, &inXML); err != nil || inXML.Code != "InvalidInput" || inXML.Message != message || inXML.Reason != "a & b" {
		t.Errorf("XML %+v, %v", inXML, err)
	}
	if a.Status != 400 || a.Header.Get("x-ms-error-code") != "InvalidInput" || a.Header.Get("Retry-After") != "1" {
		t.Errorf("the answer is %+v", a)
	}

	var inJSON map[string]struct {
		Code    string
		Message struct{ Lang, Value string }
	}
	a = e.JSON(r)
	if err := json.Unmarshal(a.Body, &inJSON); err != nil || inJSON["odata.error"].Code != "InvalidInput" || inJSON["odata.error"].Message.Value != message {
		t.Errorf("JSON %s, %v", a.Body, err)
	}
	if e.Header.Get("Content-Type") != "" {
		t.Error("an answer changed the headers of its error")
	}
}

func TestGrant(t *testing.T) {
	var everything *Grant
	if !everything.May("w") || (&Grant{Permissions: "rl"}).May("w") || !(&Grant{Permissions: "rl"}).May("wl") || (&Grant{Permissions: "rl"}).May("") {
		t.Error("a grant allows what it does not hold, or not what it holds")
	}
}

func TestTimeout(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "0": "", "1": "", "30": "", "31": "", "99999999999999999999": "",
		"-1": "OutOfRangeQueryParameterValue", "-99999999999999999999": "OutOfRangeQueryParameterValue",
		"x": "InvalidQueryParameterValue", "1.5": "InvalidQueryParameterValue", "1s": "InvalidQueryParameterValue",
	} {
		got := ""
		if err := CheckTimeout(url.Values{"timeout": {text}}); err != nil {
			got = err.(*Error).Code
		}
		if got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
