package localhost

import (
	"strings"
	"testing"
)

func TestExpand(t *testing.T) {
	env := settings{"Name": "x", "EMPTY": ""}
	for text, want := range map[string]string{
		"a%NAME%b%name%": "axbx",
		"%EMPTY%":        "",
		"100%":           "100%",
		"%%":             "%%",
	} {
		if got, err := env.resolve(text); err != nil || got != want {
			t.Errorf("resolve %q: got %q, %v; want %q", text, got, err, want)
		}
	}
	if got, missing := env.expand("<%GONE%>"); got != "<>" || len(missing) != 1 {
		t.Errorf("expand an unset name: got %q, %v; want nothing in its place", got, missing)
	}
	if _, err := env.resolve("%GONE%"); err == nil || !strings.Contains(err.Error(), "GONE") {
		t.Errorf("resolve an unset name: got %v, want an error with the name", err)
	}
}
