package run

import (
	"strings"
	"time"
)

// A step is a part of the start that takes time. A failed step that ends the
// run is never done.
type step struct {
	app   *App
	name  string
	began time.Time
}

// begin reports that a step begins. text is its purpose.
func (a *App) begin(name, text string) step {
	s := step{a, name, time.Now()}
	s.say(text)
	return s
}

// say reports the present work of the step.
func (s step) say(text string) {
	if text != "" {
		s.app.inform(Event{Event: "step", Step: s.name, Text: text})
	}
}

// Write is say for progress, one line in each write.
func (s step) Write(p []byte) (int, error) {
	s.say(strings.TrimSpace(string(p)))
	return len(p), nil
}

// done reports the result of the step.
func (s step) done(result string) {
	s.app.inform(Event{Event: "step", Step: s.name, Done: true, Text: result, Seconds: time.Since(s.began).Seconds()})
}

// fail reports that the step failed, although the app runs on.
func (s step) fail(why string) {
	s.app.inform(Event{Event: "step", Step: s.name, Done: true, Failed: true, Text: why, Seconds: time.Since(s.began).Seconds()})
}

// warn reports something that may surprise the developer.
func (a *App) warn(text string) { a.inform(Event{Event: "warning", Text: text}) }

// inform reports an event that the run does not depend on.
func (a *App) inform(e Event) { _ = a.report(e) }

func (a *App) report(e Event) error {
	a.reporting.Lock()
	defer a.reporting.Unlock()
	return a.opt.Report(e)
}
