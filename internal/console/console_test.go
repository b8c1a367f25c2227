package console

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"kennel/docs"
	"kennel/internal/storetest"
)

// maxPage is the largest size of all files together, in bytes.
const maxPage = 200 << 10

func serve(t *testing.T, f File, ifNoneMatch ...string) *http.Response {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), "GET", "/api/console/"+string(f), nil)
	r.Header["If-None-Match"] = ifNoneMatch
	r.Header.Set("Range", "bytes=0-1") // a file is sent whole
	w := httptest.NewRecorder()
	f.ServeHTTP(w, r)
	return w.Result()
}

func TestFiles(t *testing.T) {
	size := 0
	for _, f := range Files() {
		text, _ := f.read()
		size += len(text)
		answer := serve(t, f, `"other"`)
		h := answer.Header
		if answer.StatusCode != 200 || h.Get("Content-Type") == "" || h.Get("Content-Security-Policy") != policy || h.Get("Cache-Control") != "no-cache" {
			t.Errorf("%s: %d %v, want 200 with a content type and the policy", f, answer.StatusCode, h)
		}
		if body, err := io.ReadAll(answer.Body); err != nil || string(body) != string(text) {
			t.Errorf("%s: %d bytes, %v, want the %d bytes of the file", f, len(body), err, len(text))
		}
		for _, name := range []string{"Cross-Origin-Opener-Policy", "Cross-Origin-Resource-Policy"} {
			if h.Get(name) != "same-origin" {
				t.Errorf("%s: %s is %q, want same-origin", f, name, h.Get(name))
			}
		}
		if again := serve(t, f, h.Get("ETag")); again.StatusCode != 304 || again.Header.Get("Content-Security-Policy") != policy || again.Header.Get("ETag") != h.Get("ETag") {
			t.Errorf("%s with its ETag: %d %v, want 304", f, again.StatusCode, again.Header)
		}
		w := httptest.NewRecorder()
		if f.Refuse(w, 401); w.Code != 401 || w.Body.String() != string(text) || w.Header().Get("Cache-Control") != "no-store" || w.Header().Get("ETag") != "" {
			t.Errorf("%s refused: %d %v, want 401 with the file, which no cache keeps", f, w.Code, w.Header())
		}
	}
	if !slices.Contains(Files(), Index) {
		t.Errorf("the files lack %s: %v", Index, Files())
	}
	if size > maxPage {
		t.Errorf("the page has %d bytes, more than %d", size, maxPage)
	}
	t.Logf("figure: size of the console's page | %d KB | at most %d KB", size>>10, maxPage>>10)
}

// TestConditions: a browser may know several versions of a file, and what
// compresses the answers makes their ETags weak.
func TestConditions(t *testing.T) {
	etag := serve(t, Index).Header.Get("ETag")
	for _, tt := range []struct {
		header []string
		want   int
	}{
		{nil, 200},
		{[]string{""}, 200},
		{[]string{etag}, 304},
		{[]string{"W/" + etag}, 304},
		{[]string{`"other", W/"another" ,` + etag}, 304},
		{[]string{`"other"`, etag}, 304},
		{[]string{"*"}, 304},
		{[]string{`"other", "another"`}, 200},
		{[]string{strings.Trim(etag, `"`)}, 200},
		{[]string{`"` + etag + `"`}, 200},
	} {
		if got := serve(t, Index, tt.header...); got.StatusCode != tt.want {
			t.Errorf("If-None-Match %q: %d, want %d", tt.header, got.StatusCode, tt.want)
		}
	}
}

// forbidden are what a file must not contain. The policy of the page stops most
// of it in a browser, so it would not work there.
var forbidden = []struct {
	ext  string // of the files; "" means all
	text *regexp.Regexp
	why  string
}{
	{".html", regexp.MustCompile(`(?i)<script[^>]*>[^<]`), "an inline script"},
	{".html", regexp.MustCompile(`(?i)<style|\sstyle\s*=`), "an inline style"},
	{".html", regexp.MustCompile(`(?i)\son[a-z]+\s*=`), "an inline handler"},
	{".svg", regexp.MustCompile(`(?i)<script|\son[a-z]+\s*=|<foreignObject`), "a script"},
	{".js", regexp.MustCompile(`innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|createContextualFragment|srcdoc|\beval\(|new Function|setTimeout\(['"]`), "text that becomes elements or code"},
	{".js", regexp.MustCompile(`\bstyle: '[^']*:|'style'|cssText|\.style *=`), "an inline style"},
	{"", regexp.MustCompile(`(?:https?:)?//[a-z0-9-]+\.[a-z]|@import|url\(`), "an address outside of the app"},
	{"", regexp.MustCompile(`[\x{1F300}-\x{1FAFF}\x{2600}-\x{27BF}]`), "an emoji"},
}

// namespace is a name, although it looks like an address.
const namespace = "http://www.w3.org/2000/svg"

