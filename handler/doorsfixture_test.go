package main

import (
	"encoding/base64"
	"regexp"
	"strings"

	"kennel/internal/api"
	"kennel/internal/apptest"
	"kennel/internal/edge"
	"kennel/internal/principal"
)

// sent is a request to a route of the table.
type sent struct {
	route    string
	console  bool // through the console
	identity identity
	site     site
	host     hostName
	method   string // "": that of the route
	spelling func(path string) string
}

// identity is who calls, by a key or by a principal.
type identity struct {
	name           string
	header         string // whole lines
	query          string
	key            bool // of the function that is called, or of all
	claims         bool // sends X-MS-CLIENT-PRINCIPAL
	reads, changes bool // if the platform vouches for it
	strange        bool // has a parameter that no route knows
}

// site is the page that sends a request, or a program.
type site struct {
	header string // {host} is that of the request
	own    bool   // may change
}

// hostName is what a request has in Host.
type hostName struct {
	name string
	here bool // this machine
}

// mayReach reports whether the table allows a request to reach a route.
func (k *sent) mayReach(mode, pattern string) bool {
	method, path, _ := strings.Cut(pattern, " ")
	path, throughConsole := strings.CutPrefix(path, edge.ConsoleBase)
	if !throughConsole {
		return mode != "worker" && (k.identity.key || pattern == "GET /api/health")
	}
	if !strings.HasPrefix(path, "/api/") {
		return true // files of the page, which have no data
	}
	need, known := needs[method+" "+path]
	if path == "/api/me" {
		need, known = edge.Reader, true
	}
	entitled := false
	switch mode {
	case "local", "worker":
		entitled = k.host.here && !k.identity.claims
	case "signed in":
		entitled = need == edge.Reader && k.identity.reads || need == edge.Operator && k.identity.changes
	}
	if need == edge.Operator || method+" "+path == api.DoctorPattern {
		entitled = entitled && k.site.own
	}
	return known && entitled
}

// text returns the request as it is written.
func (k *sent) text() string {
	method, path, _ := strings.Cut(k.route, " ")
	path = parameters.ReplaceAllString(path, "x")
	if k.console {
		path = edge.ConsoleBase + path
	}
	if k.method != "" {
		method = k.method
	}
	text := method + " " + k.spelling(path) + k.identity.query + " HTTP/1.1\r\nHost: " + k.host.name + "\r\n" + k.identity.header + k.site.header + "\r\n"
	return strings.ReplaceAll(text, "{host}", k.host.name)
}

var parameters = regexp.MustCompile(`\{[a-z]+\}`)

var nothing = identity{name: "nothing"}

// identities are all kinds of callers. The first one is served by the API, the
// second by the console with sign-in.
func identities() []identity {
	person := func(name, value string, reads, changes bool) identity {
		return identity{name: name, header: principal.Header + ": " + value + "\r\n", claims: true, reads: reads, changes: changes}
	}
	asOperator := apptest.PrincipalOf("ann", "Operator")
	plain, err := base64.StdEncoding.DecodeString(asOperator)
	if err != nil {
		panic(err)
	}
	edited := func(old, new string) string {
		if !strings.Contains(string(plain), old) {
			panic(old)
		}
		return base64.StdEncoding.EncodeToString([]byte(strings.Replace(string(plain), old, new, 1)))
	}
	keyed := func(name, key string, valid bool) identity {
		return identity{name: name, header: "x-functions-key: " + key + "\r\n", key: valid}
	}
	asked := func(query string, valid bool) identity {
		return identity{name: query, query: "?" + query, key: valid}
	}
	strange := func(name string) identity {
		return identity{name: name, query: "?" + name + "=" + hostKey, strange: true}
	}
	all := []identity{
		keyed("the host key", hostKey, true),
		person("Operator", asOperator, true, true),
		nothing,
		keyed("the function's key", ownKey, true), keyed("the master key", masterKey, true),
		asked("code="+hostKey, true), asked("CODE="+hostKey, true), asked("code="+hostKey+"&code=wrong", true), asked("clientId=x&code="+hostKey, true),
		asked("code=wrong&code="+hostKey, false), asked("code=", false), asked("clientId="+hostKey, false),
		asked("code="+hostKey+"%00", false), asked("c%6fde=wrong", false), strange("key"), strange("x-functions-key"), strange("code%00"), strange("code%5B%5D"),
		{name: "a wrong key and a right one", header: "x-functions-key: wrong\r\n", query: "?code=" + hostKey},
		person("Reader", apptest.PrincipalOf("ann", "Reader"), true, false),
		person("no roles", apptest.PrincipalOf("ann"), false, false),
		person("role of another case", apptest.PrincipalOf("ann", "operator", "READER"), false, false),
		person("roles in one text", apptest.PrincipalOf("ann", "Reader,Operator"), false, false),
		person("role with a blank", apptest.PrincipalOf("ann", " Operator"), false, false),
		person("role as a list", edited(`"val":"Operator"`, `"val":["Operator"]`), false, false),
		person("role as JSON", apptest.PrincipalOf("ann", `["Operator"]`), false, false),
		person("role twice", edited(`"val":"Operator"`, `"val":"Other","val":"Operator"`), false, false),
		person("claims twice", edited(`"claims"`, `"claims":[],"claims"`), false, false),
		person("claims of another case", edited(`"claims"`, `"Claims"`), false, false),
		person("another provider", edited(`"aad"`, `"github"`), false, false),
		person("no provider", edited(`"auth_typ"`, `"auth"`), false, false),
		person("two principals in one", apptest.PrincipalOf("ann", "Reader")+", "+asOperator, false, false),
		person("two principals", apptest.PrincipalOf("ann", "Reader")+"\r\n"+principal.Header+": "+asOperator, false, false),
		person("a principal and an empty one", asOperator+"\r\n"+principal.Header+": ", false, false),
		person("no JSON", "e30", false, false), person("nothing in the header", "", false, false), person("a key for a person", hostKey, false, false),
		person("JSON itself", string(plain), false, false), person("two texts", base64.StdEncoding.EncodeToString([]byte(string(plain)+"{}")), false, false),
		{name: "Reader with a key", header: principal.Header + ": " + apptest.PrincipalOf("ann", "Reader") + "\r\nx-functions-key: " + hostKey + "\r\n", key: true, claims: true, reads: true},
	}
	for _, key := range []string{"wrong", "", "null", "the-host-ke", "THE-HOST-KEY", "_master", "master", "default", "Bearer " + hostKey, hostKey + "," + hostKey, "key-of-Nothing", "key-of-Console", "key-of-Health"} {
		all = append(all, keyed("the key "+key, key, false))
	}
	for _, name := range []string{"Authorization", "X-Api-Key", "Cookie", "X-Functions-Keys", "X_Functions_Key", "X-MS-Functions-Key", "X-MS-CLIENT-PRINCIPAL-ID", "X-MS-CLIENT-PRINCIPAL-NAME",
		"X-MS-CLIENT-PRINCIPAL-IDP", "X_MS_CLIENT_PRINCIPAL", "X-MS-TOKEN-AAD-ID-TOKEN", "X-ZUMO-AUTH", "X-Forwarded-User", "X-Kennel-Principal"} {
		for _, value := range []string{asOperator, hostKey, "Bearer " + hostKey, "code=" + masterKey, "Operator"} {
			all = append(all, identity{name: name, header: name + ": " + value + "\r\n"})
		}
	}
	return all
}

