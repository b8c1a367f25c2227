package main

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
)

// TestFailures checks every row of the tables of errors, with errors wrapped as
// the packages of the jobs wrap them.
func TestFailures(t *testing.T) {
	reset := errors.New("reset by peer")
	forbidden := &azure.Error{Status: 403, Code: "AuthorizationFailure"}
	for _, tt := range []struct {
		failures    []failure
		err         error
		status      int
		code, after string
	}{
		{sequenceFailures, ids.ErrExhausted, 409, "sequence_exhausted", ""},
		{sequenceFailures, ids.ErrCorrupt, 500, "sequence_corrupt", ""},
		{sequenceFailures, ids.ErrMissing, 500, "sequence_missing", ""},
		{sequenceFailures, ids.ErrRefused, 503, "storage_unavailable", "60"},
		{sequenceFailures, ids.ErrTooMany, 503, "too_many_sequences", "60"},
		{sequenceFailures, ids.ErrClosed, 503, "stopping", "1"},
		{sequenceFailures, ids.ErrUnavailable, 503, "storage_unavailable", "5"},
		{sequenceFailures, fmt.Errorf("%w: %w", ids.ErrUnavailable, forbidden), 503, "storage_unavailable", "60"},
		{gateFailures, gate.ErrStopped, 503, "stopping", "1"},
		{gateFailures, gate.ErrInvalid, 400, "bad_change", ""},
		{gateFailures, gate.ErrCorrupt, 500, "gate_corrupt", ""},
		{gateFailures, gate.ErrTooMany, 503, "too_many_gates", "60"},
		{gateFailures, gate.ErrUnclear, 503, "change_unclear", "5"},
		{gateFailures, gate.ErrUnknown, 503, "storage_unavailable", "5"},
		{gateFailures, fmt.Errorf("%w: %w", gate.ErrUnknown, forbidden), 503, "storage_unavailable", "60"},
		{gateFailures, fmt.Errorf("%w: %w", gate.ErrUnclear, forbidden), 503, "change_unclear", "60"},
		{gateFailures, context.DeadlineExceeded, 504, "timeout", ""},
		{gateFailures, reset, 500, "internal", ""},
		{channelFailures, &channels.InputError{Field: "owner", Reason: "reason"}, 400, "bad_owner", ""},
		{channelFailures, &customhandler.Error{Status: 411, Code: "length_required"}, 411, "length_required", ""},
		{channelFailures, channels.ErrNotFound, 404, "channel_not_found", ""},
		{channelFailures, channels.ErrChanged, 412, "channel_changed", ""},
		{channelFailures, channels.ErrOwned, 409, "channel_owned", ""},
		{channelFailures, channels.ErrCorrupt, 500, "channel_corrupt", ""},
		{channelFailures, channels.ErrRefused, 503, "storage_unavailable", "60"},
		{channelFailures, reset, 503, "storage_unavailable", "5"},
		{channelFailures, channels.ErrUnclear, 503, "change_unclear", "5"},
		{channelDeleteFailures, fmt.Errorf("%w: %w", channels.ErrUnclear, channels.ErrRefused), 503, "change_unclear", "60"},
		{blogPostFailures, fmt.Errorf("%w: %w", channels.ErrUnclear, channels.ErrNotFound), 503, "change_unclear", "5"},
		{blogPostFailures, channels.ErrKeyReused, 409, "key_reused", ""},
		{blogPostFailures, channels.ErrRemoved, 410, "blog_deleted", ""},
		{deletionFailures, channels.ErrNotFound, 404, "deletion_not_found", ""},
		{blogFailures, channels.ErrUnclear, 503, "change_unclear", "5"},
		{blogFailures, channels.ErrNotFound, 404, "blog_not_found", ""},
		{blogFailures, channels.ErrChanged, 412, "blog_changed", ""},
		{blogFailures, channels.ErrNoCondition, 428, "no_condition", ""},
	} {
		cause := fmt.Errorf("text of storage: %w", tt.err)
		handler := serve(tt.failures, func(*http.Request) (reply, error) { return reply{}, cause })
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
		writeFailure(w, httptest.NewRequest("GET", "/", nil), sequenceFailuresOf(err), err)
		if w.Code != 503 || !strings.Contains(w.Body.String(), tt.want) {
			t.Errorf("%v: %d %s, want %s", tt.err, w.Code, w.Body, tt.want)
		}
	}
}
