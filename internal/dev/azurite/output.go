package azurite

import (
	"bytes"
	"io"
	"strings"
	"sync"
)

// output receives the output of Azurite. It forwards it, keeps the last lines
// for error messages and extracts the addresses of the services.
type output struct {
	log       io.Writer
	listening chan map[string]string // receives once: service to address

	// A goroutine of package exec writes; last may be called concurrently.
	mu      sync.Mutex
	partial []byte            // of a line; guarded by mu
	lines   []string          // the last few; guarded by mu
	urls    map[string]string // found so far; guarded by mu
}

const (
	services   = 3
	keepLines  = 20
	keepLength = 400 // bytes of one line
)

func newOutput(log io.Writer) *output {
	if log == nil {
		log = io.Discard
	}
	return &output{log: log, listening: make(chan map[string]string, 1), urls: make(map[string]string)}
}

// Write implements [io.Writer]. It never fails: storage keeps running if the
// log cannot be written.
func (o *output) Write(p []byte) (int, error) {
	o.log.Write(p)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.partial = append(o.partial, p...)
	for {
		line, rest, complete := bytes.Cut(o.partial, []byte("\n"))
		if !complete {
			return len(p), nil
		}
		o.partial = rest
		o.take(strings.TrimSpace(string(line)))
	}
}

func (o *output) take(line string) {
	o.lines = append(o.lines, line[:min(len(line), keepLength)])
	o.lines = o.lines[max(0, len(o.lines)-keepLines):]

	before, address, found := strings.Cut(line, " service is successfully listening at ")
	if service, ok := strings.CutPrefix(before, "Azurite "); ok && found && len(o.urls) < services {
		o.urls[service] = address + "/" + accountName
		if len(o.urls) == services {
			o.listening <- o.urls
		}
	}
}

// last returns the last lines printed.
func (o *output) last() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return strings.Join(append(o.lines[:len(o.lines):len(o.lines)], string(o.partial)), "\n")
}
