package api

import (
	"cmp"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"

	"kennel/internal/control"
	"kennel/internal/customhandler"
	"kennel/internal/edge"
)

// People is how a resource records who makes a change.
type People struct {
	SignedIn bool         // the platform signs people in
	Log      *slog.Logger // nil: nothing is logged
}

// pauseOf reads the optional body {"reason":"…","by":"…"} of a pause or resume,
// and who makes it: a person who has signed in, or else whom the body names.
func (c People) pauseOf(r *http.Request) (p control.Pause, err error) {
	var body struct {
		By     string `json:"by"`
		Reason string `json:"reason"`
	}
	if customhandler.HasBody(r) {
		if err := customhandler.ReadJSON(r, edge.MaxBody, &body); err != nil {
			return p, err
		}
	}
	by := strings.TrimSpace(body.By)
	switch {
	case utf8.RuneCountInString(by) > control.MaxName:
		return p, edge.BadRequest("bad_pause", fmt.Sprintf("by is longer than %d characters.", control.MaxName))
	case strings.ContainsFunc(by, unicode.IsControl):
		return p, edge.BadRequest("bad_pause", "by has a control character.")
	case utf8.RuneCountInString(body.Reason) > control.MaxReason:
		return p, edge.BadRequest("bad_pause", fmt.Sprintf("reason is longer than %d characters.", control.MaxReason))
	}
	p = control.Pause{By: control.Person{Name: cmp.Or(by, edge.Unnamed)}, Reason: body.Reason}
	if person, ok := edge.PersonOf(r); ok && c.SignedIn {
		p.By = control.Person{Name: person.Name, Verified: true}
	}
	return p, nil
}

// made logs a change.
func (c People) made(r *http.Request, what, kind string, p control.Pause) {
	if c.Log != nil {
		c.Log.InfoContext(r.Context(), what, kind, r.PathValue(kind), "by", p.By.Name, "verified", p.By.Verified, "reason", p.Reason)
	}
}
