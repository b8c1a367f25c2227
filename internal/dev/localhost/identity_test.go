package localhost

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// TestIdentities: an envelope names the key of its caller in three claims.
func TestIdentities(t *testing.T) {
	app := plainApp()
	app = files{"host.json": app["host.json"], "Still/function.json": `{"bindings":[` + httpBinding + `,` + httpOutput + `]}`}
	r := start(t, enveloped(app), Options{Keys: &Keys{Master: "master", Host: "host", Functions: map[string]string{"Still": "own"}}})
	for key, want := range map[string]string{"host": "Function true default", "own": "Function true default", "master": "Admin true master"} {
		_, text := r.call(t, "GET", "/api/still", nil, func(req *http.Request) { req.Header.Set("x-functions-key", key) })
		var envelope struct {
			Data struct {
				Req struct {
					Identities []struct {
						AuthenticationType string
						IsAuthenticated    bool
						Claims             []struct{ Type, Value string }
					}
				}
			}
		}
		if err := json.Unmarshal([]byte(text), &envelope); err != nil || len(envelope.Data.Req.Identities) != 1 {
			t.Fatalf("%s: %v in %s", key, err, text)
		}
		who := envelope.Data.Req.Identities[0]
		var names, values []string
		for _, c := range who.Claims {
			names, values = append(names, c.Type[strings.LastIndexByte(c.Type, '/')+1:]), append(values, c.Value)
		}
		if got := strings.Join(values, " "); got != want || strings.Join(names, " ") != "authlevel invoke keyid" || who.AuthenticationType != "WebJobsAuthLevel" || !who.IsAuthenticated {
			t.Errorf("with the key %s: %+v, want the values %s", key, who, want)
		}
	}
}

// TestPersons: as the genuine host, this one reads who the platform has signed
// in where there is a platform. It answers 500 if it cannot, and names the person
// before the key.
func TestPersons(t *testing.T) {
	const served = http.StatusCreated // the answer of the function
	encoded := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	ann := encoded(`{"auth_typ":"aad","name_typ":"name","role_typ":"roles","claims":[{"typ":"name","val":"Ann"},{"typ":"roles","val":"Reader"}]}`)
	admin := encoded(`{"auth_typ":"aad","claims":[{"typ":"http://schemas.microsoft.com/2017/07/functions/claims/authlevel","val":"Admin"}]}`)
	for _, platform := range []bool{true, false} {
		app := plainApp()
		app = files{"host.json": app["host.json"], "Still/function.json": `{"bindings":[` + httpBinding + `,` + httpOutput + `]}`}
		opt := Options{Keys: &Keys{Master: "master", Host: "host"}}
		if platform {
			opt.Env = map[string]string{"WEBSITE_AUTH_ENABLED": "True"}
		}
		r := start(t, enveloped(app), opt)
		for _, tt := range []struct {
			name, key string
			headers   []string
			want      int    // with a platform
			names     string // with a platform
		}{
			{"nobody", "host", nil, served, "WebJobsAuthLevel"},
			{"a person", "host", []string{ann}, served, "aad Ann, WebJobsAuthLevel"},
			{"a person without a key", "", []string{ann}, 401, ""},
			{"not base64", "host", []string{"ceo"}, 500, ""},
			{"two", "host", []string{ann, ann}, 500, ""},
			{"not JSON", "host", []string{encoded("ceo")}, 500, ""},
			{"one who names himself administrator", "", []string{admin}, 401, ""},
		} {
			resp, text := r.call(t, "GET", "/api/still", nil, func(req *http.Request) {
				req.Header.Set("x-functions-key", tt.key)
				for _, value := range tt.headers {
					req.Header.Add("X-MS-CLIENT-PRINCIPAL", value)
				}
			})
			want, names := tt.want, tt.names
			if !platform && want == 500 {
				want = served
			}
			if !platform {
				names = "WebJobsAuthLevel"
			}
			if resp.StatusCode != want {
				t.Errorf("%s, platform %t: got %d, want %d", tt.name, platform, resp.StatusCode, want)
			}
			if want != served {
				continue
			}
			var envelope struct {
				Data struct {
					Req struct {
						Identities []struct {
							AuthenticationType string
							Name               *string
						}
					}
				}
			}
			if err := json.Unmarshal([]byte(text), &envelope); err != nil {
				t.Fatalf("%s: %v in %s", tt.name, err, text)
			}
			var got []string
			for _, i := range envelope.Data.Req.Identities {
				if got = append(got, i.AuthenticationType); i.Name != nil {
					got[len(got)-1] += " " + *i.Name
				}
			}
			if strings.Join(got, ", ") != names {
				t.Errorf("%s, platform %t: the envelope names %q, want %q", tt.name, platform, got, names)
			}
		}
		r.end(t)
	}
}
