package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"kennel/channels"
	"kennel/gate"
	"kennel/ids"
	"kennel/internal/azure"
	"kennel/internal/customhandler"
	"kennel/internal/edge"
)

// TestFailures checks every row of the tables of errors, with errors wrapped as
// the packages of the jobs wrap them.
func TestFailures(t *testing.T) {
	reset := errors.New("reset by peer")
	forbidden := &azure.Error{Status: 403, Code: "AuthorizationFailure"}
	for _, tt := range []struct {
		failures    []Failure
		err         error
		status      int
		code, after string
	}{
		{SequenceFailures, ids.ErrExhausted, 409, "sequence_exhausted", ""},
		{SequenceFailures, ids.ErrCorrupt, 500, "sequence_corrupt", ""},
		{SequenceFailures, ids.ErrMissing, 500, "sequence_missing", ""},
		{SequenceFailures, ids.ErrRefused, 503, "storage_unavailable", "60"},
		{SequenceFailures, ids.ErrTooMany, 503, "too_many_sequences", "60"},
		{SequenceFailures, ids.ErrClosed, 503, "stopping", "1"},
		{SequenceFailures, ids.ErrUnavailable, 503, "storage_unavailable", "5"},
		{SequenceFailures, fmt.Errorf("%w: %w", ids.ErrUnavailable, forbidden), 503, "storage_unavailable", "60"},
		{GateFailures, gate.ErrStopped, 503, "stopping", "1"},
		{GateFailures, gate.ErrInvalid, 400, "bad_change", ""},
		{GateFailures, gate.ErrCorrupt, 500, "gate_corrupt", ""},
		{GateFailures, gate.ErrTooMany, 503, "too_many_gates", "60"},
		{GateFailures, gate.ErrUnclear, 503, "change_unclear", "5"},
		{GateFailures, gate.ErrUnknown, 503, "storage_unavailable", "5"},
		{GateFailures, fmt.Errorf("%w: %w", gate.ErrUnknown, forbidden), 503, "storage_unavailable", "60"},
		{GateFailures, fmt.Errorf("%w: %w", gate.ErrUnclear, forbidden), 503, "change_unclear", "60"},
		{GateFailures, context.DeadlineExceeded, 504, "timeout", ""},
		{GateFailures, reset, 500, "internal", ""},
		{ChannelFailures, &channels.InputError{Field: "owner", Reason: "reason"}, 400, "bad_owner", ""},
		{ChannelFailures, &customhandler.Error{Status: 411, Code: "length_required"}, 411, "length_required", ""},
		{ChannelFailures, channels.ErrNotFound, 404, "channel_not_found", ""},
		{ChannelFailures, channels.ErrChanged, 412, "channel_changed", ""},
		{ChannelFailures, channels.ErrOwned, 409, "channel_owned", ""},
		{ChannelFailures, channels.ErrCorrupt, 500, "channel_corrupt", ""},
		{ChannelFailures, channels.ErrRefused, 503, "storage_unavailable", "60"},
		{ChannelFailures, reset, 503, "storage_unavailable", "5"},
		{ChannelFailures, channels.ErrUnclear, 503, "change_unclear", "5"},
		{ChannelDeleteFailures, fmt.Errorf("%w: %w", channels.ErrUnclear, channels.ErrRefused), 503, "change_unclear", "60"},
		{BlogPostFailures, fmt.Errorf("%w: %w", channels.ErrUnclear, channels.ErrNotFound), 503, "change_unclear", "5"},
		{BlogPostFailures, channels.ErrKeyReused, 409, "key_reused", ""},
		{BlogPostFailures, channels.ErrRemoved, 410, "blog_deleted", ""},
		{DeletionFailures, channels.ErrNotFound, 404, "deletion_not_found", ""},
		{BlogFailures, channels.ErrUnclear, 503, "change_unclear", "5"},
		{BlogFailures, channels.ErrNotFound, 404, "blog_not_found", ""},
		{BlogFailures, channels.ErrChanged, 412, "blog_changed", ""},
		{BlogFailures, channels.ErrNoCondition, 428, "no_condition", ""},
	} {
		cause := fmt.Errorf("text of storage: %w", tt.err)
		handler := Serve(tt.failures, func(*http.Request) (edge.Reply, error) { return edge.Reply{}, cause })
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		if w.Code != tt.status || !strings.Contains(w.Body.String(), `{"code":"`+tt.code+`","message":"`) || w.Header().Get("Retry-After") != tt.after {
			t.Errorf("%v: %d %v %s, want %d %s, Retry-After %q", tt.err, w.Code, w.Header(), w.Body, tt.status, tt.code, tt.after)
		}
		if isRefused := tt.code == "storage_unavailable" && tt.after == "60"; isRefused != strings.Contains(w.Body.String(), "until an operator fixes the cause") {
			t.Errorf("%v: %s, want it to say that storage rejected the request: %v", tt.err, w.Body, isRefused)
		}
		if tt.status == 503 && strings.Contains(w.Body.String(), "text of storage") {
			t.Errorf("%v: the answer contains the text of storage: %s", tt.err, w.Body)
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		w = httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequestWithContext(gone, "GET", "/", nil))
		if input := tt.code == "bad_owner" || tt.code == "length_required"; !input && w.Code != 408 {
			t.Errorf("%v after the client closed the connection: %d %s, want 408", tt.err, w.Code, w.Body)
		}
	}
}

// TestSequenceFailuresOf checks that the answer of storage is named if that is
// why no numbers were issued.
func TestSequenceFailuresOf(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want string
	}{
		{&azure.Error{Status: 500, Code: "InternalError"}, "No numbers were issued: storage answered 500 InternalError. Retry later."},
		{&azure.Error{Status: 503}, "No numbers were issued: storage answered 503 Service Unavailable. Retry later."},
		{azure.ErrTimeout, "storage did not respond in time, or too many instances"},
		{&azure.Error{Status: 403, Code: "AuthorizationFailure"}, "until an operator fixes the cause"},
	} {
		w := httptest.NewRecorder()
		err := fmt.Errorf("%w: %w", ids.ErrUnavailable, tt.err)
		edge.WriteFailure(w, httptest.NewRequest("GET", "/", nil), answersTo(sequenceFailuresOf(err)), err)
		if w.Code != 503 || !strings.Contains(w.Body.String(), tt.want) {
			t.Errorf("%v: %d %s, want %s", tt.err, w.Code, w.Body, tt.want)
		}
	}
}
