package principal

import (
	"encoding/base64"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestParse(t *testing.T) {
	const roleClaim = "http://schemas.microsoft.com/ws/2008/06/identity/claims/role"
	long := strings.Repeat("ü", 300)
	for _, tt := range []struct {
		name, text string
		want       Principal
	}{
		{"as the platform sends it", `{"auth_typ":"aad","claims":[{"typ":"aud","val":"1"},{"typ":"preferred_username","val":"ann@example.com"},{"typ":"name","val":"Ann"},` +
			`{"typ":"http://schemas.microsoft.com/identity/claims/objectidentifier","val":"5b54"},{"typ":"roles","val":"Reader"},{"typ":"roles","val":"Operator"}],` +
			`"name_typ":"http://schemas.xmlsoap.org/ws/2005/05/identity/claims/emailaddress","role_typ":"` + roleClaim + `"}`,
			Principal{"ann@example.com", "5b54", []string{"Reader", "Operator"}}},
		{"claims of the kinds that it names", `{"auth_typ":"aad","name_typ":"n","role_typ":"r","claims":[{"typ":"name","val":"Ann"},{"typ":"n","val":"ann"},{"typ":"r","val":"Reader"},{"typ":"roles","val":"Operator"},{"typ":"oid","val":"5"}]}`,
			Principal{"ann", "5", []string{"Reader", "Operator"}}},
		{"a program without a name", `{"auth_typ":"aad","name_typ":"n","role_typ":"r","claims":[{"typ":"oid","val":"5"}]}`, Principal{"5", "5", nil}},
		{"a role of another kind", `{"auth_typ":"aad","role_typ":"r","claims":[{"typ":"name","val":"Ann"},{"typ":"role","val":"Operator"},{"typ":"groups","val":"Operator"},{"typ":"","val":"Operator"},{"typ":"Roles","val":"Operator"}]}`, Principal{"Ann", "", nil}},
		{"no kind of roles", `{"auth_typ":"aad","claims":[{"typ":"name","val":"Ann"},{"val":"Operator"},{"typ":"roles","val":""}]}`, Principal{"Ann", "", nil}},
		{"a name that would break a line", `{"auth_typ":"aad","claims":[{"typ":"name","val":" A\r\n\u2028n\u001b "}]}`, Principal{"A???n?", "", nil}},
		{"a long name", `{"auth_typ":"aad","claims":[{"typ":"name","val":"` + long + `"}]}`, Principal{long[:2*maxName], "", nil}},
		{"more members", `{"auth_typ":"aad","more":{"claims":[]},"claims":[{"typ":"name","val":"Ann","more":[1]}]}`, Principal{"Ann", "", nil}},
	} {
		got, err := Parse(base64.StdEncoding.EncodeToString([]byte(tt.text)))
		if err != nil || !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: %+v, %v; want %+v", tt.name, got, err, tt.want)
		}
	}
	const claims = `"claims":[{"typ":"name","val":"Ann"},{"typ":"roles","val":"Operator"}]`
	for _, text := range []string{
		"", "null", "[]", `"x"`, "{", "{}", `{` + claims + `}`, `{"auth_typ":"github",` + claims + `}`, `{"AUTH_TYP":"aad",` + claims + `}`,
		`{"auth_typ":["aad"],` + claims + `}`, `{"auth_typ":null,` + claims + `}`, `{"auth_typ":"aad"}`, `{"auth_typ":"aad","claims":{}}`, `{"auth_typ":"aad","claims":[1]}`,
		`{"auth_typ":"aad","claims":[{"typ":"name","val":1}]}`, `{"auth_typ":"aad","claims":[{"typ":"name","val":""}]}`,
		`{"auth_typ":"aad","auth_typ":"aad",` + claims + `}`, `{"auth_typ":"aad",` + claims + `,` + claims + `}`,
		`{"auth_typ":"aad","claims":[{"typ":"name","val":"Ann"},{"typ":"x","val":"Operator","typ":"roles"}]}`,
		`{"auth_typ":"aad",` + claims + `}{}`, `{"auth_typ":"aad",` + claims + `} x`, "{\"auth_typ\":\"aad\"," + claims + ",\"x\":\"\xff\"}",
		`{"auth_typ":"aad","x":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `,` + claims + `}`,
	} {
		if p, err := Parse(base64.StdEncoding.EncodeToString([]byte(text))); err == nil {
			t.Errorf("%.100s: %+v, want an error", text, p)
		}
	}
	valid := base64.StdEncoding.EncodeToString([]byte(`{"auth_typ":"aad",` + claims + `}`))
	if _, err := Parse(valid); err != nil {
		t.Fatal(err)
	}
	for _, header := range []string{"", " ", valid + " ", valid[:len(valid)-1], valid + "====", valid[:8] + "\n" + valid[8:], strings.ReplaceAll(valid, "e", "-"), valid + ", " + valid, strings.Repeat("A", maxHeader+4)} {
		if p, err := Parse(header); err == nil {
			t.Errorf("%.100q: %+v, want an error", header, p)
		}
	}
}

// FuzzParse: whatever the header, an accepted one is of Microsoft Entra, has
// a name that can be shown, and has the roles of its claims only.
func FuzzParse(f *testing.F) {
	f.Add(`{"auth_typ":"aad","name_typ":"n","claims":[{"typ":"n","val":"ann"},{"typ":"roles","val":"Reader"},{"typ":"roles","val":"Operator"}]}`)
	f.Add(base64.StdEncoding.EncodeToString([]byte(`{"auth_typ":"aad","role_typ":"r","claims":[{"typ":"oid","val":"5"},{"typ":"r","val":"Reader"}]}`)))
	f.Add(base64.StdEncoding.EncodeToString([]byte(`{"auth_typ":"github","claims":[{"typ":"roles","val":"Operator"}]}`)))
	f.Add("e30=")
	f.Add("\n")
	f.Fuzz(func(t *testing.T, header string) {
		// The fuzzer finds more if it need not write base64.
		for _, header := range []string{header, base64.StdEncoding.EncodeToString([]byte(header))} {
			p, err := Parse(header)
			if err != nil {
				if p.Name != "" || p.Roles != nil || strings.Contains(err.Error(), "\n\n") {
					t.Errorf("%q: %+v beside %v", header, p, err)
				}
				continue
			}
			text, err := base64.StdEncoding.DecodeString(header)
			if err != nil {
				t.Fatalf("accepted %q, which is not base64", header)
			}
			var principal map[string]any
			if err := json.Unmarshal(text, &principal); err != nil {
				t.Fatalf("accepted %q: %v", text, err)
			}
			allowed := []any{"roles"}
			if kind, ok := principal["role_typ"].(string); ok {
				allowed = append(allowed, kind)
			}
			var roles []string
			list, _ := principal["claims"].([]any)
			for _, c := range list {
				c := c.(map[string]any)
				kind, _ := c["typ"].(string)
				if value, _ := c["val"].(string); kind != "" && value != "" && slices.Contains(allowed, any(kind)) {
					roles = append(roles, value)
				}
			}
			if principal["auth_typ"] != "aad" || !slices.Equal(p.Roles, roles) {
				t.Errorf("%q: roles %q, want %q of Entra", text, p.Roles, roles)
			}
			if p.Name == "" || !utf8.ValidString(p.Name) || strings.ContainsFunc(p.Name, func(r rune) bool { return !unicode.IsPrint(r) }) || len([]rune(p.Name)) > maxName {
				t.Errorf("%q: name %q", text, p.Name)
			}
		}
	})
}
