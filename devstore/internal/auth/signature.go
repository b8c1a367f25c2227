package auth

import (
	"net/url"
	"strings"

	"kennel/devstore/internal/rest"
)

// signature checks a shared access signature and what it allows.
func (c Caller) signature() error {
	q := c.Request.Query
	if err := checkLines(q); err != nil {
		return err
	}
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
		if start != "" && policy.Start != "" || expiry != "" && policy.Expiry != "" || grant.Permissions != "" && policy.Permission != "" {
			return failed("Start, expiry and permissions are each in the signature or in the policy %q, not in both.", grant.Identity)
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

// checkLines refuses a line feed in a signed value. Texts to sign have a value
// in each line, and some forms lack lines that others have: a value with line
// feeds would stand for the lines of a condition that the caller leaves out.
func checkLines(q url.Values) error {
	for name, values := range q {
		inText := strings.HasPrefix(name, "s") && name != "startFrom" || strings.HasPrefix(name, "rsc") || name == "epk" || name == "erk" || name == "tn"
		if inText && strings.Contains(strings.Join(values, ""), "\n") {
			return failed("The value of %q has a line feed.", name)
		}
	}
	return nil
}

func either(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// accountTexts returns what a signature for the account signs. Versions from
// 2020-12-06 on have an encryption scope.
func (c Caller) accountTexts() []string {
	q := c.Request.Query
	text := strings.Join([]string{c.Request.Account, q.Get("sp"), q.Get("ss"), q.Get("srt"), q.Get("st"), q.Get("se"), q.Get("sip"), q.Get("spr"), q.Get("sv")}, "\n") + "\n"
	if q.Get("sv") >= "2020-12-06" {
		text += q.Get("ses") + "\n"
	}
	return []string{text}
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
