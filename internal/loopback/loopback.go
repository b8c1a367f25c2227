// Package loopback protects servers on a developer's machine, which ask for no
// key, from the pages of other sites that the developer has open.
package loopback

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// The results of Refusal.
const (
	foreignHost = "The host of this request is not this machine. Without a key, only localhost and loopback addresses such as 127.0.0.1 are served, because a page can lead a name of its own here."
	foreignSite = "A browser sent this request for a page of another site or origin. Without a key, only pages of this server and programs are served."
)

// Refusal returns why a request that a page of another site may have caused is
// not served, for its caller, or "" for other requests. Such a request is one
// for a host that is not this machine, or one that a browser declares as coming
// from another site, another port of this machine, or another origin.
func Refusal(r *http.Request) string {
	if !IsHost(r.Host) {
		return foreignHost
	}
	if FromForeignSite(r) {
		return foreignSite
	}
	return ""
}

// FromForeignSite reports whether a browser declares a request as coming from
// another site, another port of this machine, or another origin.
func FromForeignSite(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
	default:
		return true
	}
	return slices.ContainsFunc(r.Header["Origin"], func(origin string) bool {
		u, err := url.Parse(origin)
		return err != nil || u.Scheme != "http" || !strings.EqualFold(u.Host, r.Host)
	})
}

// IsHost reports whether the host of a request is this machine.
func IsHost(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = strings.TrimSuffix(strings.TrimPrefix(hostport, "["), "]")
	}
	ip, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && ip.IsLoopback()
}
