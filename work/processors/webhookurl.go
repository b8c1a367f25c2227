package processors

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// allowList is the base URLs that a [Webhook] may call.
type allowList []allowed

type allowed struct {
	scheme    string
	server    string // of joinServer
	path      string // without a slash at its end
	exemption exemption
}

// privatePrefix before a base URL allows private addresses for its host.
const privatePrefix = "private+"

func newAllowList(entries []string) (list allowList, err error) {
	for _, entry := range entries {
		base, private := strings.CutPrefix(strings.TrimSpace(entry), privatePrefix)
		a, err := newAllowed(base, private)
		if err != nil { // the text may contain a password
			return nil, fmt.Errorf("entry %d of the allowed base URLs %w", len(list)+1, err)
		}
		list = append(list, a)
	}
	return list, nil
}

func newAllowed(base string, private bool) (a allowed, err error) {
	u, server, err := parseTarget(base)
	if err != nil {
		return a, err
	}
	if u.RawQuery != "" || u.ForceQuery || strings.Contains(base, "%") {
		return a, errors.New("has a query or an encoded character")
	}
	a = allowed{scheme: u.Scheme, server: server, path: strings.TrimRight(u.EscapedPath(), "/")}
	switch ip, err := netip.ParseAddr(u.Hostname()); {
	case err == nil:
		ip = ip.Unmap()
		if a.exemption.literal = ip; !isPublic(ip) && !isPrivate(ip) && !ip.IsLoopback() {
			return a, errors.New("has an address that no service can have, or that belongs to the platform")
		}
	case strings.EqualFold(u.Hostname(), "localhost"):
		a.exemption.loopback = true
	}
	a.exemption.private = private
	return a, nil
}

// find returns the URL if it is under one of the base URLs.
func (l allowList) find(text string) (*url.URL, error) {
	u, server, err := parseTarget(text)
	if err != nil {
		return nil, fmt.Errorf("url %w", err)
	}
	path := u.EscapedPath()
	if !slices.ContainsFunc(l, func(a allowed) bool {
		return a.scheme == u.Scheme && a.server == server && (path == a.path || strings.HasPrefix(path, a.path+"/"))
	}) {
		return nil, errNotListed
	}
	return u, nil
}

// errNotListed is no verdict over an item: another process may have a newer list.
var errNotListed = errors.New("url is not under a base URL that this app allows in its setting KENNEL_WEBHOOK_ALLOW")

// exemptions returns which addresses may be dialled for a server.
func (l allowList) exemptions(server string) (all []exemption) {
	for _, a := range l {
		if a.server == server {
			all = append(all, a.exemption)
		}
	}
	return all
}

// maxURL is the maximum length in bytes of a URL.
const maxURL = 2 << 10

// parseTarget parses an absolute URL and returns the server that it names, in
// one form for all URLs of that server. It refuses whatever servers, proxies and
// this package could understand differently.
func parseTarget(text string) (u *url.URL, server string, err error) {
	if len(text) > maxURL {
		return nil, "", fmt.Errorf("is longer than %d bytes", maxURL)
	}
	if strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' || r == '\\' }) {
		return nil, "", errors.New(`has a space, a backslash, or a character beyond ASCII that is not encoded`)
	}
	u, err = url.Parse(text)
	switch {
	case err != nil || u.Opaque != "" || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https":
		return nil, "", errors.New("is not an absolute URL such as https://example.com/hooks")
	case u.User != nil:
		return nil, "", errors.New("has a user name or password")
	case strings.Contains(text, "#"):
		return nil, "", errors.New("has a fragment")
	case strings.Contains(u.Host, "%") || u.Port() == "" && strings.HasSuffix(u.Host, ":"):
		return nil, "", errors.New("has an invalid host or port")
	}
	port := cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || port[0] == '0' {
		return nil, "", errors.New("has an invalid host or port")
	}
	if err := checkPath(u.EscapedPath()); err != nil {
		return nil, "", err
	}
	return u, joinServer(u.Hostname(), port), nil
}

// joinServer returns one form for all ways to write a host.
func joinServer(host, port string) string {
	host = strings.ToLower(host)
	if ip, err := netip.ParseAddr(host); err == nil {
		host = ip.Unmap().String()
	}
	return net.JoinHostPort(host, port)
}

// checkPath refuses a path that is another one after a receiver decodes it, once
// or several times, strictly or not, and resolves its dots.
func checkPath(path string) error {
	for {
		if !utf8.ValidString(path) || strings.ContainsFunc(path, unicode.IsControl) {
			return errors.New("has a path with an encoded control character, or with bytes that are not UTF-8")
		}
		for segment := range strings.SplitSeq(path, "/") {
			name, _, _ := strings.Cut(segment, ";") // some servers ignore parameters
			if name == "." || name == ".." || strings.Contains(name, `\`) {
				return errors.New("has a path with . or .. or a backslash")
			}
		}
		decoded, err := unescape(path)
		if err != nil || decoded == path {
			return err
		}
		if strings.Count(decoded, "/") != strings.Count(path, "/") {
			return errors.New("has a path with an encoded slash")
		}
		path = decoded
	}
}

// unescape decodes a path once. A percent sign at its end is text. Elsewhere,
// one that encodes nothing is an error: receivers differ in what they make of it
// and of what follows.
func unescape(path string) (string, error) {
	text, end := path, ""
	if i := strings.LastIndexByte(path, '%'); i >= 0 && i > len(path)-3 {
		text, end = path[:i], path[i:]
	}
	decoded, err := url.PathUnescape(text)
	if err != nil {
		return "", errors.New("has a path with %25 that does not precede two hexadecimal digits")
	}
	return decoded + end, nil
}
