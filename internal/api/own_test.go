package api

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"kennel/internal/azure"
	"kennel/queue"
)

// TestUnclearOwn: a route of a program that may have sent a message is not
// answered as if the request could be repeated.
func TestUnclearOwn(t *testing.T) {
	for _, err := range []error{queue.ErrUnclear, fmt.Errorf("send: %w: %w", queue.ErrUnclear, &azure.Error{Status: 500})} {
		w := httptest.NewRecorder()
		WriteOwn(w, err)
		if text := w.Body.String(); w.Code != 503 || !strings.Contains(text, `"change_unclear"`) || strings.Contains(text, "safe") || !strings.Contains(text, "twice") {
			t.Errorf("%v: %d %s", err, w.Code, text)
		}
	}
}
