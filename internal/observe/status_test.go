package observe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"kennel/internal/azure"
	"kennel/internal/table"
)

func TestProbeError(t *testing.T) {
	refused := fmt.Errorf("connect to storage: %w", errors.New("connection refused"))
	for want, err := range map[string]error{
		"no answer within 2s":                    fmt.Errorf("load sequence \"status\": %w", context.DeadlineExceeded),
		"connect to storage: connection refused": fmt.Errorf("get row \"status\" of \"status\": %w", refused),
		"storage answered 404 QueueDisabled":     fmt.Errorf("receive: %w: %w", table.ErrRefused, &azure.Error{Status: 404, Code: "QueueDisabled"}),
		"unwrapped":                              errors.New("unwrapped"),
	} {
		if got := probeError(err); got != want {
			t.Errorf("probeError(%v) = %q, want %q", err, got, want)
		}
	}
}

// TestStatusOfSilentServices: services that never respond delay a status for
// one timeout, all together. A service without a probe is not in it.
func TestStatusOfSilentServices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		silent := func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}
		began := time.Now()
		s, problems := storageStatusOf(t.Context(), "x", map[string]Probe{"blobs": silent, "tables": silent, "queues": silent})
		if took := time.Since(began); took != ProbeTimeout || s.Reachable || s.Tables.Reachable || s.Queues.Reachable || s.Healthy() || len(problems) != 3 {
			t.Errorf("%+v, %+v, %+v, %v after %v, want none reachable after %v", s, s.Tables, s.Queues, problems, took, ProbeTimeout)
		}
	})
	rejected := func(context.Context) error { return errors.New("rejected") }
	for want, probes := range map[string]map[string]Probe{
		`{"account":"x","reachable":false,"error":"rejected"}`:            {"blobs": rejected},
		`{"account":"x","queues":{"reachable":false,"error":"rejected"}}`: {"queues": rejected},
		`{"account":"x"}`: nil,
	} {
		s, _ := storageStatusOf(t.Context(), "x", probes)
		text, err := json.Marshal(s)
		if string(text) != want || s.Healthy() != (probes == nil) {
			t.Errorf("got %s, %v, healthy %t, want %s", text, err, s.Healthy(), want)
		}
	}
}
