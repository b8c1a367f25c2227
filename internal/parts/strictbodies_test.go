package parts

import (
	"fmt"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kennel/internal/apptest"
	"kennel/internal/edge"
)

// anyBodies are the routes whose body is sent as it is.
var anyBodies = []string{"POST /api/messages/{entity}", "POST /api/queues/{queue}/messages"}

// leaseReturn is the route with a body that needs no storage.
const leaseReturn = "POST /api/sequences/{sequence}/next/return"

// strictBodies are the routes that take a body of JSON, with one that each
// accepts.
var strictBodies = map[string]string{
	leaseReturn:                                `{"lease":"x","first":5}`,
	"POST /api/sequences/{sequence}/raise":     `{"atLeast":5}`,
	"POST /api/gates/{gate}/release":           `{"by":"ann"}`,
	"POST /api/gates/{gate}/close":             `{"by":"ann"}`,
	"PUT /api/channels/{channel}":              `{"owner":"ann"}`,
	"POST /api/channels/{channel}/blogs":       apptest.Draft,
	"PUT /api/channels/{channel}/blogs/{blog}": apptest.Draft,
	"POST /api/deadletters/{queue}/redrive":    `{"all":true}`,
	"POST /api/deadletters/{queue}/delete":     `{"all":true}`,
	"PUT /api/scale/rules":                     `{"version":1,"depth":[{"from":0,"hands":8}]}`,
	"POST /api/batches":                        apptest.Item(1),
	"POST /api/queues/{queue}/pause":           `{"by":"ann"}`,
	"POST /api/queues/{queue}/resume":          `{"by":"ann"}`,
	"POST /api/timers/{timer}/pause":           `{"by":"ann"}`,
	"POST /api/timers/{timer}/resume":          `{"by":"ann"}`,
}

// TestBodiesAreStrict: no route accepts a body that two readers may take for
// different things, or that takes a reader long. Storage is silent, so the
// answer comes before any request to it.
func TestBodiesAreStrict(t *testing.T) {
	for _, rt := range routes(t) {
		valid, ok := strictBodies[rt.Pattern]
		if ok != (rt.Body && !slices.Contains(anyBodies, rt.Pattern)) {
			t.Errorf("%s takes a body: %t; add it to strictBodies, or remove it", rt.Pattern, rt.Body)
		}
		if !ok {
			continue
		}
		inner := valid[1 : len(valid)-1]
		name, value, _ := strings.Cut(strings.SplitAfterN(inner, ",", 2)[0], ":")
		value = strings.TrimSuffix(value, ",")
		nested := strings.Repeat("[", 33) + strings.Repeat("]", 33)
		bodies := map[string]string{
			"a member twice":                      "{" + inner + "," + name + ":" + value + "}",
			"a member twice, with an escape":      "{" + inner + `,"\u00` + fmt.Sprintf("%x", name[1]) + name[2:] + ":" + value + "}",
			"a member in another case":            "{" + strings.ToUpper(name) + ":" + value + "," + inner + "}",
			"an unknown member":                   "{" + inner + `,"unknown":1}`,
			"an unknown member with equal ones":   "{" + inner + `,"unknown":{"a":1,"a":2}}`,
			"a deep member":                       "{" + inner + `,"x":` + nested + "}",
			"a vast depth":                        strings.Repeat(`{"x":`, 100_000),
			"text after it":                       valid + " x",
			"another value after it":              valid + valid,
			"a comma at its end":                  "{" + inner + ",}",
			"a cut":                               "{" + inner,
			"a comment":                           "{" + inner + "/**/}",
			"null":                                "null",
			"an array":                            "[[]]",
			"a text":                              `"` + strings.ReplaceAll(valid, `"`, `\"`) + `"`,
			"bytes that are not UTF-8":            "{" + inner + ",\"x\":\"\xff\"}",
			"overlong UTF-8":                      "{" + inner + ",\"x\":\"\xc0\xaf\"}",
			"a number that is none":               "{" + inner + `,"x":NaN}`,
			"names in single quotes":              strings.ReplaceAll(valid, `"`, "'"),
			"a mark of UTF-16":                    "\xff\xfe" + valid,
			"another value after it, on its line": valid + ",",
		}
		synctest.Test(t, func(t *testing.T) {
			host, blog := silentApp(t, false)
			method, path, _ := strings.Cut(rt.Pattern, " ")
			path = strings.NewReplacer("{sequence}", "orders", "{gate}", "hounds", "{channel}", "news", "{blog}", blog, "{queue}", "work-0-poison", "{timer}", "digest").Replace(path)
			path = strings.Replace(path, "/queues/work-0-poison", "/queues/emails", 1)
			codes := []string{"bad_json"}
			switch path {
			case "/api/scale/rules": // it names the row of an unknown member
				codes = append(codes, "bad_rules")
			case "/api/batches": // it names the line
				path, codes = path+"?processor=billing", []string{"bad_items"}
			default:
				bodies["too many bytes"] = valid + strings.Repeat(" ", edge.MaxBody)
			}
			send := func(body string) *httptest.ResponseRecorder {
				if strings.Contains(path, "/batches") {
					body = "[" + body + "]"
				}
				r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
				r.Header.Set("Content-Type", "application/json")
				if method == "PUT" && strings.Contains(path, "/blogs/") {
					r.Header.Set("If-Match", "*")
				}
				w := httptest.NewRecorder()
				host.ServeHTTP(w, r)
				return w
			}
			for what, body := range bodies {
				began := time.Now()
				w := send(body)
				rejected := w.Code == 413 && strings.Contains(w.Body.String(), "body_too_large") && len(body) > edge.MaxBody
				for _, code := range codes {
					rejected = rejected || w.Code == 400 && strings.Contains(w.Body.String(), `"code":"`+code+`"`)
				}
				if !rejected || time.Since(began) > 0 {
					t.Errorf("%s with %s (%.80s): %d %s after %v, want 400 %v", rt.Pattern, what, body, w.Code, w.Body, time.Since(began), codes)
				}
			}
			if w := send(valid); w.Code != 503 && (rt.Pattern != leaseReturn || w.Code != 200) {
				t.Errorf("%s with a valid body: %d %s, want 503, because storage is silent", rt.Pattern, w.Code, w.Body)
			}
		})
	}
}
