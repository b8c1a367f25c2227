package parts

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"kennel/internal/api"
	"kennel/internal/memory"
)

// TestLeaseGoesBack: numbers of a lease that their caller did not use are the
// next ones of the app. Returns of what is not lent are refused or take nothing.
func TestLeaseGoesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stored := memory.NewSequences(nil)
		a, other := newSequenceApp(t, stored, true), newSequenceApp(t, stored, true)
		draw := func(query string) (first int64, lease string) {
			t.Helper()
			var numbers struct {
				First int64
				Lease string
			}
			if status, text := a.call(t, "POST", "/orders/next"+query, "", &numbers); status != 200 {
				t.Fatalf("next%s: %d %s", query, status, text)
			}
			return numbers.First, numbers.Lease
		}
		giveBack := func(app *sequenceApp, sequence, lease string, first, want int64) {
			t.Helper()
			var answer api.ReturnedNumbers
			body := fmt.Sprintf(`{"lease":%q,"first":%d}`, lease, first)
			if status, text := app.call(t, "POST", "/"+sequence+"/next/return", body, &answer); status != 200 || answer != (api.ReturnedNumbers{Sequence: sequence, Returned: want}) {
				t.Errorf("return of %s: %d %s, want %d numbers", body, status, text, want)
			}
		}
		if _, lease := draw("?count=3"); lease != "" {
			t.Errorf("an answer has a lease that was not requested: %q", lease)
		}
		first, lease := draw("?count=5&lease=true")
		if first != 4 || len(lease) < 26 || strings.Trim(lease, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567") != "" {
			t.Errorf("a lease of 5: from %d, %q; want 4 and 128 random bits", first, lease)
		}
		giveBack(other, "orders", lease, 6, 0)
		giveBack(a, "invoices", lease, 6, 0)
		giveBack(a, "orders", "none", 6, 0)
		if status, text := a.call(t, "POST", "/orders/next/return", fmt.Sprintf(`{"lease":%q,"first":9}`, lease), new(any)); status != 400 || !strings.Contains(text, "bad_return") {
			t.Errorf("return from 9 of 4 to 8: %d %s, want 400 bad_return", status, text)
		}
		giveBack(a, "orders", lease, 6, 3)
		giveBack(a, "orders", lease, 6, 0)
		if first, _ := draw(""); first != 6 {
			t.Errorf("next = %d, want 6, which came back", first)
		}
		r := httptest.NewRequestWithContext(t.Context(), "POST", "/api/sequences/orders/next?lease=true", nil)
		r.Header.Set("Accept", "text/plain")
		w := httptest.NewRecorder()
		a.host.ServeHTTP(w, r)
		var refused struct{ Error struct{ Code string } }
		if json.Unmarshal(w.Body.Bytes(), &refused); w.Code != 400 || refused.Error.Code != "bad_lease" {
			t.Errorf("a lease in plain text: %d %s, want 400 bad_lease", w.Code, w.Body)
		}
		a.sequences.Close(t.Context())
		other.sequences.Close(t.Context())
	})
}
