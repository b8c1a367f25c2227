package customhandler

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
)

// A path that http.ServeMux would redirect, with an answer of its own, is
// nothing here: every answer is ours, and JSON.
func TestUncleanPaths(t *testing.T) {
	app := New(nil)
	app.HTTP("F", "req", http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), "POST /api/things/{thing}/next")
	for path, want := range map[string]int{
		"/api/things/a/next": 200, "/api/things/.a/next": 200,
		"/api/things/../next": 404, "/api//things/a/next": 404, "/api/./things/a/next": 404, "/api/things//next": 404,
	} {
		w := httptest.NewRecorder()
		app.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "http://h"+path, nil))
		if w.Code != want || want != 200 && !json.Valid(w.Body.Bytes()) {
			t.Errorf("%s: %d %s, want %d in JSON", path, w.Code, w.Body, want)
		}
	}
}
