package edge

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"kennel/internal/config"
	"kennel/internal/customhandler"
	"kennel/internal/loopback"
	"kennel/internal/principal"
)

// Who may call what. Machines call the routes of the API with a function key,
// which the Functions host checks before it calls this process. People call the
// same routes through the function Console, which the host lets everyone call:
// there, [People] checks who they are.

// ConsoleFunction serves people, at addresses that begin with ConsoleBase.
const (
	ConsoleFunction = "Console"
	ConsoleBase     = "/api/console"
)

// Anonymous are the functions that the host lets everyone call: their authLevel
// is anonymous. All others require a function key.
var Anonymous = []string{"Health", ConsoleFunction}

// A Role is an app role of the Entra application that signs people in.
type Role string

// The roles of people.
const (
	Reader   Role = "Reader"
	Operator Role = "Operator"
)

// mayAct reports whether a person may do what a role may. Operators may do what
// readers may.
func mayAct(p principal.Principal, needed Role) bool {
	return slices.Contains(p.Roles, string(needed)) || slices.Contains(p.Roles, string(Operator))
}

// Role returns the role that a person needs for the route.
func (rt *Route) Role() Role {
	if strings.HasPrefix(rt.Pattern, "GET ") {
		return Reader
	}
	return Operator
}

// Unnamed is recorded for a change whose caller gave no name.
const Unnamed = "unknown"

// consoleHeader is a header that a page of another site cannot send.
const consoleHeader = "X-Kennel-Console"

// consoleDoctor is the only route of people that is a GET and writes.
const consoleDoctor = "GET " + ConsoleBase + "/api/doctor"

// People decides which people may call the API.
type People struct {
	// local: the app runs on the machine of a developer, so everyone who
	// reaches it there may do everything. A process that serves a host always
	// listens on a loopback address.
	local bool

	// signedIn: the platform reports who calls, and lets no caller send its
	// header.
	signedIn bool

	crossOrigin *http.CrossOriginProtection
	log         *slog.Logger
}

// NewPeople returns the people of an app with these settings.
func NewPeople(cfg config.Config, log *slog.Logger) *People {
	return &People{
		local:       !cfg.Platform.InAzure() && !cfg.SignedIn,
		signedIn:    cfg.SignedIn,
		crossOrigin: http.NewCrossOriginProtection(),
		log:         log,
	}
}

// serve serves a call for a route of people. Each change that a person makes or
// tries to make is logged.
func (c *People) serve(w http.ResponseWriter, r *http.Request, rt *Route) {
	p, err := c.identify(r)
	if err != nil {
		c.challenge(w)
		customhandler.WriteError(w, r, err)
		return
	}
	if rt.Role() == Operator {
		defer func() {
			c.log.InfoContext(r.Context(), "change through the console", "principal", p.Name, "principalId", p.ID,
				"route", rt.Pattern, "path", r.URL.EscapedPath(), "status", customhandler.Answered(w), "reason", reasonOf(r))
		}()
	}
	if err := c.authorize(r, p, rt.Role()); err != nil {
		customhandler.WriteError(w, r, err)
		return
	}
	if rt.Pattern == consoleDoctor && !c.ownPage(r) {
		customhandler.WriteError(w, r, foreignSite("The doctor writes to storage, so a call through the console must come from its own pages, with the header X-Kennel-Console: 1. Nothing was done."))
		return
	}
	rt.serve(w, r.WithContext(context.WithValue(r.Context(), personKey{}, p)))
}

// reasonHeader has the reason of a change, with percent signs as in an address:
// a header cannot carry every letter.
const reasonHeader = "X-Kennel-Reason"

// challenge names the address at which a person signs in, if there is one.
func (c *People) challenge(w http.ResponseWriter) {
	scheme := "Bearer"
	if c.signedIn {
		scheme += ` authorization_uri="/.auth/login/aad"`
	}
	w.Header().Set("WWW-Authenticate", scheme)
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

// identify returns who calls.
func (c *People) identify(r *http.Request) (p principal.Principal, err error) {
	headers := r.Header[principal.Header]
	switch {
	case len(headers) > 0 && !c.signedIn:
		return p, signInRequired("The header X-MS-CLIENT-PRINCIPAL is not accepted, because this app does not sign callers in: WEBSITE_AUTH_ENABLED is not true. Omit it.")
	case len(headers) == 1:
		p, err = principal.Parse(headers[0])
		if err != nil {
			c.log.WarnContext(r.Context(), "cannot read who calls the console", "error", err)
			return p, signInRequired("Who you are could not be read from the header X-MS-CLIENT-PRINCIPAL: " + err.Error() + ". Sign in with an account of Microsoft Entra.")
		}
		return p, nil
	case c.signedIn:
		return p, signInRequired("Sign in first: open /.auth/login/aad of this app in a browser. Programs use the address without /console, with a function key.")
	case !c.local:
		return p, signInRequired("The console requires sign-in, which is off for this app: an operator has to turn on authentication with Microsoft Entra. Programs use the address without /console, with a function key.")
	case !loopback.IsHost(r.Host):
		// A page can make a browser believe that its own name is an address of
		// this machine. Its requests carry that name.
		return p, signInRequired("Without sign-in the console answers only at an address of this machine, such as http://" + thisMachine(r.Host) + ".")
	}
	return principal.Principal{Name: Unnamed, Roles: []string{string(Operator)}}, nil
}

// authorize returns an error if a person must not make a call.
func (c *People) authorize(r *http.Request, p principal.Principal, needed Role) error {
	if needed == Operator && !c.ownPage(r) {
		return foreignSite("A change through the console must come from its own pages, with the header X-Kennel-Console: 1. Nothing was changed.")
	}
	if !mayAct(p, needed) {
		return &customhandler.Error{Status: http.StatusForbidden, Code: "role_required",
			Message: fmt.Sprintf("%s does not have the app role %s, which this request needs. Nothing was changed. An administrator assigns it in Microsoft Entra, under Enterprise applications, Users and groups. Then sign in again.", p.Name, needed)}
	}
	return nil
}

// ownPage reports whether a call that changes something comes from a page of the
// console, and not from one of another site.
func (c *People) ownPage(r *http.Request) bool {
	changing := *r
	changing.Method = http.MethodPost // a GET is allowed to every site
	// The check compares the host of the origin, which "null" lacks as well.
	return r.Host != "" && c.crossOrigin.Check(&changing) == nil && r.Header.Get(consoleHeader) == "1"
}

func foreignSite(message string) error {
	return &customhandler.Error{Status: http.StatusForbidden, Code: "cross_site", Message: message}
}

func signInRequired(message string) error {
	return &customhandler.Error{Status: http.StatusUnauthorized, Code: "sign_in_required", Message: message}
}

// thisMachine returns an address of this machine with the port of a request.
func thisMachine(hostport string) string {
	_, port, err := net.SplitHostPort(hostport)
	if _, numeric := strconv.ParseUint(port, 10, 16); err != nil || numeric != nil {
		return "127.0.0.1"
	}
	return "127.0.0.1:" + port
}

// personKey is the key of a caller's person in the context of a call.
type personKey struct{}

// PersonOf returns who makes a call through the console.
func PersonOf(r *http.Request) (p principal.Principal, ok bool) {
	p, ok = r.Context().Value(personKey{}).(principal.Principal)
	return p, ok
}
