package main

import (
	"slices"
	"testing"

	"kennel/internal/observe"
	"kennel/internal/storetest"
)

// TestProcessesSeeEachOther: real processes see each other by the table, one
// that stops is gone at once, and one that is killed is not.
func TestProcessesSeeEachOther(t *testing.T) {
	storetest.OnlyInProve(t) // the first row is written within 7 s
	t.Parallel()
	a, b, c := start(t, built.handler, withStorage(t)), start(t, built.handler, withStorage(t)), start(t, built.handler, withStorage(t))
	name := func(p *process) string {
		s, _ := p.status(t)
		return s.Instance
	}
	stopped, killed := name(b), name(c)
	sees := func(instance string) func(observe.Status) bool {
		return func(s observe.Status) bool {
			return slices.ContainsFunc(s.Instances, func(i observe.InstanceItem) bool { return i.Instance == instance && i.Memory > 1<<20 })
		}
	}
	a.statusUntil(t, "the others", func(s observe.Status) bool { return sees(stopped)(s) && sees(killed)(s) })
	c.kill()
	b.terminate()
	if code := b.exitCode(t); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if s, body := a.status(t); sees(stopped)(s) || !sees(killed)(s) {
		t.Errorf("status %s, want the killed process and not the stopped one", body)
	}
}
