package run

import "strings"

// steps turns progress messages into steps: each write ends the current step
// and starts the next one.
type steps struct {
	begin func(text string) (done func())
	done  func() // ends the current step; nil before the first one
}

func (s *steps) Write(p []byte) (int, error) {
	s.end()
	s.done = s.begin(strings.TrimRight(string(p), "…\n"))
	return len(p), nil
}

func (s *steps) end() {
	if s.done != nil {
		s.done()
	}
}
