package customhandler

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
)

// HeaderPrincipal is the header in which the platform names who it has signed
// in, in the canonical form of http.Header's keys.
const HeaderPrincipal = "X-Ms-Client-Principal"

// Person is who the platform has signed in, as the host reads it from
// HeaderPrincipal. Nothing in it is signed.
type Person struct {
	AuthType string  `json:"auth_typ"`
	NameType string  `json:"name_typ"`
	RoleType string  `json:"role_typ"`
	Claims   []claim `json:"claims"`
}

type claim struct {
	Type  string `json:"typ"`
	Value string `json:"val"`
}

// ParsePerson reads the values of HeaderPrincipal; without any the person is nil.
// After an error the host answers 500.
func ParsePerson(values []string) (*Person, error) {
	switch len(values) {
	case 0:
		return nil, nil
	case 1:
	default:
		return nil, errors.New("the request has two headers X-MS-CLIENT-PRINCIPAL")
	}
	text, err := base64.StdEncoding.DecodeString(values[0])
	if err != nil {
		return nil, errors.New("the header X-MS-CLIENT-PRINCIPAL is not base64")
	}
	p := &Person{}
	if err := json.Unmarshal(text, p); err != nil {
		return nil, fmt.Errorf("the header X-MS-CLIENT-PRINCIPAL has no JSON object: %w", err)
	}
	return p, nil
}

// authClaims begins the types of the host's own claims.
const authClaims = "http://schemas.microsoft.com/2017/07/functions/claims/"

// identity is a .NET ClaimsIdentity in an envelope.
type identity struct {
	AuthenticationType      *string
	IsAuthenticated         bool
	Actor, BootstrapContext any
	Claims                  []issuedClaim
	Label                   any
	Name                    *string
	NameClaimType           string
	RoleClaimType           string
}

type issuedClaim struct {
	Issuer, OriginalIssuer string
	Properties             struct{}
	Type, Value, ValueType string
}

// identities returns the identities of an HTTP call: those of the person and of
// the key, or one that is not authenticated.
func (t Trigger) identities() []identity {
	var all []identity
	if p := t.Person; p != nil {
		all = append(all, newIdentity(p.AuthType, p.NameType, p.RoleType, p.Claims))
	}
	if t.KeyID != "" {
		level := "Function"
		if t.KeyID == MasterKey {
			level = "Admin"
		}
		all = append(all, newIdentity("WebJobsAuthLevel", "", "",
			[]claim{{authClaims + "authlevel", level}, {authClaims + "invoke", "true"}, {authClaims + "keyid", t.KeyID}}))
	}
	if all == nil {
		all = append(all, newIdentity("", "", "", nil))
	}
	return all
}

func newIdentity(authType, nameType, roleType string, claims []claim) identity {
	i := identity{
		Claims:        make([]issuedClaim, 0, len(claims)),
		NameClaimType: cmp.Or(nameType, "http://schemas.xmlsoap.org/ws/2005/05/identity/claims/name"),
		RoleClaimType: cmp.Or(roleType, "http://schemas.microsoft.com/ws/2008/06/identity/claims/role"),
	}
	if authType != "" {
		i.AuthenticationType, i.IsAuthenticated = &authType, true
	}
	for _, c := range claims {
		const authority = "LOCAL AUTHORITY"
		i.Claims = append(i.Claims, issuedClaim{Issuer: authority, OriginalIssuer: authority,
			Type: c.Type, Value: c.Value, ValueType: "http://www.w3.org/2001/XMLSchema#string"})
		if i.Name == nil && c.Type == i.NameClaimType {
			i.Name = &c.Value
		}
	}
	return i
}
