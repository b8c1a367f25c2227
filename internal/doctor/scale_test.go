package doctor

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"kennel/internal/azure/containerapp"
)

// manager plays Azure Resource Manager with a container app.
type manager struct {
	read, roles int    // status of an answer
	actions     string // of the identity's role
	noToken     bool
}

func (m manager) RoundTrip(r *http.Request) (*http.Response, error) {
	answer := &http.Response{StatusCode: m.read}
	body := `{"properties":{"template":{"scale":{"minReplicas":2,"maxReplicas":7}}}}`
	if strings.HasSuffix(r.URL.Path, "/permissions") {
		answer.StatusCode, body = m.roles, `{"value":[{"actions":[`+m.actions+`]}]}`
	}
	if r.Method != http.MethodGet {
		return nil, errors.New("the doctor changes nothing")
	}
	answer.Body = io.NopCloser(strings.NewReader(body))
	return answer, nil
}

func (m manager) GetToken(context.Context, policy.TokenRequestOptions) (azcore.AccessToken, error) {
	if m.noToken {
		return azcore.AccessToken{}, errors.New("no identity")
	}
	return azcore.AccessToken{Token: "secret", ExpiresOn: time.Now().Add(time.Hour)}, nil
}

// TestDoctorScaling: each missing right on the container app is found alone, and
// its fix names the role.
func TestDoctorScaling(t *testing.T) {
	const id = "/subscriptions/00000000-0000-0000-0000-000000000001/resourceGroups/dogs/providers/Microsoft.App/containerApps/worker"
	const read, change = "scaling read", "scaling change"
	const grant = `az role assignment create --assignee "$(az functionapp identity show --name my-app --resource-group my-group --query principalId --output tsv)" --role "`
	for _, tt := range []struct {
		name   string
		arm    manager
		apply  bool
		failed string // the first check that fails
		fix    string
	}{
		{"a dry run", manager{read: 200, roles: 403}, false, "", ""},
		{"a change is allowed", manager{read: 200, roles: 200, actions: `"*/read","Microsoft.App/containerApps/*"`}, true, "", ""},
		{"reading is denied", manager{read: 403, roles: 403}, false, read, grant + `Reader" --scope "` + id + `"`},
		{"all is denied", manager{read: 401, roles: 403}, true, read, grant + `Container Apps Contributor" --scope "` + id + `"`},
		{"only a change is denied", manager{read: 200, roles: 200, actions: `"*/read"`}, true, change, grant + `Container Apps Contributor" --scope "` + id + `"`},
		{"its own roles are hidden", manager{read: 200, roles: 403}, true, change, grant + `Container Apps Contributor" --scope "` + id + `"`},
		{"deleted", manager{read: 404, roles: 404}, true, read, `az functionapp config appsettings set --name my-app --resource-group my-group --settings KENNEL_SCALE_TARGET="$(az containerapp show --name NAME`},
		{"no identity", manager{noToken: true}, true, read, "az functionapp identity assign --name my-app"},
		{"too many requests", manager{read: 429}, true, read, "az containerapp show --ids " + id},
		{"down", manager{read: 503, roles: 503}, true, read, "az containerapp show --ids " + id},
	} {
		cfg := inAzure()
		cfg.ScaleTarget, cfg.ScaleApply = id, tt.apply
		target, err := containerapp.Open(id, &containerapp.Options{Credential: tt.arm, HTTP: &http.Client{Transport: tt.arm}})
		if err != nil {
			t.Fatal(err)
		}
		found := Diagnose(t.Context(), [][]Check{scaleChecks(cfg, target, mender{cfg})})
		if want := map[bool]int{false: 1, true: 2}[tt.apply]; len(found) != want {
			t.Errorf("%s: %d checks, want %d", tt.name, len(found), want)
		}
		failed, fix := "", ""
		for _, f := range found {
			if !f.OK && failed == "" {
				failed, fix = f.Name, f.Fix
			}
			if f.Detail == "" || f.OK != (f.Fix == "") || strings.Contains(f.Detail, "secret") {
				t.Errorf("%s: %+v", tt.name, f)
			}
		}
		if failed != tt.failed || !strings.HasPrefix(fix, tt.fix) || (fix == "") != (tt.fix == "") {
			t.Errorf("%s: %q failed, fix %q, want %q and %q", tt.name, failed, fix, tt.failed, tt.fix)
		}
	}
}
