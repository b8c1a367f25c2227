package auth

import (
	"crypto/hmac"
	"crypto/sha256"
	"net/http"
	"net/url"
	"strings"

	"kennel/devstore/internal/rest"
)

// delegationKey returns the key of a user. It follows from the account's key
// and from what a signature names, so the storage keeps none.
func (c Caller) delegationKey(values ...string) []byte {
	mac := hmac.New(sha256.New, c.Key)
	mac.Write([]byte("user delegation\n" + c.Request.Account + "\n" + strings.Join(values, "\n")))
	return mac.Sum(nil)
}

// delegated checks that a signature is that of a user whose key is valid now.
func (c Caller) delegated(grant *rest.Grant) error {
	q := c.Request.Query
	if c.Service != Blob {
		return rest.Fail(501, "NotImplemented", "devstore imitates user delegation signatures for blobs only.")
	}
	values := make([]string, len(rest.Delegation))
	for i, name := range rest.Delegation {
		values[i] = q.Get(name)
	}
	name, err := c.blobName(grant)
	if err != nil {
		return err
	}
	texts := c.delegatedTexts(grant, name, values)
	if !signed(c.delegationKey(values...), q.Get("sig"), texts...) {
		return failed("Signature did not match. String to sign used was %q.", texts[0])
	}
	if object := q.Get("sduoid"); object != "" && (c.Request.Token == nil || c.Request.Token.Object != object) {
		return failed("The signature is for a caller with a token of the user %q.", object)
	}
	return c.valid(q.Get("skt"), q.Get("ske"))
}

// delegatedTexts returns what a user may have signed. Later versions of the
// service sign more.
func (c Caller) delegatedTexts(grant *rest.Grant, name string, key []string) []string {
	q := c.Request.Query
	values := func(names ...string) []string {
		all := make([]string, len(names))
		for i, name := range names {
			all[i] = q.Get(name)
		}
		return all
	}
	front := append(append(values("sp", "st", "se"), name), key[:6]...)
	origin := append(values("sip", "spr", "sv"), grant.Resource, snapshot(q, grant.Resource))
	answer := values(overrides...)
	users := values("saoid", "suoid", "scid")
	delegated := []string{key[6], q.Get("sduoid")}
	scope := values("ses")
	request := []string{signedHeaders(c.Request.HTTP.Header, q.Get("srh")), signedQuery(q, q.Get("srq"))}
	var texts []string
	for _, parts := range [][][]string{
		{front, users, delegated, origin, scope, request, answer},
		{front, users, delegated, origin, scope, answer},
		{front, users, origin, scope, answer}, // 2020-12-06
		{front, users, origin, answer},        // 2020-02-10
		{front, origin, answer},               // 2018-11-09
	} {
		var all []string
		for _, part := range parts {
			all = append(all, part...)
		}
		texts = append(texts, strings.Join(all, "\n"))
	}
	return texts
}

// signedHeaders returns the headers that a signature asks for, as it signs them.
func signedHeaders(h http.Header, names string) string {
	var b strings.Builder
	for name := range strings.SplitSeq(names, ",") {
		if name != "" {
			b.WriteString(name + ":" + h.Get(name) + "\n")
		}
	}
	return b.String()
}

// signedQuery is like signedHeaders for parameters of the query.
func signedQuery(q url.Values, names string) string {
	var b strings.Builder
	for name := range strings.SplitSeq(names, ",") {
		if name != "" {
			b.WriteString("\n" + name + ":" + q.Get(name))
		}
	}
	return b.String()
}