var sites = []site{
	{"X-Kennel-Console: 1\r\n", true},
	{"X-Kennel-Console: 1\r\nSec-Fetch-Site: same-origin\r\nOrigin: http://{host}\r\n", true},
	{"X-Kennel-Console: 1\r\nSec-Fetch-Site: none\r\n", true},
	{"X-Kennel-Console: 1\r\nOrigin: http://{host}\r\n", true},
	{"", false},
	{"X-Kennel-Console: 0\r\n", false},
	{"X-Kennel-Console: true\r\n", false},
	{"X-Kennel-Console: 1, 1\r\n", false},
	{"X-Kennel-Console:\r\nX-Kennel-Console: 1\r\n", false},
	{"X_Kennel_Console: 1\r\n", false},
	{"X-Kennel-Consol: 1\r\nSec-Fetch-Site: same-origin\r\n", false},
	{"Content-Type: text/plain\r\nOrigin: http://{host}\r\n", false},
	{"X-Kennel-Console: 1\r\nSec-Fetch-Site: cross-site\r\n", false},
	{"X-Kennel-Console: 1\r\nSec-Fetch-Site: same-site\r\n", false},
	{"X-Kennel-Console: 1\r\nSec-Fetch-Site: Same-Origin\r\n", false},
	{"X-Kennel-Console: 1\r\nSec-Fetch-Site: cross-site\r\nOrigin: http://{host}\r\n", false},
	{"X-Kennel-Console: 1\r\nSec-Fetch-Site: cross-site, same-origin\r\n", false},
	{"X-Kennel-Console: 1\r\nOrigin: https://eve.example\r\n", false},
	{"X-Kennel-Console: 1\r\nOrigin: http://{host}.eve.example\r\n", false},
	{"X-Kennel-Console: 1\r\nOrigin: http://eve.example/{host}\r\n", false},
	{"X-Kennel-Console: 1\r\nOrigin: null\r\n", false},
	{"X-Kennel-Console: 1\r\nOrigin: 127.0.0.1:7071\r\n", false},
	{"X-Kennel-Console: 1\r\nSec-Fetch-Site: cross-site\r\nX-Forwarded-Host: localhost\r\nX-Original-Host: localhost\r\nForwarded: host=localhost\r\n", false},
	{"Sec-Fetch-Site: cross-site\r\nX-HTTP-Method-Override: GET\r\n", false},
	{"X-HTTP-Method-Override: POST\r\nX-HTTP-Method: POST\r\nX-Method-Override: POST\r\n", false},
}

