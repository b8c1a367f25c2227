package parts

import (
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"kennel/internal/edge"
	"kennel/internal/storetest"
)

// foreign are path parameters that must not reach a store as they are; @ stands
// for a valid value. They try to leave the parent of a resource, to end its name
// early, to add to the request, or to name another one in another spelling.
var foreign = []string{
	"..", ".", "%2e%2e", "%2E", "%252e%252e", "%c0%ae%c0%ae", "%e0%80%ae", "%uff0e%uff0e", "%ef%bc%8e%ef%bc%8e",
	"../@", "@/..", "..%2f@", "..%2F..%2F@", "@%2f..", "%2e%2e%2f@", "%252e%252e%252f@", "..%5c@", `..\@`, "@%5c..%5c", "%c0%af@", "%ef%bc%8f@", "%2f@", "%2fetc%2fpasswd", "//@", "@%2f%2e",
	"@%00", "%00@", "@%00.txt", "%00", "@%0d%0aX-Evil:%201", "@%0a", "@%09", "@%7f", "@%c2%85", "@%e2%80%a8",
	"@%3fcomp=acl", "@%23x", "@;a=b", "@%26x", "@%3b", "@%25", "@%", "@%zz", "@%2", "@%u0041",
	"@'", "@')", "@%27%29", "@'%20or%20'a'%20eq%20'a", "@%22", "@%3c", "@*", "@%2a", "@$", "@!", "@%20", "%20@", "%20", "@%a0", "@+", "@:443", "http:%2f%2fevil.example%2f@", "@%40evil.example",
	"%ff", "@%ed%a0%80", "@%f4%90%80%80", "@%c3", "@%e2%80%ae", "@%cc%81", "@%ef%bb%bf",
	strings.Repeat("a", 2049), "@" + strings.Repeat("%2e%2e%2f", 300), strings.Repeat("%c3%a9", 300),
}

// validValues are values that each path parameter accepts.
var validValues = map[string]string{
	"{sequence}": "orders", "{gate}": "hounds", "{channel}": "news", "{blog}": "20260102T030411.598217007Z-a2cf55bb",
	"{batch}": "20261122210601123-aaaaaaaa", "{queue}": "work-0-poison", "{entity}": "orders", "{timer}": "digest",
}

// TestForeignNames: what the path of any route holds, no request to storage
// names anything that the parameter cannot. Only channels may have names like
// these, and their keys are encoded.
func TestForeignNames(t *testing.T) {
	t.Parallel()
	storage := newRecordedStorage(t, nil)
	a := storage.appOn(t, slog.New(slog.DiscardHandler), nil)
	every := storetest.Scale(7, 1) // in the sample, of each form on some routes
	step, calls := 0, 0
	for _, rt := range a.Routes {
		method, pattern, _ := strings.Cut(rt.Pattern, " ")
		for _, parameter := range regexp.MustCompile(`\{\w+\}`).FindAllString(pattern, -1) {
			valid, ok := validValues[parameter]
			if !ok {
				t.Fatalf("%s: add a valid value of %s", rt.Pattern, parameter)
			}
			for _, form := range foreign {
				if step++; step%every != 0 {
					continue
				}
				if rt.Quota != nil {
					*rt.Quota = edge.Quota{}
				}
				path := strings.Replace(pattern, parameter, strings.ReplaceAll(form, "@", valid), 1)
				for other, value := range validValues {
					path = strings.Replace(path, other, value, 1)
				}
				c := rawCall{function: rt.Function, method: method, path: path, body: strictBodies[rt.Pattern], header: map[string]string{"Content-Type": "application/json"}}
				if slices.Contains(rt.Conditions, edge.IfMatch) {
					c.header[edge.IfMatch] = "*"
				}
				for i := range 2 {
					w := c.forwarded(a.Host)
					if i == 1 {
						w = c.enveloped(t, a.Host)
					}
					requests := storage.taken()
					if w == nil {
						continue // net/http rejects it
					}
					calls++
					if parameter == "{channel}" && len(requests) > 0 {
						for _, r := range requests {
							checkChannelRequest(t, path, r)
						}
					} else if w.Code < 400 || w.Code > 499 || len(requests) > 0 {
						t.Errorf("%s %s (in an envelope: %t): %d %.200s after %d requests to storage, want 4xx after none", method, path, i == 1, w.Code, w.Body, len(requests))
					}
					checkAnswerHeader(t, path, w.Header())
				}
			}
		}
	}
	t.Logf("%d calls", calls)
}

