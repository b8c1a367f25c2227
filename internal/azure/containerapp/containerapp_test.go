package containerapp

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"kennel/internal/scale/check"
)

const id = "/subscriptions/00000000-0000-0000-0000-000000000001/resourceGroups/dogs/providers/Microsoft.App/containerApps/worker"

// arm plays Azure Resource Manager.
type arm struct {
	status  int
	body    string
	header  http.Header
	fails   error
	asked   []string
	deaf    bool
	noToken bool
}

func (m *arm) RoundTrip(r *http.Request) (*http.Response, error) {
	body, _ := io.ReadAll(r.Body)
	m.asked = append(m.asked, strings.TrimSpace(r.Method+" "+r.URL.String()+" "+r.Header.Get("Authorization")+" "+r.Header.Get("Content-Type")+" "+string(body)))
	if m.deaf {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	if m.fails != nil {
		return nil, m.fails
	}
	return &http.Response{StatusCode: m.status, Header: m.header, Body: io.NopCloser(strings.NewReader(m.body))}, nil
}

// GetToken implements azcore.TokenCredential.
func (m *arm) GetToken(_ context.Context, o policy.TokenRequestOptions) (azcore.AccessToken, error) {
	if m.noToken || len(o.Scopes) != 1 || o.Scopes[0] != "https://management.azure.com/.default" {
		return azcore.AccessToken{}, errors.New("no token")
	}
	return azcore.AccessToken{Token: "secret", ExpiresOn: time.Now().Add(time.Hour)}, nil
}

func open(t *testing.T, m *arm) *App {
	t.Helper()
	a, err := Open(id, &Options{Credential: m, HTTP: &http.Client{Transport: m}})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestRequests: one request reads and one changes only the minimum.
func TestRequests(t *testing.T) {
	const address = "https://management.azure.com" + id + "?api-version=2025-01-01 Bearer secret"
	for _, tt := range []struct {
		body             string
		minimum, maximum int
	}{
		{`{"name":"worker","properties":{"template":{"containers":[{}],"scale":{"minReplicas":2,"maxReplicas":7,"rules":[]}}}}`, 2, 7},
		{`{"properties":{"template":{"scale":{"minReplicas":null,"maxReplicas":null}}}}`, 0, 10},
		{`{"properties":{"template":{"scale":null}}}`, 0, 10},
	} {
		m := &arm{status: 200, body: tt.body}
		minimum, maximum, err := open(t, m).Replicas(t.Context())
		if err != nil || minimum != tt.minimum || maximum != tt.maximum || len(m.asked) != 1 || m.asked[0] != "GET "+address {
			t.Errorf("%s: %d, %d, %v after %q", tt.body, minimum, maximum, err, m.asked)
		}
	}
	m := &arm{status: 202}
	if err := open(t, m).SetMinimum(t.Context(), 0); err != nil || len(m.asked) != 1 ||
		m.asked[0] != "PATCH "+address+` application/json {"properties":{"template":{"scale":{"minReplicas":0}}}}` {
		t.Errorf("%v after %q", err, m.asked)
	}
}

// TestAnswers: each answer has its meaning, and no error has the token.
func TestAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tt := range []struct {
			name string
			arm  arm
			want error // nil: another error
			text string
		}{
			{"401", arm{status: 401}, check.ErrDenied, "401"},
			{"403", arm{status: 403, body: `{"error":{"code":"AuthorizationFailed","message":"The client\n does not have authorization."}}`}, check.ErrDenied, "403 AuthorizationFailed The client does not have authorization."},
			{"404", arm{status: 404, body: `{"error":{"code":"ResourceNotFound"}}`}, ErrNotFound, "404 ResourceNotFound"},
			{"409", arm{status: 409, body: `{"error":{"code":"ContainerAppOperationInProgress"}}`}, check.ErrBusy, "409"},
			{"429", arm{status: 429}, check.ErrBusy, "429"},
			{"500", arm{status: 500, body: "<html>"}, nil, "500"},
			{"no JSON", arm{status: 200, body: "<html>"}, nil, "not a container app"},
			{"no answer", arm{deaf: true}, context.DeadlineExceeded, "no answer"},
			{"reset", arm{fails: errors.New("reset")}, nil, "reset"},
			{"no token", arm{noToken: true}, ErrSignIn, "no token"},
		} {
			began := time.Now()
			_, _, err := open(t, &tt.arm).Replicas(t.Context())
			if err == nil || !strings.Contains(err.Error(), tt.text) || strings.Contains(err.Error(), "secret") || tt.want != nil && !errors.Is(err, tt.want) ||
				tt.want == nil && (errors.Is(err, check.ErrBusy) || errors.Is(err, check.ErrDenied)) || time.Since(began) > tryTimeout {
				t.Errorf("%s: %v after %v, want %v with %q", tt.name, err, time.Since(began), tt.want, tt.text)
			}
		}
	})
}

