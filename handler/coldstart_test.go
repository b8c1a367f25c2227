package main

import (
	"encoding/json"
	"testing"

	"kennel/internal/storetest"
)

// TestColdStartProcesses: twenty real processes start one after the other, and
// each issues one number. Few numbers are lost when all are killed, and none
// when all are stopped.
func TestColdStartProcesses(t *testing.T) {
	storetest.OnlyInProve(t) // not in parallel: it starts 42 processes
	account := withStorage(t)
	for how, tt := range map[string]struct {
		end func(*process)
		max int64
	}{
		"killed":  {(*process).kill, 220},
		"stopped": {func(p *process) { p.terminate(); p.cmd.Wait() }, 21},
	} {
		sequence := storetest.Name()
		draw := func(end func(*process)) int64 {
			p := launch(t, built.handler, account)
			p.ready(t)
			status, _, text := p.call(t, "POST", "/api/sequences/"+sequence+"/next", nil)
			var numbers struct{ First int64 }
			if err := json.Unmarshal([]byte(text), &numbers); err != nil || status != 200 {
				t.Errorf("all %s: %d %s, %v\n%s", how, status, text, err, p.output)
			}
			end(p)
			return numbers.First
		}
		for range 20 {
			draw(tt.end)
		}
		n := draw((*process).kill)
		t.Logf("figure: the next number after 20 processes with one number each, all %s | %d | ≤ %d", how, n, tt.max)
		if n < 21 || n > tt.max {
			t.Errorf("all %s: the next number is %d, want 21 to %d", how, n, tt.max)
		}
	}
}
