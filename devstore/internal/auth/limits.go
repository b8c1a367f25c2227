package auth

import (
	"net"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"kennel/devstore/internal/rest"
)

// overrides are the parameters for headers that a blob is to be read with.
var overrides = []string{"rscc", "rscd", "rsce", "rscl", "rsct"}

// blobName returns the container or blob that a signature names, and keeps the
// headers of its answer in the grant.
func (c Caller) blobName(grant *rest.Grant) (string, error) {
	grant.Override = make(map[string]string)
	for _, header := range overrides {
		if c.Request.Query.Has(header) {
			grant.Override[header] = c.Request.Query.Get(header)
		}
	}
	switch grant.Resource {
	case "c":
		return "/blob/" + c.Request.Account + "/" + c.Operation.Container, nil
	case "b", "bs":
		path, err := url.PathUnescape(c.Request.Path)
		if err != nil {
			return "", failed("The path of the address cannot be decoded.")
		}
		return "/blob/" + c.Request.Account + "/" + path, nil
	default:
		return "", rest.Fail(501, "NotImplemented", "devstore does not imitate shared access signatures for the resource %q.", grant.Resource)
	}
}

// snapshot returns the snapshot that a signature for one is for.
func snapshot(q url.Values, resource string) string {
	if resource == "bs" {
		return q.Get("snapshot")
	}
	return ""
}

// times are the forms that a signature may write a time in.
var times = []string{"2006-01-02T15:04:05Z", "2006-01-02T15:04Z", "2006-01-02T15:04:05.9999999Z", "2006-01-02", "2006-01-02T15:04:05Z07:00"}

func parseTime(text string) (t time.Time, err error) {
	for _, form := range times {
		if t, err = time.Parse(form, text); err == nil {
			return t, nil
		}
	}
	return t, err
}

func (c Caller) valid(start, expiry string) error {
	if start != "" {
		if t, err := parseTime(start); err != nil || c.Request.Now.Before(t) {
			return failed("Signature not valid in the specified time frame: it begins at %s, and it is %s.", start, c.Request.Now.Format(time.RFC3339))
		}
	}
	if t, err := parseTime(expiry); err != nil || !c.Request.Now.Before(t) {
		return failed("Signature not valid in the specified time frame: it ends at %q, and it is %s.", expiry, c.Request.Now.Format(time.RFC3339))
	}
	return nil
}

// origin checks the protocol and the address of the caller.
func (c Caller) origin(protocol, addresses string) error {
	r := c.Request.HTTP
	if protocol == "https" && r.TLS == nil && r.URL.Scheme != "https" {
		return rest.Fail(403, "AuthorizationProtocolMismatch", "This request is not authorized to perform this operation using this protocol.")
	}
	if addresses == "" {
		return nil
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = "127.0.0.1" // a caller in this process
	}
	ip, err := netip.ParseAddr(host)
	from, to, isRange := strings.Cut(addresses, "-")
	if !isRange {
		to = from
	}
	first, err1 := netip.ParseAddr(from)
	last, err2 := netip.ParseAddr(to)
	if err != nil || err1 != nil || err2 != nil || ip.Less(first) || last.Less(ip) {
		return rest.Fail(403, "AuthorizationSourceIPMismatch", "This request is not authorized to perform this operation using this source IP %s.", host)
	}
	return nil
}

// allowed checks the operation against the letters of a signature.
func (c Caller) allowed(grant *rest.Grant) error {
	op := c.Operation
	if !grant.Service {
		if !strings.ContainsRune(grant.Services, rune(c.Service)) {
			return rest.Fail(403, "AuthorizationServiceMismatch", "This request is not authorized to perform this operation using this service.")
		}
		if !strings.ContainsRune(grant.Levels, rune(op.Level)) {
			return rest.Fail(403, "AuthorizationResourceTypeMismatch", "This request is not authorized to perform this operation using this resource type.")
		}
	}
	if grant.Service && (op.ForAccount || op.Level == 's' && op.Name != "Blob Batch") {
		return rest.Fail(403, "AuthorizationFailure", "This request is not authorized to perform this operation.")
	}
	if !grant.May(op.Permission) {
		return rest.Fail(403, "AuthorizationPermissionMismatch", "This request is not authorized to perform this operation using this permission.")
	}
	return nil
}
