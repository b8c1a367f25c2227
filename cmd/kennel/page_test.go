//go:build unix

package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// walk goes through a page of the documents as its reader does: it carries out
// its commands in the folder that they lead to, adds its code to the program
// there, and waits for the lines that the program logs.
type walk struct {
	ts   *testscript.TestScript
	dir  string
	run  *upRun              // the program; nil before "make run"
	code map[string][]string // blocks that were not written yet, by file
}

// pageBlock is a block of a page that the walk carries out.
var pageBlock = regexp.MustCompile("(?m)^```(console|go|text)\n((?s:.*?))^```")

func walkPage(ts *testscript.TestScript, _ bool, args []string) {
	page, err := os.ReadFile(filepath.Join("..", "..", args[0]))
	ts.Check(err)
	w := walk{ts: ts, dir: ts.MkAbs("."), code: make(map[string][]string)}
	for _, m := range pageBlock.FindAllStringSubmatch(string(page), -1) {
		kind, text := m[1], m[2]
		if kind == "go" {
			w.add(text)
			continue
		}
		w.save()
		if kind == "console" {
			w.carryOut(text)
			continue
		}
		for line := range strings.Lines(text) {
			w.run.await(ts, regexp.MustCompile(regexp.QuoteMeta(strings.TrimSpace(line))))
		}
	}
}

// add keeps a block for the next save: a test for main_test.go, all else for
// main.go.
func (w *walk) add(block string) {
	file := "main.go"
	if strings.HasPrefix(block, "func Test") {
		file = "main_test.go"
	}
	w.code[file] = append(w.code[file], block)
}

// save writes the blocks, and waits until the program runs again.
func (w *walk) save() {
	restarts := 0
	if w.run != nil {
		text, _ := w.run.text()
		restarts = strings.Count(text, `"event":"restarted"`)
	}
	for file, blocks := range w.code {
		path := filepath.Join(w.dir, file)
		text, err := os.ReadFile(path)
		w.ts.Check(err)
		program := string(text)
		for _, block := range blocks {
			program = w.with(program, block)
		}
		w.ts.Check(os.WriteFile(path, []byte(imported(w.ts, program)), 0o644))
	}
	if w.code["main.go"] != nil {
		w.run.awaitMany(w.ts, `"event":"restarted"`, restarts+1)
	}
	clear(w.code)
}

// with returns a program with a block: declarations at its end, statements
// before the return of its method program.
func (w *walk) with(program, block string) string {
	if _, err := parser.ParseFile(token.NewFileSet(), "", "package p\n"+block, 0); err == nil {
		return program + "\n" + block
	}
	head, tail, found := strings.Cut(program, ") program(a *kennel.App) error {\n")
	declared, rest, ended := strings.Cut(tail, "\treturn nil\n}\n")
	if !found || !ended {
		w.ts.Fatalf("no method program in\n%s", program)
	}
	return head + ") program(a *kennel.App) error {\n" + declared + block + "\treturn nil\n}\n" + rest
}

// imported returns a program that imports the packages of the standard library
// that it names, as an editor does.
func imported(ts *testscript.TestScript, program string) string {
	file, err := parser.ParseFile(token.NewFileSet(), "", program, 0)
	ts.Check(err)
	have := make(map[string]bool)
	for _, i := range file.Imports {
		have[strings.Trim(i.Path.Value, `"`)] = true
	}
	add := ""
	ast.Inspect(file, func(n ast.Node) bool {
		s, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if x, ok := s.X.(*ast.Ident); ok && x.Obj == nil {
			path := x.Name
			if path == "http" {
				path = "net/http"
			}
			if !have[path] && slices.Contains([]string{"context", "errors", "fmt", "net/http", "time"}, path) {
				have[path] = true
				add += fmt.Sprintf("import %q\n", path)
			}
		}
		return true
	})
	return strings.Replace(program, "\nimport (", "\n"+add+"import (", 1)
}

// carryOut carries out the commands of a block, and compares what they print
// with what the page shows.
func (w *walk) carryOut(block string) {
	for _, part := range strings.Split("\n"+block, "\n$ ")[1:] {
		command, want, _ := strings.Cut(part, "\n")
		w.ts.Logf("$ %s", command)
		got := w.command(command)
		if want := strings.TrimSpace(want); want != "" && !shown(want).MatchString(strings.TrimSpace(got)) {
			w.ts.Fatalf("%s\nprinted %s\nthe page shows %s", command, got, want)
		}
	}
}

// pageID is an id as a page shows one.
var pageID = regexp.MustCompile(`[A-Z2-7]{26}`)

// shown returns what an output must match: each id stands for any, and … for
// any text.
func shown(text string) *regexp.Regexp {
	text = regexp.QuoteMeta(text)
	text = strings.ReplaceAll(text, "…", ".*")
	return regexp.MustCompile("^" + pageID.ReplaceAllString(text, "[A-Z2-7]{26}") + "$")
}

// command carries out a command and returns what it printed.
func (w *walk) command(text string) string {
	words := shellWords(text)
	switch {
	case words[0] == "cd":
		w.dir = filepath.Join(w.dir, words[1])
		w.ts.Check(w.ts.Chdir(w.dir))
		return ""
	case text == "make run":
		w.exec("make", "kennel")
		if help := w.exec("make", "--dry-run", "run"); !strings.Contains(help, "bin/kennel up --watch") {
			w.ts.Fatalf("make run is %s", help)
		}
		scriptUp(w.ts, false, []string{"--port", "0", "--watch"})
		w.run = upOf(w.ts)
		return ""
	case text == "azd up":
		return "" // there is no Azure here
	case words[0] == "curl":
		return w.curl(words[1:])
	case words[0] == "bin/kennel" && w.run == nil: // that of the clone
		words[0] = "kennel"
	}
	return w.exec(words[0], words[1:]...)
}

func (w *walk) exec(name string, args ...string) string {
	if name == "bin/kennel" {
		name = filepath.Join(w.dir, name)
	}
	err := w.ts.Exec(name, args...)
	out := w.ts.ReadFile("stdout")
	if err != nil {
		w.ts.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, out, w.ts.ReadFile("stderr"))
	}
	return out
}

// curl sends a request as curl does, to the port that the program has here.
func (w *walk) curl(args []string) string {
	method, body, header, address := http.MethodGet, "", make(http.Header), ""
	for i := 0; i < len(args); i++ {
		switch args[i] {
		case "-d":
			i++
			method, body = http.MethodPost, args[i]
			header.Set("Content-Type", cmp.Or(header.Get("Content-Type"), "application/x-www-form-urlencoded"))
		case "-H":
			i++
			name, value, _ := strings.Cut(args[i], ": ")
			header.Set(name, value)
		default:
			address = args[i]
		}
	}
	u, err := url.Parse(address)
	w.ts.Check(err)
	u.Host = "127.0.0.1:" + w.ts.Getenv("PORT")
	req, err := http.NewRequest(method, u.String(), strings.NewReader(body))
	w.ts.Check(err)
	req.Header = header
	client := http.Client{Timeout: time.Minute}
	resp, err := client.Do(req)
	w.ts.Check(err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	w.ts.Check(err)
	if resp.StatusCode >= 300 {
		w.ts.Fatalf("%s %s: %s\n%s", method, u, resp.Status, text)
	}
	return string(text)
}

// shellWords splits a command at spaces outside single quotes.
func shellWords(text string) (words []string) {
	for i, part := range strings.Split(text, "'") {
		if i%2 == 0 {
			words = append(words, strings.Fields(part)...)
		} else {
			words = append(words, part)
		}
	}
	return words
}
