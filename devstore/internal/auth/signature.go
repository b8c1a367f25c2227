package auth

import (
	"net"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"kennel/devstore/internal/rest"
)

// signature checks a shared access signature and what it allows.
func (c Caller) signature() error {
	q := c.Request.Query
	var texts []string
	grant := &rest.Grant{
		Version: q.Get("sv"), Permissions: q.Get("sp"), Resource: q.Get("sr"), Identity: q.Get("si"),
		Services: q.Get("ss"), Levels: q.Get("srt"), Service: !q.Has("ss"),
	}
	var err error
	switch {
	case q.Has("skoid"):
		if err := c.delegated(grant); err != nil {
			return err
		}
	case grant.Service:
		if texts, err = c.serviceTexts(grant); err != nil {
			return err
		}
	default:
		texts = c.accountTexts()
	}
	if texts != nil && !signed(c.Key, q.Get("sig"), texts...) {
		return failed("Signature did not match. String to sign used was %q.", texts[0])
	}
	start, expiry := q.Get("st"), q.Get("se")
	if grant.Identity != "" {
		policy, found := c.Policy(grant.Identity)
		if !found {
			return failed("There is no stored access policy %q.", grant.Identity)
		}
		start, expiry = either(start, policy.Start), either(expiry, policy.Expiry)
		grant.Permissions = either(grant.Permissions, policy.Permission)
	}
	if err := c.valid(start, expiry); err != nil {
		return err
	}
	if err := c.origin(q.Get("spr"), q.Get("sip")); err != nil {
		return err
	}
	if err := c.allowed(grant); err != nil {
		return err
	}
	c.Request.Grant = grant
	return nil
}

func either(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// accountTexts returns what a signature for the account signs. Versions from
// 2020-12-06 on have an encryption scope, which not all SDKs write.
func (c Caller) accountTexts() []string {
	q := c.Request.Query
	front := strings.Join([]string{c.Request.Account, q.Get("sp"), q.Get("ss"), q.Get("srt"), q.Get("st"), q.Get("se"), q.Get("sip"), q.Get("spr"), q.Get("sv")}, "\n") + "\n"
	return []string{front + q.Get("ses") + "\n", front}
}

// serviceTexts returns what a signature for one resource signs, and keeps in
// the grant what the resource limits.
func (c Caller) serviceTexts(grant *rest.Grant) ([]string, error) {
	q := c.Request.Query
	front := []string{q.Get("sp"), q.Get("st"), q.Get("se")}
	back := []string{q.Get("si"), q.Get("sip"), q.Get("spr"), q.Get("sv")}
	text := func(name string, more ...string) string {
		return strings.Join(front, "\n") + "\n" + name + "\n" + strings.Join(append(back[:len(back):len(back)], more...), "\n")
	}
	switch c.Service {
	case Queue:
		return []string{text("/queue/" + c.Request.Account + "/" + c.Operation.Container)}, nil
	case Table:
		name := strings.ToLower(q.Get("tn"))
		if c.Operation.Container != "" && name != strings.ToLower(c.Operation.Container) {
			return nil, failed("The signature is for table %q.", q.Get("tn"))
		}
		grant.FromPartition, grant.FromRow, grant.ToPartition, grant.ToRow = q.Get("spk"), q.Get("srk"), q.Get("epk"), q.Get("erk")
		return []string{text("/table/"+c.Request.Account+"/"+name, q.Get("spk"), q.Get("srk"), q.Get("epk"), q.Get("erk"))}, nil
	}
	name, err := c.blobName(grant)
	if err != nil {
		return nil, err
	}
	var answer []string
	for _, header := range overrides {
		answer = append(answer, q.Get(header))
	}
	snapshot := snapshot(q, grant.Resource)
	switch version := q.Get("sv"); {
	case version >= "2020-12-06":
		return []string{text(name, append([]string{grant.Resource, snapshot, q.Get("ses")}, answer...)...)}, nil
	case version >= "2018-11-09":
		return []string{text(name, append([]string{grant.Resource, snapshot}, answer...)...)}, nil
	default:
		return []string{text(name, answer...)}, nil
	}
}

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
