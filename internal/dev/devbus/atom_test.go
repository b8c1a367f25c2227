package devbus

import (
	"encoding/xml"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestISODurations(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"PT0S":      0,
		"PT1M":      time.Minute,
		"PT1H30M5S": time.Hour + 30*time.Minute + 5*time.Second,
		"P14D":      14 * 24 * time.Hour,
		"P1DT0.25S": 24*time.Hour + 250*time.Millisecond,
		"PT1.5S":    1500 * time.Millisecond,
		endlessText: forever,
	} {
		var d isoDuration
		err := d.UnmarshalText([]byte(text))
		again, _ := d.MarshalText()
		if err != nil || time.Duration(d) != want || string(again) != text {
			t.Errorf("%s: decoded to %v, error %v, want %v; encoded as %s", text, time.Duration(d), err, want, again)
		}
	}
	for _, text := range []string{"", "P", "1M", "PT", "PTM", "P1M", "PT1M1H", "PT-1S", "PT1Mx", "P1D1D", "PT1S1S"} {
		var d isoDuration
		if err := d.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q: decoded to %v, want an error", text, time.Duration(d))
		}
	}
}

// adminRequest sends a request to the administration endpoint, and returns the
// status and the body of the answer.
func adminRequest(t *testing.T, b *Broker, method, path, body string, header ...string) (int, string) {
	t.Helper()
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("Authorization", "SharedAccessSignature sr=x")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	b.serveHTTP(w, r)
	return w.Code, w.Body.String()
}

func describing(kind, inner string) string {
	return fmt.Sprintf(`<entry xmlns="%s"><content type="application/xml"><%s xmlns="%s" xmlns:i="%s">%s</%[2]s></content></entry>`, nsAtom, kind, nsBus, nsSchema, inner)
}

func TestAdminErrors(t *testing.T) {
	b := New(nil)
	defer b.Close()
	b.CreateQueue("q", &Settings{RequiresSession: true})
	b.CreateTopic("t", nil)
	for _, tt := range []struct {
		name, method, path, body string
		header                   []string
		status                   int
		contains                 string
	}{
		{"no token", "GET", "/q", "", []string{"Authorization", ""}, 401, "token"},
		{"not XML", "PUT", "/new", "no XML", nil, 400, "Atom entry"},
		{"no description", "PUT", "/new", "<entry/>", nil, 400, "no QueueDescription"},
		{"a lock that is too short", "PUT", "/new", describing(kindQueue, "<LockDuration>PT1S</LockDuration>"), nil, 400, "LockDuration is 1s"},
		{"no deliveries", "PUT", "/new", describing(kindQueue, "<MaxDeliveryCount>0</MaxDeliveryCount>"), nil, 400, "MaxDeliveryCount"},
		{"an invalid duration", "PUT", "/new", describing(kindQueue, "<LockDuration>soon</LockDuration>"), nil, 400, "not a duration"},
		{"an invalid status", "PUT", "/new", describing(kindQueue, "<Status>Sleepy</Status>"), nil, 400, "Sleepy"},
		{"exists", "PUT", "/Q", describing(kindQueue, ""), nil, 409, "already exists"},
		{"exists as a queue", "PUT", "/q", describing(kindTopic, ""), []string{"If-Match", "*"}, 409, "another kind"},
		{"nothing to update", "PUT", "/new", describing(kindQueue, ""), []string{"If-Match", "*"}, 404, "could not be found"},
		{"sessions cannot be disabled", "PUT", "/q", describing(kindQueue, "<RequiresSession>false</RequiresSession>"), []string{"If-Match", "*"}, 400,
			"SubCode=40000. The value for the RequiresSession property of an existing Queue cannot be changed. "},
		{"duplicate detection cannot be enabled", "PUT", "/q", describing(kindQueue, "<RequiresDuplicateDetection>true</RequiresDuplicateDetection>"), []string{"If-Match", "*"}, 400,
			"The value for the RequiresDuplicateDetection property of an existing Queue cannot be changed. "},
		{"a topic cannot be partitioned", "PUT", "/t", describing(kindTopic, "<EnablePartitioning>true</EnablePartitioning>"), []string{"If-Match", "*"}, 400,
			"Partitioning cannot be changed for Topic. "},
		{"an invalid size", "PUT", "/new", describing(kindQueue, "<MaxSizeInMegabytes>77</MaxSizeInMegabytes>"), nil, 400,
			"must be one of the following values: 1024;2048;3072;4096;5120. "},
		{"a size of premium namespaces", "PUT", "/new", describing(kindQueue, "<MaxSizeInMegabytes>10240</MaxSizeInMegabytes>"), nil, 400, "value 10240 is invalid"},
		{"a message size of premium namespaces", "PUT", "/new", describing(kindQueue, "<MaxMessageSizeInKilobytes>1024</MaxMessageSizeInKilobytes>"), nil, 400, "Premium"},
		{"forwarding", "PUT", "/new", describing(kindQueue, "<ForwardTo>sb://x/y</ForwardTo>"), nil, 501, "forwarding"},
		{"a filter", "PUT", "/t/subscriptions/s", describing(kindSub, `<DefaultRuleDescription><Filter i:type="SqlFilter"/></DefaultRuleDescription>`), nil, 501, "rules"},
		{"rules", "GET", "/t/subscriptions/s/rules", "", nil, 501, "rules"},
		{"a name that is too long", "PUT", "/t/subscriptions/" + strings.Repeat("s", 51), describing(kindSub, ""), nil, 400, "50"},
		{"a path that is too long", "PUT", "/" + strings.Repeat("s", 261), describing(kindQueue, ""), nil, 400, "260"},
		{"no topic", "PUT", "/u/subscriptions/s", describing(kindSub, ""), nil, 404, "could not be found"},
		{"nothing to delete", "DELETE", "/new", "", nil, 404, "could not be found"},
		{"a dead-letter queue cannot be deleted", "DELETE", "/q/$DeadLetterQueue", "", nil, 404, "could not be found"},
		{"an invalid method", "PATCH", "/q", "", nil, 405, "PATCH"},
		{"an invalid method for a subscription", "POST", "/t/subscriptions/s", "", nil, 405, "POST"},
	} {
		status, body := adminRequest(t, b, tt.method, tt.path, tt.body, tt.header...)
		if status != tt.status || !strings.Contains(body, tt.contains) {
			t.Errorf("%s: got %d %s, want %d with %q", tt.name, status, body, tt.status, tt.contains)
		}
		var problem struct {
			XMLName xml.Name `xml:"Error"`
			Code    int
		}
		if err := xml.Unmarshal([]byte(body), &problem); err != nil || problem.Code != tt.status {
			t.Errorf("%s: got code %d, error %v in the body", tt.name, problem.Code, err)
		}
	}
	if got := fmt.Sprint(b.Entities()); got != "[q t]" {
		t.Errorf("got entities %s, want [q t]", got)
	}
}

