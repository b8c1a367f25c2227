package parts

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"kennel/gate"
	"kennel/internal/api"
	"kennel/internal/doctor"
	"kennel/internal/edge"
)

// TestLimitsAreDocumented compares the table of limits in docs/api.md with the
// routes, and its times with those that TestCallsEndInTime proves.
func TestLimitsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## Limits\n")
	section, _, _ = strings.Cut(section, "\n## ")
	documented := make(map[string][]string)
	for _, row := range regexp.MustCompile("(?m)^\\| `(.*)` \\| (.*) \\| (.*) \\| (.*) \\|$").FindAllStringSubmatch(section, -1) {
		if documented[row[1]] != nil {
			t.Errorf("%s has two rows", row[1])
		}
		documented[row[1]] = row[2:]
	}

	const none = "–"
	elsewhere := map[string]time.Duration{
		"GET /api/gates/{gate}/wait": gate.MaxWait, // callEnds has the default
		"GET /api/doctor":            doctor.DoctorTimeout,

		"GET /api/queues":                   edge.CallTimeout,
		"GET /api/queues/{queue}":           edge.CallTimeout,
		"POST /api/queues/{queue}/messages": edge.CallTimeout,
	}
	ends := callEnds()
	want := make(map[string][]string)
	var limited []string
	for _, rt := range routes(t) {
		body, within, quota := none, none, none
		switch {
		case rt.MaxBody > 0:
			body = fmt.Sprintf("%d MiB", rt.MaxBody>>20)
		case rt.Body:
			body = fmt.Sprintf("%d MiB", edge.MaxBody>>20)
		}
		limit, ok := elsewhere[rt.Pattern]
		if !ok {
			limit = ends[rt.Pattern].limit
		}
		if limit > 0 {
			within = fmt.Sprintf("%v s", limit.Seconds())
		}
		if rt.Quota != nil {
			quota = fmt.Sprintf("%d, %d at once", edge.QuotaPerSecond, edge.QuotaBurst)
			limited = append(limited, rt.Pattern)
		}
		want[rt.Pattern] = []string{body, within, quota}
	}
	if diff := cmp.Diff(want, documented); diff != "" {
		t.Errorf("limits of the routes (-) and in docs/api.md (+):\n%s", diff)
	}

	if diff := cmp.Diff([]string{"POST /api/sequences/{sequence}/raise", "POST /api/gates/{gate}/release", "POST /api/deadletters/{queue}/redrive", "GET /api/queues", "GET /api/queues/{queue}", "POST /api/queues/{queue}/pause", "POST /api/queues/{queue}/resume", api.DoctorPattern}, limited); diff != "" {
		t.Errorf("routes with a quota, wanted (-) and found (+):\n%s", diff)
	}
}
