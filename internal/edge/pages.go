package edge

import (
	"net/http"
	"net/url"

	page "kennel/internal/console"
)

// reasonHeader has the reason of a change, with percent signs as in an address:
// a header cannot carry every letter.
const reasonHeader = "X-Kennel-Reason"

// pages returns the routes of the page and its files. They are the same for
// every caller and have no data, so every caller may read them. The page itself
// is 401 for a caller who is not known: a browser shows it all the same, and it
// explains why, and how to sign in.
func (c *People) pages() []Route {
	var routes []Route
	for _, file := range page.Files() {
		rt := Route{Function: ConsoleFunction, Pattern: "GET " + ConsoleBase + "/" + string(file), Conditions: []string{IfNoneMatch}, Handler: file}
		if file == page.Index {
			rt.Pattern, rt.Handler = "GET "+ConsoleBase, c.index(file)
		}
		routes = append(routes, rt)
	}
	return routes
}

func (c *People) index(file page.File) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := c.identify(r); err != nil {
			c.challenge(w)
			file.Refuse(w, http.StatusUnauthorized)
			return
		}
		file.ServeHTTP(w, r)
	})
}

// challenge names the address at which a person signs in, if there is one.
func (c *People) challenge(w http.ResponseWriter) {
	scheme := "Bearer"
	if c.signedIn {
		scheme += ` authorization_uri="/.auth/login/aad"`
	}
	w.Header().Set("WWW-Authenticate", scheme)
}

// personRoute serves GET /api/console/api/me. The page shows who is signed in,
// and what this person may do.
func (c *People) personRoute() Route {
	return Route{Pattern: "GET /api/me", Handler: Respond(func(error) *Fault { return nil }, func(r *http.Request) (Reply, error) {
		p, _ := PersonOf(r)
		roles := []Role{}
		for _, known := range []Role{Reader, Operator} {
			if mayAct(p, known) {
				roles = append(roles, known)
			}
		}
		return Reply{Status: http.StatusOK, Body: struct {
			Name  string `json:"name"`
			Roles []Role `json:"roles"`
			Local bool   `json:"local"`
		}{p.Name, roles, c.local}}, nil
	})}
}

// MaxReason is the length of a reason in characters, as for gates.
const MaxReason = 1000

// reasonOf returns the reason of a change, for the log.
func reasonOf(r *http.Request) string {
	text, err := url.PathUnescape(r.Header.Get(reasonHeader))
	if err != nil {
		text = r.Header.Get(reasonHeader)
	}
	runes := []rune(text)
	return string(runes[:min(len(runes), MaxReason)])
}
