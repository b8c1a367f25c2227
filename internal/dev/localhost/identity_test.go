package localhost

import (
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