func TestAdminUpdate(t *testing.T) {
	b := New(nil)
	defer b.Close()
	b.CreateQueue("q", &Settings{LockDuration: 30 * time.Second, TimeToLive: time.Hour, DuplicateWindow: time.Minute})
	status, body := adminRequest(t, b, "PUT", "/q", describing(kindQueue, `<MaxDeliveryCount>4</MaxDeliveryCount><UserMetadata>&lt;x&gt;</UserMetadata>`), "If-Match", "*")
	if status != http.StatusOK {
		t.Fatalf("got %d %s", status, body)
	}
	// An element that is not described returns to its default, except one that
	// cannot be changed.
	for _, want := range []string{
		"<MaxDeliveryCount>4<", "<UserMetadata>&lt;x&gt;<", "<LockDuration>PT1M<",
		"<DefaultMessageTimeToLive>" + endlessText, "<RequiresDuplicateDetection>true<", "<DuplicateDetectionHistoryTimeWindow>PT1M<",
	} {
		if !strings.Contains(body, want) {
			t.Errorf("%s is missing from %s", want, body)
		}
	}
}

// TestAdminSizes checks the sizes of entities and messages, when an entity is
// created and when it is updated with what was shown.
func TestAdminSizes(t *testing.T) {
	for _, tt := range []struct {
		name    string
		premium bool
		inner   string
		status  int
		want    string // in the entity or the error
	}{
		{"the defaults", false, "", 201, "<MaxSizeInMegabytes>1024</MaxSizeInMegabytes><MaxMessageSizeInKilobytes>256<"},
		{"a size", false, "<MaxSizeInMegabytes>5120</MaxSizeInMegabytes>", 201, "<MaxSizeInMegabytes>5120<"},
		{"16 partitions", false, "<EnablePartitioning>true</EnablePartitioning>", 201, "<MaxSizeInMegabytes>16384<"},
		{"16 partitions of a size", false, "<MaxSizeInMegabytes>4096</MaxSizeInMegabytes><EnablePartitioning>true</EnablePartitioning>", 201, "<MaxSizeInMegabytes>65536<"},
		{"the default size of messages", false, "<MaxMessageSizeInKilobytes>256</MaxMessageSizeInKilobytes>", 201, "<MaxMessageSizeInKilobytes>256<"},
		{"premium", true, "", 201, "<MaxSizeInMegabytes>1024</MaxSizeInMegabytes><MaxMessageSizeInKilobytes>1024<"},
		{"large and premium", true, "<MaxSizeInMegabytes>81920</MaxSizeInMegabytes><MaxMessageSizeInKilobytes>102400</MaxMessageSizeInKilobytes>", 201, "<MaxMessageSizeInKilobytes>102400<"},
		{"messages too large for premium", true, "<MaxMessageSizeInKilobytes>102401</MaxMessageSizeInKilobytes>", 400, "between 1024 and 102400"},
		{"messages too small for premium", true, "<MaxMessageSizeInKilobytes>256</MaxMessageSizeInKilobytes>", 400, "between 1024 and 102400"},
		{"premium with partitions", true, "<EnablePartitioning>true</EnablePartitioning>", 400, "Premium"},
	} {
		for path, kind := range map[string]string{"/q": kindQueue, "/t": kindTopic} {
			b := New(&Options{Premium: tt.premium})
			status, body := adminRequest(t, b, "PUT", path, describing(kind, tt.inner))
			if status != tt.status || !strings.Contains(body, tt.want) {
				t.Errorf("%s: got %d %s, want %d with %q", tt.name, status, body, tt.status, tt.want)
			}
			if status == http.StatusCreated {
				status, again := adminRequest(t, b, "PUT", path, body, "If-Match", "*")
				if status != http.StatusOK || !strings.Contains(again, tt.want) {
					t.Errorf("%s, updated: got %d %s, want %q", tt.name, status, again, tt.want)
				}
			}
			b.Close()
		}
	}
}

func TestAdminShowsTheTier(t *testing.T) {
	for premium, want := range map[bool]string{false: "<MessagingSKU>Standard</MessagingSKU><ModifiedTime>", true: "<MessagingSKU>Premium</MessagingSKU><MessagingUnits>1<"} {
		b := New(&Options{Premium: premium})
		defer b.Close()
		if _, body := adminRequest(t, b, "GET", "/$namespaceinfo", ""); !strings.Contains(body, want) {
			t.Errorf("premium %v: got %s, want %s", premium, body, want)
		}
	}
}
