// Package console holds the page through which people watch and operate the
// app: HTML, CSS and JavaScript as a browser reads them, embedded in the
// binary. The page calls the API of the app and nothing else. It has no data
// and no secrets of its own, so it is the same for every caller. The API
// decides about the rights of a caller.
//
// docs/console.md describes the parts of the page and how a view is written.
package console

import (
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"io/fs"
	"net/http"
	"path"
	"strings"
)

//go:embed page
var page embed.FS

// root is the folder of the files.
const root = "page"

// Index is the name of the file that is the page itself.
const Index = "index.html"

// types are the content types by the extension of a file. All are text: an
// envelope of the Functions host cannot carry anything else.
var types = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

// policy is the Content-Security-Policy: scripts, styles and calls of this app
// only, and nothing inline.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// A File is a file of the page: its path below the address of the page. It
// serves itself.
type File string

// Files returns all files.
func Files() (files []File) {
	fs.WalkDir(page, root, func(name string, entry fs.DirEntry, _ error) error { // embedded files cannot fail
		if !entry.IsDir() {
			files = append(files, File(name[len(root)+1:]))
		}
		return nil
	})
	return files
}

// ServeHTTP answers with the file, or with 304 if the browser has it. A browser
// asks every time, because the file changes with the version of the app, and
// its address does not.
func (f File) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	text, etag := f.read()
	f.describe(w.Header())
	w.Header().Set("ETag", etag)
	if has(r.Header.Values("If-None-Match"), etag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	w.Write(text)
}

// has reports whether a header If-None-Match, a list, has an ETag. It may be
// weak there, because a proxy that compresses the answer marks it so.
func has(ifNoneMatch []string, etag string) bool {
	for _, list := range ifNoneMatch {
		for known := range strings.SplitSeq(list, ",") { // our own tags have no comma
			if known = strings.TrimSpace(known); known == "*" || strings.TrimPrefix(known, "W/") == etag {
				return true
			}
		}
	}
	return false
}

// Refuse answers with the file and the status of an error. The page shows the
// API's answers, so a person learns the reason from it.
func (f File) Refuse(w http.ResponseWriter, status int) {
	text, _ := f.read()
	f.describe(w.Header())
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	w.Write(text)
}

func (f File) read() (text []byte, etag string) {
	text, err := page.ReadFile(path.Join(root, string(f)))
	if err != nil {
		panic(err) // the file is not one of Files
	}
	sum := sha256.Sum256(text)
	return text, `"` + base64.RawURLEncoding.EncodeToString(sum[:12]) + `"`
}

func (f File) describe(h http.Header) {
	h.Set("Content-Type", types[path.Ext(string(f))])
	h.Set("Content-Security-Policy", policy)
	h.Set("Cache-Control", "no-cache")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
}
