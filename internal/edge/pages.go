package edge

import (
	"net/http"
	"slices"
	"strings"

	page "kennel/internal/console"
)

// Routes returns the routes of people: those of the API, and the page. Calls
// come in envelopes, because of the second output in function.json. That is
// essential: the host forwards other calls by a path that it rebuilds after it
// has chosen the function, and /api/console/..%5Cgates would become /api/gates,
// whose key was not checked. An envelope reaches the routes of its function
// only.
func (c *People) Routes(api []Route) []Route {
	routes := append(slices.Clone(api), c.personRoute(api))
	for i := range routes {
		rt := &routes[i]
		rt.console, rt.Function = c.serve, ConsoleFunction
		rt.Pattern = strings.Replace(rt.Pattern, " /api/", " "+ConsoleBase+"/api/", 1)
		rt.MaxBody = 0 // an envelope is read as a whole
	}
	return append(routes, c.pages()...)
}

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

// personRoute serves GET /api/console/api/me. The page shows who is signed in,
// what this person may do, and the views of the functions that the program has.
func (c *People) personRoute(api []Route) Route {
	functions := []string{}
	for _, rt := range api {
		functions = append(functions, rt.Function)
	}
	slices.Sort(functions)
	functions = slices.Compact(functions)
	return Route{Pattern: "GET /api/me", Handler: Respond(func(error) *Fault { return nil }, func(r *http.Request) (Reply, error) {
		p, _ := PersonOf(r)
		roles := []Role{}
		for _, known := range []Role{Reader, Operator} {
			if mayAct(p, known) {
				roles = append(roles, known)
			}
		}
		return Reply{Status: http.StatusOK, Body: struct {
			Name      string   `json:"name"`
			Roles     []Role   `json:"roles"`
			Local     bool     `json:"local"`
			Functions []string `json:"functions"`
		}{p.Name, roles, c.local, functions}}, nil
	})}
}
