package apptest

import (
	"bufio"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	"kennel/channels"
	"kennel/internal/dev/devbus"
	"kennel/internal/names"
)

// PrincipalOf returns the header of a caller.
func PrincipalOf(name string, roles ...string) string {
	type claim struct {
		Type  string `json:"typ"`
		Value string `json:"val"`
	}
	const roleClaim, nameClaim = "http://schemas.microsoft.com/ws/2008/06/identity/claims/role", "http://schemas.xmlsoap.org/ws/2005/05/identity/claims/emailaddress"
	claims := []claim{{nameClaim, name}, {"http://schemas.microsoft.com/identity/claims/objectidentifier", "5b5450db-eb26-4c1a-981c-ba1d25f0483d"}}
	for _, role := range roles {
		claims = append(claims, claim{roleClaim, role})
	}
	text, err := json.Marshal(map[string]any{"auth_typ": "aad", "name_typ": nameClaim, "role_typ": roleClaim, "claims": claims})
	if err != nil {
		panic(err)
	}
	return base64.StdEncoding.EncodeToString(text)
}

// Draft is the body of a blog.
const Draft = `{"title":"t","text":"t","userId":"ann"}`

func Item(n int) string {
	return fmt.Sprintf(`{"id":"i%d","account":"a%d","sku":"s","quantity":2,"unitPrice":"1.25","currency":"EUR"}`, n, n%2)
}

func Items(n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(Item(i) + "\n")
	}
	return b.String()
}

const Owner = `{"owner":"ann"}`

func SkipAnswer(r *bufio.Reader) error {
	status, err := r.ReadSlice('\n')
	if err != nil || !strings.HasPrefix(string(status), "HTTP/1.1 200") {
		return fmt.Errorf("answer %q: %w", status, err)
	}
	length := 0
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return err
		}
		if len(line) == 2 {
			break
		}
		if value, ok := strings.CutPrefix(string(line), "Content-Length: "); ok {
			fmt.Sscan(value, &length)
		}
	}
	_, err = r.Discard(length)
	return err
}

func Median[T cmp.Ordered](values []T) T {
	slices.Sort(values)
	return values[len(values)/2]
}

// Series returns the values of the series in a text of metrics, by their names
// and labels as they are written. Package metrics tests the form of the text.
func Series(t *testing.T, text string) map[string]float64 {
	t.Helper()
	values := make(map[string]float64)
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok && name != "#" {
			n, err := strconv.ParseFloat(value, 64)
			if err != nil {
				t.Fatal(err)
			}
			values[name] = n
		}
	}
	return values
}

// WithBus starts a bus with the topic, and returns the setting for it.
func WithBus(t testing.TB) (*devbus.Local, string) {
	t.Helper()
	bus, err := devbus.Listen(nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(bus.Close)
	if err := bus.CreateTopic(names.SignalsTopic, nil); err != nil {
		t.Fatal(err)
	}
	return bus, "ServiceBus=" + bus.ConnectionString()
}

const SomeParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func DeletionOf(c channels.Channel) string {
	return `{"v":1,"channel":"` + c.Name + `","incarnation":"` + c.Incarnation + `"}`
}

// ProbeOf requests an address of the probes of a worker.
func ProbeOf(t *testing.T, p http.Handler, method, path string) (status int, reason string) {
	t.Helper()
	w := httptest.NewRecorder()
	p.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, path, nil))
	var answer struct{ Status, Reason string }
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
		t.Errorf("%s %s: %q: %v", method, path, w.Body, err)
	}
	if h := w.Header(); h.Get("Cache-Control") != "no-store" || h.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("%s %s: headers %v", method, path, h)
	}
	return w.Code, answer.Reason
}
