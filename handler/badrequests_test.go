package main

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"kennel/internal/apptest"
	"kennel/internal/edge"
	"kennel/internal/storetest"
)

// TestBadRequests checks each code of a request that cannot be served, with a
// few requests of each kind. The packages of the jobs prove all forms of names,
// texts and continuations, and customhandler those of bodies and envelopes.
func TestBadRequests(t *testing.T) {
	t.Parallel()
	p := shared(t)
	name := storetest.Name()
	sequence, gate := "/api/sequences/orders/next", "/api/gates/"+name
	list, path, letters := "/api/channels", "/api/channels/"+name, "/api/deadletters/"+name+"-poison"
	p.channels(t, "PUT", "/"+name, `{"owner":"ann"}`).expect(t, "create", 201, "")
	posted := p.channels(t, "POST", "/"+name+"/blogs", apptest.Draft)
	posted.expect(t, "post", 201, "")
	blog := path + "/blogs/" + posted.Blog

	long := strings.Repeat("a", 2<<10)
	for _, tt := range []struct {
		method, path, body string
		ifMatch            string
		status             int
		code, text         string
	}{
		{"POST", sequence + "?count=0", "", "", 400, "bad_count", "1 to 10000"},
		{"POST", sequence + "?count=10001", "", "", 400, "bad_count", ""},
		{"POST", sequence + "?count=", "", "", 400, "bad_count", ""},
		{"POST", sequence + "?lease=1", "", "", 400, "bad_lease", "true"},
		{"POST", sequence + "/return", `{"first":1}`, "", 400, "bad_return", "required"},
		{"POST", sequence + "/return", `{"lease":"x"}`, "", 400, "bad_return", "required"},
		{"POST", sequence + "?count=00002", "", "", 400, "bad_count", ""},
		{"POST", sequence + "?count=%2B5", "", "", 400, "bad_count", ""},
		{"POST", sequence + "?count=1.5", "", "", 400, "bad_count", ""},
		{"POST", sequence + "?count=99999999999999999999", "", "", 400, "bad_count", ""},
		{"POST", sequence + "?counts=500", "", "", 400, "bad_query", `"counts" is unknown. Did you mean count? This request knows count, lease.`},
		{"POST", sequence + "?count=5&Count=6", "", "", 400, "bad_query", "several values for count"},
		{"POST", sequence + "?count=5;top=6", "", "", 400, "bad_query", "%3B"},
		{"POST", sequence + "?count=%zz", "", "", 400, "bad_query", "%25"},
		{"POST", sequence, `{"count":500}`, "", 400, "bad_body", "?count=…"},
		{"POST", sequence, "", "*", 400, "bad_if_match", "It supports none."},
		{"POST", "/api/sequences/Orders/next", "", "", 400, "bad_sequence", "lower-case"},
		{"POST", "/api/sequences/a%2Fb/next", "", "", 400, "bad_sequence", ""},
		{"POST", "/api/sequences/" + long[:64] + "/next", "", "", 400, "bad_sequence", "63"},
		{"GET", sequence, "", "", 405, "method_not_allowed", "Allow"},
		{"POST", "/api/sequences/orders", "", "", 405, "method_not_allowed", "Allow"},
		{"GET", "/api/sequences?top=0", "", "", 400, "bad_top", ""},
		{"GET", "/api/sequences/Orders", "", "", 400, "bad_sequence", ""},
		{"GET", "/api/sequences/never-used", "", "", 404, "sequence_not_found", ""},
		{"POST", "/api/sequences/orders/raise", `{}`, "", 400, "bad_raise", "atLeast"},
		{"POST", "/api/sequences/orders/raise", `{"atLeast":-1}`, "", 400, "bad_raise", "atLeast"},
		{"POST", "/api/sequences/orders/raise", `{"atLeast":9007199254740992}`, "", 400, "bad_raise", "9007199254740991"},
		{"POST", "/api/sequences/orders/raise", `{"atLeast":1.5}`, "", 400, "bad_json", ""},
		{"POST", "/api/sequences/orders/raise", `{"atLeast":1,"reason":"` + strings.Repeat("r", 1001) + `"}`, "", 400, "bad_raise", "reason"},
		{"POST", "/NoSuchFunction", "{}", "", 404, "", "NoSuchFunction"},
		{"POST", "/NextOrderId", "{", "", 400, "", ""},
		{"POST", "/NextOrderId", `{"Data":{}}`, "", 400, "", "req"},

		{"GET", "/api/gates?top=0", "", "", 400, "bad_top", "1000"},
		{"GET", "/api/gates?top=1001", "", "", 400, "bad_top", ""},
		{"GET", "/api/gates?top=ten", "", "", 400, "bad_top", ""},
		{"GET", "/api/gates?order=newest", "", "", 400, "bad_query", "top, continuation"},
		{"POST", "/api/gates", "", "", 405, "method_not_allowed", "Allow"},
		{"GET", "/api/gates/Orders", "", "", 400, "bad_gate", "lower-case"},
		{"POST", "/api/gates/a%2Fb/close", "", "", 400, "bad_gate", ""},
		{"GET", gate + "/wait?generation=-1", "", "", 400, "bad_generation", "whole number"},
		{"GET", gate + "/wait?generation=", "", "", 400, "bad_generation", ""},
		{"GET", gate + "/wait?generation=one", "", "", 400, "bad_generation", ""},
		{"GET", gate + "/wait?generation=9007199254740992", "", "", 400, "bad_generation", "9007199254740991"},
		{"GET", gate + "/wait?generation=1%", "", "", 400, "bad_query", "%25"},
		{"GET", gate + "/wait?gen=5", "", "", 400, "bad_query", "Did you mean generation? This request knows generation, timeout."},
		{"GET", gate + "/wait?Timeuot=5s", "", "", 400, "bad_query", "Did you mean timeout?"},
		{"GET", gate + "/wait", "{}", "", 400, "bad_body", "?generation=…&timeout=…"},
		{"POST", gate + "/release?by=ann", "", "", 400, "bad_query", "This request knows none."},
		{"POST", gate + "/release", "{}", `"1"`, 400, "bad_if_match", "none"},
		{"GET", gate + "/wait?timeout=201s", "", "", 400, "bad_timeout", "200s"},
		{"GET", gate + "/wait?timeout=0s", "", "", 400, "bad_timeout", ""},
		{"GET", gate + "/wait?timeout=30", "", "", 400, "bad_timeout", "unit"},
		{"GET", gate + "/wait?timeout=", "", "", 400, "bad_timeout", ""},
		{"POST", gate + "/release", "{", "", 400, "bad_json", ""},
		{"POST", gate + "/release", `{"reson":"x"}`, "", 400, "bad_json", "reson"},
		{"POST", gate + "/release", `{"reason":"` + strings.Repeat("ü", 1001) + `"}`, "", 400, "bad_change", "1000"},
		{"POST", gate + "/release", `{"by":"a\u001bb"}`, "", 400, "bad_change", "control"},
		{"POST", gate + "/close", `{"reason":"` + strings.Repeat("a", 1<<20) + `"}`, "", 413, "body_too_large", ""},
		{"GET", gate + "/release", "", "", 405, "method_not_allowed", "Allow"},
		{"POST", gate, "", "", 405, "method_not_allowed", "Allow"},
		{"GET", gate + "/open", "", "", 404, "not_found", ""},

		{"PUT", list + "/a%2Fb", apptest.Owner, "", 400, "bad_channel", "no /"},
		{"PUT", list + "/" + long, apptest.Owner, "", 400, "bad_channel", "2048"},
		{"GET", list + "/a%2Fb", "", "", 400, "bad_channel", ""},
		{"GET", list + "/a%2Fb/blogs", "", "", 400, "bad_channel", ""},
		{"GET", list + "/a%2Fb/deletion", "", "", 400, "bad_channel", ""},
		{"DELETE", list + "/a%5Cb", "", "", 400, "bad_channel", ""},
		{"POST", list + "/a%0Ab/blogs", apptest.Draft, "", 400, "bad_channel", ""},
		{"GET", path + "/blogs/a%2Fb", "", "", 400, "bad_blog", "invalid"},
		{"DELETE", path + "/blogs/!fence", "", "", 400, "bad_blog", ""},
		{"PUT", path + "/blogs/%23", apptest.Draft, "*", 400, "bad_blog", ""},
		{"GET", path + "/deletion?incarnation=name", "", "", 400, "bad_incarnation", ""},

		{"PUT", path, "", "", 411, "length_required", ""},
		{"PUT", path, `{"ownr":"ann"}`, "", 400, "bad_json", "ownr"},
		{"PUT", path, "{\"owner\":\"\xff\"}", "", 400, "bad_json", "UTF-8"},
		{"PUT", path, `{}`, "", 400, "bad_owner", "missing"},
		{"POST", path + "/blogs", `{"text":"t","userId":"ann"}`, "", 400, "bad_title", ""},
		{"POST", path + "/blogs", `{"title":"t","text":"t"}`, "", 400, "bad_userId", ""},
		{"POST", path + "/blogs", `{"title":"t","text":"` + strings.Repeat("a", 256<<10+1) + `","userId":"ann"}`, "", 400, "bad_text", "262144"},
		{"PUT", blog, apptest.Draft, "", 428, "no_condition", "If-Match"},
		{"PUT", blog, "invalid", "", 428, "no_condition", ""},
		{"PUT", blog, `{}`, "*", 400, "bad_title", ""},
		{"PUT", blog, apptest.Draft, "unquoted", 400, "bad_if_match", "quotes"},
		{"PUT", blog, apptest.Draft, `"` + strings.Repeat("a", 40_000) + `"`, 412, "blog_changed", ""},
		{"DELETE", blog, "", `"` + strings.Repeat("a", 40_000) + `"`, 412, "blog_changed", ""},
		{"DELETE", path, "", `"` + strings.Repeat("a", 40_000) + `"`, 412, "channel_changed", ""},
		{"PUT", blog, apptest.Draft, `"a", "b"`, 400, "bad_if_match", "one"},
		{"DELETE", blog, "", `""`, 400, "bad_if_match", ""},
		{"DELETE", path, "", "unquoted", 400, "bad_if_match", ""},
		{"DELETE", path, "", `*, *`, 400, "bad_if_match", "one"},
		{"DELETE", list + "/never-there", "", `"invalid"`, 412, "channel_changed", ""},
		{"PUT", path, apptest.Owner, "*", 400, "bad_if_match", "It supports If-None-Match. Omit"},
		{"DELETE", blog, "{}", "", 400, "bad_body", "no body"},

		{"GET", list + "?top=0", "", "", 400, "bad_top", "1 to 1000"},
		{"GET", list + "?top=", "", "", 400, "bad_top", ""},
		{"GET", list + "?top=many", "", "", 400, "bad_top", ""},
		{"GET", path + "/blogs?TOP=1001", "", "", 400, "bad_top", ""},

		{"GET", path + "/blogs?order=", "", "", 400, "bad_order", "oldest or newest"},
		{"GET", path + "/blogs?order=Newest", "", "", 400, "bad_order", "oldest or newest"},
		{"GET", path + "/blogs?order=newest&after=!fence", "", "", 400, "bad_after", ""},
		{"GET", path + "/blogs?order=newest&after=", "", "", 400, "bad_after", ""},
		{"GET", path + "/blogs?after=", "", "", 400, "bad_after", ""},
		{"GET", list + "?order=newest", "", "", 400, "bad_query", "unknown"},

		{"GET", "/api/deadletters/work-0", "", "", 400, "bad_queue", "-poison"},
		{"GET", "/api/deadletters/-poison", "", "", 400, "bad_queue", ""},
		{"GET", "/api/deadletters/Work-0-poison", "", "", 400, "bad_queue", "lower-case letters"},
		{"GET", "/api/deadletters/a%2Fb-poison", "", "", 400, "bad_queue", ""},
		{"GET", "/api/deadletters?top=5", "", "", 400, "bad_query", "none"},
		{"DELETE", letters, "", "", 405, "method_not_allowed", "Allow"},
		{"GET", letters + "/redrive", "", "", 405, "method_not_allowed", "Allow"},
		{"POST", letters + "/move", "{}", "", 404, "not_found", ""},
		{"POST", "/api/deadletters/work-0/delete", `{"all":true}`, "", 400, "bad_queue", ""},
		{"POST", letters + "/redrive", "", "", 411, "length_required", ""},
		{"POST", letters + "/redrive", "{}", "", 400, "bad_selection", "either"},
		{"POST", letters + "/delete", `{"all":false,"ids":[]}`, "", 400, "bad_selection", "either"},
		{"POST", letters + "/delete", `{"all":true,"ids":["a"]}`, "", 400, "bad_selection", "either"},
		{"POST", letters + "/delete", `{"ids":["a",""]}`, "", 400, "bad_selection", "ids"},
		{"POST", letters + "/delete", `{"ids":["` + long[:65] + `"]}`, "", 400, "bad_selection", "ids"},
		{"POST", letters + "/delete", `{"ids":["a"` + strings.Repeat(`,"a"`, 1000) + `]}`, "", 400, "bad_selection", "1001"},
		{"POST", letters + "/redrive", `{"all":true,"limit":0}`, "", 400, "bad_selection", "1 to 1000"},
		{"POST", letters + "/redrive", `{"all":true,"limit":1001}`, "", 400, "bad_selection", "1 to 1000"},
		{"POST", letters + "/redrive", `{"all":true,"limit":1.5}`, "", 400, "bad_json", "limit"},
		{"POST", letters + "/redrive", `{"all":true,"ratePerSecond":0}`, "", 400, "bad_selection", "0.1 to 10000"},
		{"POST", letters + "/redrive", `{"all":true,"ratePerSecond":10001}`, "", 400, "bad_selection", "0.1 to 10000"},
		{"POST", letters + "/redrive", `{"all":true,"ratePerSecond":"fast"}`, "", 400, "bad_json", "ratePerSecond"},
		{"POST", letters + "/redrive", `{"all":true,"before":"yesterday"}`, "", 400, "bad_json", ""},
		{"POST", letters + "/redrive", `{"all":true,"before":null}`, "", 400, "bad_json", ""},
		{"POST", letters + "/redrive", `{"every":true}`, "", 400, "bad_json", "every"},
		{"POST", letters + "/redrive", `{"all":true}`, "", 409, "source_missing", "Create the queue"},

		{"POST", list, apptest.Owner, "", 405, "method_not_allowed", "POST"},
		{"PUT", path + "/blogs", apptest.Draft, "", 405, "method_not_allowed", ""},
		{"DELETE", path + "/deletion", "", "", 405, "method_not_allowed", ""},
		{"GET", blog + "/more", "", "", 404, "not_found", ""},
	} {
		t.Run(fmt.Sprintf("%s %.60s %.40q", tt.method, tt.path, tt.body), func(t *testing.T) {
			var header []string
			if tt.ifMatch != "" {
				header = []string{"If-Match", tt.ifMatch}
			}
			var a answer
			status, got, body := p.request(t, tt.method, tt.path, tt.body, &a, header...)
			if status != tt.status || a.Error.Code == "" || tt.code != "" && a.Error.Code != tt.code || a.Error.Message == "" || !strings.Contains(a.Error.Message, tt.text) {
				t.Errorf("got %d %.300s, want %d %s with %q", status, body, tt.status, tt.code, tt.text)
			}
			if first, _, _ := strings.Cut(a.Error.Message, ":"); first == "invalid" {
				t.Errorf("message %q, want it to begin with what is invalid", a.Error.Message)
			}
			if (status == 405) != (got.Get("Allow") != "") || got.Get("Cache-Control") != "no-store" {
				t.Errorf("headers %v", got)
			}
		})
	}
	for _, tt := range []struct {
		method, path, body string
		header             []string
		status             int
		code               string
	}{
		{"PUT", path, apptest.Owner, []string{"Content-Type", "text/plain"}, 415, "unsupported_media_type"},
		{"PUT", path, apptest.Owner, []string{"Content-Type", "application/json;charset=latin1"}, 415, "unsupported_media_type"},
		{"PUT", path, apptest.Owner, []string{"If-None-Match", `"a"`}, 400, "bad_if_none_match"},
		{"PUT", path, apptest.Owner, []string{"If-None-Match", ""}, 400, "bad_if_none_match"},
		{"PUT", blog, apptest.Draft, []string{"If-Match", "*", "If-None-Match", "*"}, 400, "bad_if_none_match"},
		{"POST", path + "/blogs", apptest.Draft, []string{"If-Match", ""}, 400, "bad_if_match"},
		{"POST", path + "/blogs", apptest.Draft, []string{"Idempotency-Key", ""}, 400, "bad_idempotency_key"},
		{"POST", path + "/blogs", apptest.Draft, []string{"Idempotency-Key", "two words"}, 400, "bad_idempotency_key"},
		{"POST", path + "/blogs", apptest.Draft, []string{"Idempotency-Key", long[:129]}, 400, "bad_idempotency_key"},
		{"POST", sequence, "", []string{"Idempotency-Key", "k"}, 400, "bad_idempotency_key"},
		{"POST", gate + "/release", "", []string{"Content-Type", "Application/JSON; charset=utf-8"}, 411, "length_required"},
	} {
		var a answer
		a.status, _, a.body = p.request(t, tt.method, tt.path, tt.body, &a, tt.header...)
		a.expect(t, fmt.Sprint(tt.method, tt.path, tt.header), tt.status, tt.code)
	}

	large := io.MultiReader(strings.NewReader(strings.Repeat(" ", edge.MaxBody+1))) // chunked
	if status, _, body := p.call(t, "PUT", path, large, "Content-Type", "application/json"); status != 413 || !strings.Contains(body, "body_too_large") {
		t.Errorf("large chunked body: %d %s, want 413", status, body)
	}

	// None of that changed anything.
	p.gate(t, "GET", name, "").expectGate(t, "the gate", 200, false, 0)
	p.gate(t, "POST", name+"/close", "", "Content-Type", "application/x-www-form-urlencoded").expectGate(t, "what curl -d '' sends", 200, false, 0)
	if after := p.channels(t, "GET", "/"+name+"/blogs", ""); len(after.Items) != 1 || after.Items[0].ETag != posted.ETag {
		t.Errorf("the blogs are now %s", after.body)
	}
	for _, address := range []string{list, path, blog, path + "/blogs", gate} {
		if status, header, body := p.call(t, "HEAD", address, nil); status != 200 || body != "" || header.Get("Content-Type") != "application/json" {
			t.Errorf("HEAD %s: %d %v %q", address, status, header, body)
		}
	}
}
