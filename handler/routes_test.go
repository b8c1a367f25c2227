package main

import (
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"kennel/internal/edge"
	"kennel/internal/storetest"
)

// TestRoutesAreStrict sends each route what it does not take, and then what it
// declares. Only the host's own parameters are ignored.
func TestRoutesAreStrict(t *testing.T) {
	storetest.OnlyInProve(t)
	t.Parallel()
	p := shared(t)
	name := storetest.Name()
	value := strings.NewReplacer("{blog}", "20260102T030411.598217007Z-a2cf55bb")
	for _, rt := range appRoutes(t) {
		method, path, _ := strings.Cut(rt.Pattern, " ")
		path = regexp.MustCompile(`\{[a-z]+\}`).ReplaceAllString(value.Replace(path), name)
		p.gate(t, "POST", name+"/release", "") // a wait returns at once
		const allowed = ""
		expect := func(what, code, text, query string, body io.Reader, header ...string) {
			t.Helper()
			status, got, answer := p.call(t, method, path+query, body, header...)
			if rejected := strings.Contains(answer, `"bad_query"`) || strings.Contains(answer, `"bad_body"`) || strings.Contains(answer, `"bad_if_`) || strings.Contains(answer, `"bad_idempotency_key"`); code == allowed && rejected {
				t.Errorf("%s with %s: %d %s, want it allowed", rt.Pattern, what, status, answer)
			}
			if code != allowed && (status != 400 || !strings.Contains(answer, `"code":"`+code+`"`) || !strings.Contains(answer, text) || got.Get("X-Request-Id") == "") {
				t.Errorf("%s with %s: %d %v %s, want 400 %s with %q", rt.Pattern, what, status, got, answer, code, text)
			}
		}
		knows := "This request knows " + edge.AnyOf(rt.Query) + "."
		expect("an unknown parameter", "bad_query", knows, "?other=1", nil)
		expect("an empty unknown parameter", "bad_query", knows, "?code=k&other", nil)
		expect("the host's parameters", allowed, "", "?code=k&CLIENTID=default&clientId=2", nil)
		for _, known := range rt.Query {
			expect(known, allowed, "", "?code=k&"+known+"=!", nil)
			expect(known+" in another case", allowed, "", "?"+strings.ToUpper(known)+"=!", nil)
			if typo := known[:len(known)-1]; !slices.Contains(rt.Query, typo) { // to is no typo of top
				expect(known+" without its last letter", "bad_query", "Did you mean "+known+"?", "?"+typo+"=1", nil)
			}
			expect(known+" twice", "bad_query", "several values for "+known, "?"+known+"=1&"+known+"=1", nil)
			expect(known+" in two cases", "bad_query", "several values for "+known, "?"+known+"=1&"+strings.ToUpper(known)+"=2", nil)
		}
		for header, code := range map[string]string{
			"If-Match": "bad_if_match", "If-None-Match": "bad_if_none_match", "Idempotency-Key": "bad_idempotency_key",
			"If-Modified-Since": "bad_if_modified_since", "If-Unmodified-Since": "bad_if_unmodified_since", "If-Range": "bad_if_range",
		} {
			if slices.Contains(rt.Conditions, header) {
				expect(header, allowed, "", "", nil, header, "*")
				continue
			}
			text := "does not support the header " + header + ". It supports " + edge.AnyOf(rt.Conditions) + "."
			expect(header, code, text, "", nil, header, `"a"`)
			expect("an empty "+header, code, text, "", nil, header, "")
		}
		for what, body := range map[string]io.Reader{"a body": strings.NewReader("{}"), "a chunked body": io.MultiReader(strings.NewReader("{}"))} {
			if rt.Body {
				expect(what, allowed, "", "", body, "Content-Type", "application/json")
			} else {
				expect(what, "bad_body", "This request takes no body.", "", body, "Content-Type", "application/json")
			}
		}
		expect("an empty body", allowed, "", "", http.NoBody)
	}
}