// checkChannelRequest checks a request to storage for a channel: it addresses one
// of the tables, by a key that has no sign of an address or a filter.
func checkChannelRequest(t *testing.T, path string, r *http.Request) {
	t.Helper()
	const key = `([^'/\\?#%\x00-\x1f\x7f]+)`
	address := regexp.MustCompile(`^/acc/(Channels|Blogs)(\(\)|\(PartitionKey='` + key + `',RowKey='` + key + `'\))?$`).FindStringSubmatch(r.URL.Path)
	filter := r.URL.Query().Get("$filter")
	filtered := regexp.MustCompile(`^PartitionKey eq '` + key + `'( and RowKey g[et] '` + key + `')?( and RowKey l[et] '` + key + `')?$`).FindStringSubmatch(filter)
	keys := []string{}
	if address != nil && address[3] != "" {
		keys = append(keys, address[3])
	}
	if filtered != nil {
		keys = append(keys, filtered[1])
	}
	if address == nil || (filter != "") != (filtered != nil) || strings.Count(r.URL.EscapedPath(), "/") != 2 || r.URL.Query().Has("comp") || r.Header.Get("X-Evil") != "" {
		t.Errorf("%s causes %s %s", path, r.Method, r.RequestURI)
	}
	for _, key := range keys {
		if key == "." || key == ".." || key == validValues["{channel}"] || key == strings.TrimSpace(key) && key == url.PathEscape(validValues["{channel}"]) {
			t.Errorf("%s causes %s %s, which is another channel", path, r.Method, r.RequestURI)
		}
	}
}

// checkAnswerHeader checks that no value of an answer's header can end its line.
func checkAnswerHeader(t *testing.T, what string, h http.Header) {
	t.Helper()
	for name, values := range h {
		for _, value := range append(values, name) {
			if strings.ContainsAny(value, "\r\n\x00") || strings.EqualFold(name, "X-Evil") {
				t.Errorf("%s: header %q: %q", what, name, value)
			}
		}
	}
}

// TestLineBreaksInHeaders: line breaks in headers and parameters of a call, which
// only an envelope can transport, reach neither the answer nor storage.
func TestLineBreaksInHeaders(t *testing.T) {
	t.Parallel()
	storage := newRecordedStorage(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch { // so that no call is repeated
		case !strings.HasPrefix(r.URL.Path, "/acc/globalflags/"):
			w.WriteHeader(http.StatusForbidden)
		case r.Method == "GET":
			w.Header().Set("x-ms-error-code", "BlobNotFound")
			w.WriteHeader(http.StatusNotFound)
		default:
			w.Header().Set("ETag", `"0x8D"`)
			w.Header().Set("Last-Modified", "Fri, 02 Jan 2026 03:04:05 GMT")
			w.WriteHeader(http.StatusCreated)
		}
	}))
	a := storage.appOn(t, slog.New(slog.DiscardHandler), map[string]string{"WEBSITE_AUTH_ENABLED": "true"})
	const evil = "\r\nX-Evil: 1\r\n\r\nX-Evil: 2"
	for _, rt := range a.Routes {
		method, path, _ := strings.Cut(rt.Pattern, " ")
		if rt.Waits {
			path += "?timeout=1s"
		}
		for parameter, value := range validValues {
			path = strings.Replace(path, parameter, value, 1)
		}
		call := func(query string, header map[string]string) {
			t.Helper()
			if rt.Quota != nil {
				*rt.Quota = edge.Quota{}
			}
			c := rawCall{function: rt.Function, method: method, path: path + query, body: strictBodies[rt.Pattern], header: map[string]string{"Content-Type": "application/json"}}
			if slices.Contains(rt.Conditions, edge.IfMatch) {
				c.header[edge.IfMatch] = "*"
			}
			maps.Copy(c.header, header)
			w := c.enveloped(t, a.Host)
			what := fmt.Sprintf("%s with %s %q", rt.Pattern, query, header)
			checkAnswerHeader(t, what, w.Header())
			for _, r := range storage.taken() {
				if r.Header.Get("X-Evil") != "" {
					t.Errorf("%s causes %s %s %v", what, r.Method, r.RequestURI, r.Header)
				}
			}
			if (query != "" || len(header) == 1) && (w.Code != 400 && w.Code != 415) {
				t.Errorf("%s: %d %s, want 400 or 415", what, w.Code, w.Body)
			}
		}
		for _, name := range rt.Query {
			if name != "continuation" { // one of gates is storage's, and a parameter there too
				call("?"+name+"="+url.QueryEscape("1"+evil), nil)
			}
		}
		for _, name := range edge.Conditions {
			call("", map[string]string{name: `"a` + evil + `"`})
		}
		if rt.Body {
			call("", map[string]string{"Content-Type": "application/json" + evil})
		}
		if rt.Waits || strings.Contains(path, "/doctor") || strings.Contains(path, "/status") {
			continue // they take seconds
		}
		others := map[string]string{"Host": "h" + evil, evil: "a"}
		for _, name := range []string{"Accept", "traceparent", "X-Azure-Functions-InvocationId", "X-MS-CLIENT-PRINCIPAL-NAME", "User-Agent"} {
			others[name] = "text/csv" + evil
		}
		call("", others)
	}
}
