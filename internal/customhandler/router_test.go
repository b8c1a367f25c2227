package customhandler

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"testing"
)

// http.ServeMux would redirect a path with empty or dot segments, and not in
// JSON. The router answers 404 instead.
func TestUncleanPaths(t *testing.T) {
	app := newApp(t, Options{})
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

func TestCanonicalPath(t *testing.T) {
	rt := newRouter()
	for _, pattern := range []string{"GET /api/batches/status", "GET /api/batches/{batch}", "GET /api/console/{path...}", "/api/files/", "/api/only/{$}"} {
		rt.handle(pattern, http.NotFoundHandler())
	}
	for path, want := range map[string]string{
		"/API/Batches/B1":           "/api/batches/B1",
		"/api/batches/B1/":          "/api/batches/B1",
		"/api/batches/STATUS":       "/api/batches/status", // the more specific one
		"/api/batches/a%2FB":        "/api/batches/a%2FB",
		"/API/Console/Css/Site.css": "/api/console/Css/Site.css",
		"/api/CONSOLE":              "/api/console/",
		"/api/Files/A/b/":           "/api/files/A/b/",
		"/api/ONLY":                 "/api/only/",
		"/api/only/this":            "",
		"/api/batches":              "",
		"/api/batches/":             "",
		"/api/batches/b/c":          "",
	} {
		if got, ok := rt.canonical(path); got != want || ok != (want != "") {
			t.Errorf("canonical(%q) = %q, %v, want %q", path, got, ok, want)
		}
	}
}
