package blob

import (
	"encoding/base64"
	"encoding/xml"
	"time"

	"kennel/devstore/internal/rest"
)

// maxDelegation is how long the key of a user is valid at most.
const maxDelegation = 7 * 24 * time.Hour

// delegationKey answers with a key with which a user, who came with a token,
// signs shared access signatures.
func (c *call) delegationKey() (*rest.Answer, error) {
	if c.r.Token == nil {
		return nil, rest.Fail(403, "AuthenticationFailed", "Only a caller with a token gets a user delegation key.")
	}
	var asked struct{ Start, Expiry, DelegatedUserTid string }
	if err := xml.Unmarshal(c.r.Body, &asked); err != nil {
		return nil, rest.Fail(400, "InvalidXmlDocument", "The specified XML is not syntactically valid.")
	}
	start := c.r.Now
	if asked.Start != "" {
		var err error
		if start, err = time.Parse(time.RFC3339, asked.Start); err != nil {
			return nil, errDelegation("Start", asked.Start)
		}
	}
	expiry, err := time.Parse(time.RFC3339, asked.Expiry)
	if err != nil || !expiry.After(c.r.Now) || !expiry.After(start) || expiry.Sub(c.r.Now) > maxDelegation {
		return nil, errDelegation("Expiry", asked.Expiry)
	}
	if asked.DelegatedUserTid != "" && asked.DelegatedUserTid != c.r.Token.Tenant {
		return nil, rest.Fail(403, "AuthenticationFailed", "The token is of the tenant %.40q, not of %.40q.", c.r.Token.Tenant, asked.DelegatedUserTid)
	}
	version := c.r.Header("x-ms-version")
	from, to := start.UTC().Format(time.RFC3339), expiry.UTC().Format(time.RFC3339)
	key := c.r.Token.Delegate(c.r.Token.Object, c.r.Token.Tenant, from, to, "b", version, asked.DelegatedUserTid)
	d := newDocument()
	d.open("UserDelegationKey")
	d.element("SignedOid", c.r.Token.Object)
	d.element("SignedTid", c.r.Token.Tenant)
	d.element("SignedStart", from)
	d.element("SignedExpiry", to)
	d.element("SignedService", "b")
	d.element("SignedVersion", version)
	d.some("SignedDelegatedUserTid", asked.DelegatedUserTid)
	d.element("Value", base64.StdEncoding.EncodeToString(key))
	d.end("UserDelegationKey")
	return rest.Reply(200).With(xmlType, d.Bytes()), nil
}

func errDelegation(name, value string) error {
	e := rest.Fail(400, "InvalidXmlNodeValue", "The value for one of the XML nodes is not in the correct format.")
	e.Details = []string{"XmlNodeName", name, "XmlNodeValue", value}
	return e
}