var hosts = []hostName{
	{"127.0.0.1:7071", true}, {"localhost:7071", true}, {"LocalHost", true}, {"[::1]:7071", true}, {"[::1]", true}, {"127.8.9.1:80", true}, {"127.0.0.1:", true},
	{"mallory.example:7071", false}, {"127.0.0.1.mallory.example", false}, {"localhost.mallory.example:7071", false}, {"mallory.localhost:7071", false},
	{"localhost.:7071", false}, {"127.0.0.1.:7071", false}, {"127.0.0.1@mallory.example", false}, {"mallory.example@127.0.0.1", false}, {"mallory.example#127.0.0.1", false},
	{"mallory.example, 127.0.0.1", false}, {"mallory.example", false},
	{"0.0.0.0:7071", false}, {"[::]:7071", false}, {"10.0.0.4:7071", false}, {"[::ffff:10.0.0.4]:7071", false}, {"2130706433", false}, {"0x7f000001", false}, {"0177.0.0.1", false},
	{"127.1", false}, {"127.0.0.1:7071:80", false}, {"", false}, {"localhost%00.mallory.example", false}, {"my-app.azurewebsites.net", false},
}

var methods = []string{"", "GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "get", "post", "Post", "PROPFIND", "QUERY", "POSTX"}

// spellings write the path of a route otherwise, or begin at an address that
// everyone may call. None has a blank.
var spellings = func() []func(string) string {
	var all []func(string) string
	add := func(f func(string) string) { all = append(all, f) }
	for _, edit := range [][2]string{
		{"/api/", "/api/"}, {"/api/", "/API/"}, {"/api/", "/Api/"}, {"/api/", "//api/"}, {"/api/", "/api//"}, {"/api/", "/./api/"}, {"/api/", "/api/./"}, {"/api/", "/api/x/../"},
		{"/api/", "/%61pi/"}, {"/api/", "/%2561pi/"}, {"/api/", "/api%2f"}, {"/api/", "/api%5c"}, {"/api/", "/api%252f"}, {"/api/", `\api\`}, {"/api/", "/api;/"}, {"/api/", "/api;x=1/"},
		{"/api/", "/api%00/"}, {"/api/", "/api%20/"}, {"/api/", "/api%09/"}, {"/api/", "/api%0d%0a/"}, {"/api/", "/api%3f/"}, {"/api/", "/api%23/"}, {"/api/", "/api./"}, {"/api/", "/"},
		{"/api/", "/api/api/"}, {"/api/", "/admin/functions/"}, {"/api/", "/admin/"}, {"/api/", "/runtime/"}, {"/api/", "/runtime/webhooks/"}, {"/api/", "/admin/../api/"},
		{"/api/", "/%ef%bd%81pi/"}, {"/api/", "/api%c0%af"}, {"/api/", "/api%ef%bc%8f"}, {"/api/", "/api%e2%88%95"}, {"/api/", "http://mallory.example/api/"}, {"/api/", "*/api/"}, {"/api/", "api/"},
		{"/x", "/%78"}, {"/x", "/%2578"}, {"/x", "/x%2f"}, {"/x", "/x%00"}, {"/x", "/%2e%2e"}, {"/x", "/.."}, {"/x", "/x;y"}, {"/x", "/x%3fy"}, {"/x", "/x%23"},
	} {
		add(func(path string) string { return strings.Replace(path, edit[0], edit[1], 1) })
	}
	for _, end := range []string{"/", "//", "/.", "/..", "/x/..", "%2f", "%5c", "%20", "%00", "%3f", "%23", ";", ".json", "/%2e", "/%2e%2e", "~", "%0a", "%0d%0a", "#", "/x", ".", "%2e"} {
		add(func(path string) string { return path + end })
	}
	for _, begin := range []string{"/api/console/", "/api/console/api/", "/api/console/x/", "/api/console/app.js/", "/api/console", "/api/health/", "/api/health", "/API/Console/", "/"} {
		for _, dots := range []string{"..", "%2e%2e", ".%2E", "%252e%252e", ".%252E", "%25252e%25252e", "..;", "..%00", "%c0%ae%c0%ae", "%ef%bc%8e%ef%bc%8e", "%u002e%u002e", "...", "..%20", "."} {
			for _, slash := range []string{"/", "%2f", "%5C", "%252f", "%255c", `\`, "//", "%ef%bc%8f"} {
				ups := max(1, strings.Count(begin, "/")-2)
				add(func(path string) string {
					return begin + strings.Repeat(dots+slash, ups) + strings.ReplaceAll(strings.TrimPrefix(path, "/api/"), "/", slash)
				})
				add(func(path string) string { // from the root
					return begin + strings.Repeat(slash+dots, ups+1) + strings.ReplaceAll(path, "/", slash)
				})
			}
		}
	}
	for _, function := range []string{"Console", "Health", "Unleash", "Channels", "ResumeRelay", "console"} {
		for _, begin := range []string{"/", "//", "/api/console/../../", "/api/console/..%5C..%5C", "/api/health/..%5C..%5C", "/api/console%5C..%5C..%5C", "/admin/functions/"} {
			add(func(string) string { return begin + function })
		}
	}
	return all
}()