// TestMayChange: one request finds out, from the actions of all roles.
func TestMayChange(t *testing.T) {
	for _, tt := range []struct {
		roles string // of the answer
		want  error
	}{
		{`{"actions":["Microsoft.Authorization/*/read","Microsoft.App/containerApps/*"],"notActions":[]}`, nil},
		{`{"actions":["*/read"]},{"actions":["microsoft.app/containerapps/WRITE"]}`, nil},
		{`{"actions":["*"],"notActions":["Microsoft.Authorization/*/Write"]}`, nil},
		{`{"actions":["*/write"]}`, nil},
		{`{"actions":["*"],"notActions":["Microsoft.App/*"]}`, check.ErrDenied},
		{`{"actions":["*/read","Microsoft.App/containerApps/writes","Microsoft.App/containerApps/*/action","Microsoft.App/managedEnvironments/*",""]}`, check.ErrDenied},
		{`{"actions":["MicrosoftXApp/containerApps/write"]}`, check.ErrDenied},
		{``, check.ErrDenied},
	} {
		m := &arm{status: 200, body: `{"value":[` + tt.roles + `]}`}
		err := open(t, m).MayChange(t.Context())
		if !errors.Is(err, tt.want) || len(m.asked) != 1 || m.asked[0] != "GET https://management.azure.com"+id+"/providers/Microsoft.Authorization/permissions?api-version=2022-04-01 Bearer secret" {
			t.Errorf("%s: %v after %q, want %v", tt.roles, err, m.asked, tt.want)
		}
	}
	for _, m := range []*arm{{status: 403}, {status: 200, body: "<html>"}} {
		if err := open(t, m).MayChange(t.Context()); err == nil || m.status == 403 && !errors.Is(err, check.ErrDenied) {
			t.Errorf("%d %s: %v", m.status, m.body, err)
		}
	}
}

// TestTooMany: after 429, no request is sent for as long as the answer states,
// and the error stays the same.
func TestTooMany(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tt := range []struct {
			after string
			want  time.Duration
		}{{"300", 5 * time.Minute}, {"", defaultPause}, {"soon", defaultPause}, {"-5", defaultPause}, {"1000000", maxPause}} {
			m := &arm{status: 429, header: http.Header{"Retry-After": {tt.after}}}
			a := open(t, m)
			for range 3 {
				if err := a.SetMinimum(t.Context(), 1); !errors.Is(err, check.ErrBusy) {
					t.Errorf("Retry-After %q: %v", tt.after, err)
				}
			}
			first := a.SetMinimum(t.Context(), 1)
			time.Sleep(tt.want - time.Second)
			if last := a.SetMinimum(t.Context(), 1); last == nil || last.Error() != first.Error() {
				t.Errorf("Retry-After %q: %v, and later %v", tt.after, first, last)
			}
			if len(m.asked) != 1 {
				t.Errorf("Retry-After %q: %d requests within %v", tt.after, len(m.asked), tt.want)
			}
			time.Sleep(2 * time.Second)
			m.status = 200
			if err := a.SetMinimum(t.Context(), 1); err != nil || len(m.asked) != 2 {
				t.Errorf("Retry-After %q: %v after %d requests", tt.after, err, len(m.asked))
			}
		}
	})
}

func TestOpen(t *testing.T) {
	if got := Name(id); got != "worker" {
		t.Errorf("name %q", got)
	}
	for _, wrong := range []string{"", "worker", id + "/revisions/x", id + "?x=1", "https://management.azure.com" + id, strings.Replace(id, "containerApps", "jobs", 1), strings.Replace(id, "dogs", "a/../b", 1)} {
		if _, err := Open(wrong, nil); err == nil {
			t.Errorf("%q is accepted", wrong)
		}
	}
}