func TestNothingInlineOrOutside(t *testing.T) {
	for _, f := range Files() {
		content, _ := f.read()
		text := strings.ReplaceAll(string(content), namespace, "")
		for _, no := range forbidden {
			if no.ext != "" && no.ext != path.Ext(string(f)) {
				continue
			}
			if found := no.text.FindString(text); found != "" {
				t.Errorf("%s contains %s: %q", f, no.why, found)
			}
		}
	}
	for _, sample := range []struct{ ext, text string }{
		{".html", `<script>x`}, {".html", `<p style="x">`}, {".html", `<p onclick="x">`}, {".svg", `<svg onload="x">`}, {".js", `e.innerHTML = x`},
		{".js", `{ style: 'top: 0' }`}, {".css", `url(x)`}, {".css", `@import "//cdn.example.com/x"`}, {".js", `fetch('https://example.com')`}, {".js", "\U0001F436"},
	} {
		if !slices.ContainsFunc(forbidden, func(no struct {
			ext  string
			text *regexp.Regexp
			why  string
		}) bool {
			return (no.ext == "" || no.ext == sample.ext) && no.text.MatchString(sample.text)
		}) {
			t.Errorf("%q in a file %s is not found", sample.text, sample.ext)
		}
	}
}

// Addresses of files of the page: those that the page and its modules load.
var (
	linked   = regexp.MustCompile(`(?:href|src)="/api/console/([^"]+)"`)
	imported = regexp.MustCompile(`(?:from|import)\s*\(?'(\.[^']+)'`)
)

// TestLinkedFilesExist: each file that another one loads exists, and none is
// left over.
func TestLinkedFilesExist(t *testing.T) {
	used := map[File]bool{Index: true}
	for _, f := range Files() {
		content, _ := f.read()
		for _, link := range linked.FindAllStringSubmatch(string(content), -1) {
			used[File(link[1])] = true
		}
		for _, link := range imported.FindAllStringSubmatch(string(content), -1) {
			used[File(path.Join(path.Dir(string(f)), link[1]))] = true
		}
	}
	for f := range used {
		if !slices.Contains(Files(), f) {
			t.Errorf("%s is loaded and does not exist", f)
		}
	}
	for _, f := range Files() {
		if !used[f] {
			t.Errorf("%s is not loaded by any other file", f)
		}
	}
}

var (
	// address is an address of the API in the page, with its method before it if
	// it is not GET.
	address = regexp.MustCompile("(?:'([A-Z]+)', )?\\bapi`([^`?]*)")
	// unmarked is an address that is not written with the tag api.
	unmarked = regexp.MustCompile("(?:[^.\\w](?:get|call|change)\\((?:'[A-Z]+', )?|\\bpath: (?:\\(\\) => )?)['\"`][a-z].*")
)

var comment = regexp.MustCompile(`(?m)^ *//.*`)

// onlyHere are the routes that exist for the page alone.
var onlyHere = []string{"GET /me"}

// TestAddressesExist: the API has every address that the page uses.
func TestAddressesExist(t *testing.T) {
	var described struct {
		Paths map[string]map[string]any
	}
	if err := yaml.Unmarshal(docs.OpenAPI, &described); err != nil {
		t.Fatal(err)
	}
	known := slices.Clone(onlyHere)
	parameter := regexp.MustCompile(`\$?\{[^}]*\}`)
	for path, item := range described.Paths {
		for method := range item {
			known = append(known, strings.ToUpper(method)+" "+parameter.ReplaceAllString(path, "{}"))
		}
	}
	count := 0
	for _, f := range Files() {
		text, _ := f.read()
		content := comment.ReplaceAll(text, nil)
		if found := unmarked.FindString(string(content)); found != "" {
			t.Errorf("%s: write the address with the tag api: %s", f, found)
		}
		for _, found := range address.FindAllStringSubmatch(string(content), -1) {
			method, path := found[1], found[2]
			if method == "" {
				method = "GET"
			}
			if want := method + " /" + parameter.ReplaceAllString(path, "{}"); !slices.Contains(known, want) {
				t.Errorf("%s uses %s, which the API does not have", f, want)
			}
			count++
		}
	}
	if count < 3 {
		t.Errorf("found %d addresses of the API in the page", count)
	}
}

// parse parses modules without running them.
const parse = `
const vm = require('node:vm'), fs = require('node:fs');
for (const file of process.argv.slice(1)) {
  try {
    new vm.SourceTextModule(fs.readFileSync(file, 'utf8'), { identifier: file });
  } catch (error) {
    console.log(file + ': ' + error.message);
  }
}`

// TestModulesParse: a module with an error in its syntax would be found only
// where a browser loads it.
func TestModulesParse(t *testing.T) {
	storetest.OnlyInProve(t) // it needs Node.js
	arguments := []string{"--no-warnings", "--experimental-vm-modules", "-e", parse, "--"}
	for _, f := range Files() {
		if path.Ext(string(f)) == ".js" {
			arguments = append(arguments, path.Join(root, string(f)))
		}
	}
	if errors, err := exec.CommandContext(t.Context(), "node", arguments...).CombinedOutput(); err != nil || len(errors) > 0 {
		t.Errorf("%v\n%s", err, errors)
	}
}
