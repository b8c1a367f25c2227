package parts

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"kennel/client"
	"kennel/gate"
	"kennel/ids"
	"kennel/internal/api"
	"kennel/internal/instances"
	"kennel/internal/memory"
	"kennel/internal/observe"
	"kennel/internal/storetest"
)

// reportNone reports no sequences and no gates.
func reportNone(answer *observe.Status) {
	answer.Sequences, answer.Gates = map[string]ids.Stats{}, map[string]gate.Watched{}
}

// TestSizeOfStatus: the status of an instance with 10,000 sequences and 1,000
// gates, in an app with 500 instances that have many problems, is small and
// states how much it leaves out.
func TestSizeOfStatus(t *testing.T) {
	storetest.OnlyInProve(t)
	const limit = 128 << 10
	others, sequences := 499, ids.MaxSequences
	synctest.Test(t, func(t *testing.T) {
		rows := memory.NewTable(nil)
		m := newFakeApp(t, rows, true)
		set, err := ids.NewSet(memory.NewSequences(nil), nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := range sequences {
			if _, err := set.Next(t.Context(), fmt.Sprintf("a-name-of-20-%07d", i)); err != nil {
				t.Fatal(err)
			}
		}
		busy := "a-name-of-20-0000777"
		for range 3 {
			if _, err := set.Lease(t.Context(), busy, 10_000); err != nil {
				t.Fatal(err)
			}
		}
		gates := make(map[string]gate.Watched)
		for i := range gate.MaxWatched {
			gates[fmt.Sprintf("gate-%04d", i)] = gate.Watched{Waiting: 1 + i%25, State: gate.State{Gate: fmt.Sprintf("gate-%04d", i), By: strings.Repeat("b", 200), Reason: strings.Repeat("r", 1000)}}
		}
		m.report = func(answer *observe.Status) {
			(&sequencePart{SequenceResource: api.SequenceResource{Sequences: set}}).Report(answer)
			reportGates(answer, gates)
		}
		for i := range others {
			process := instances.Process{Instance: fmt.Sprintf("host-%s-%04d", strings.Repeat("x", 60), i), Kind: instances.Functions, Version: "v0.0.0-20261126130358-f4a975d00000", StartedAt: time.Now()}
			var problems []instances.Problem
			if i >= others/2 {
				for k := range 50 {
					subject := fmt.Sprintf("sequence-%04d", k)
					for _, code := range []string{"sequence_corrupt", "sequence_missing", "gate_corrupt"} {
						problems = append(problems, instances.Problem{Code: code, Subject: subject, What: strings.Repeat("w", 300), Since: time.Now(), Count: 1})
					}
				}
			}
			self := instances.NewSelf(process, func() []instances.Problem { return problems }, func(r *instances.Report) {})
			ctx, _ := contextOf(t)
			go instances.NewReporter(self, rows, m.Log).Run(ctx)
		}
		time.Sleep(time.Minute)

		answer := m.status(t)
		w := httptest.NewRecorder()
		m.host.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/api/status", nil))
		t.Logf("figure: bytes of a status with %d sequences and %d instances | %d | ≤ %d", sequences, others+1, w.Body.Len(), limit)
		if w.Body.Len() > limit {
			t.Errorf("%d bytes, want at most %d", w.Body.Len(), limit)
		}
		if answer.SequenceCount != sequences || answer.GateCount != gate.MaxWatched || answer.InstanceCount != others+1 || answer.ProblemCount <= 30 {
			t.Errorf("%d sequences, %d gates, %d instances, %d problems", answer.SequenceCount, answer.GateCount, answer.InstanceCount, answer.ProblemCount)
		}
		if len(answer.Sequences) != 20 || len(answer.Gates) != 20 || len(answer.Instances) != 100 {
			t.Errorf("%d sequences, %d gates, %d instances are shown", len(answer.Sequences), len(answer.Gates), len(answer.Instances))
		}
		if _, ok := answer.Sequences[busy]; !ok {
			t.Errorf("the busiest sequence is not shown")
		}
		if _, ok := answer.Sequences["a-name-of-20-0000018"]; !ok {
			t.Errorf("the first of the others is not shown")
		}
		for name, g := range answer.Gates {
			if g.Waiting != 25 {
				t.Errorf("gate %s with %d waiters is shown", name, g.Waiting)
			}
		}
		own, troubled := false, 0
		for _, i := range answer.Instances {
			own = own || i.Instance == answer.Instance
			if i.Instance != answer.Instance && i.Instance >= fmt.Sprintf("host-%s-%04d", strings.Repeat("x", 60), others/2) {
				troubled++
			}
		}
		if !own || troubled != 99 {
			t.Errorf("the one that answers is shown: %v; %d with problems, want 99", own, troubled)
		}
		codes := make(map[string]int)
		for _, p := range answer.Problems {
			codes[p.Code]++
			if len(p.Instances) > 20 || p.InstanceCount != others-others/2 && p.Code != instances.DeadLetters {
				t.Errorf("%s %s: %d of %d instances", p.Code, p.Subject, len(p.Instances), p.InstanceCount)
			}
		}
		for _, code := range []string{"sequence_corrupt", "sequence_missing", "gate_corrupt"} {
			if codes[code] != 10 {
				t.Errorf("%d problems %s, want 10", codes[code], code)
			}
		}
		var s client.Status
		if err := json.Unmarshal(w.Body.Bytes(), &s); err != nil || s.SequenceCount != sequences {
			t.Errorf("%d sequences, %v", s.SequenceCount, err)
		}
	})
}
