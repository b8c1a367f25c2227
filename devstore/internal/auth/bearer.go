package auth

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"kennel/devstore/internal/rest"
)

// bearer checks that a token was made for storage, and nothing else: there is
// nobody here who could have signed it.
func (c Caller) bearer(token string) error {
	claims := read(token)
	if slices.ContainsFunc(claims.audiences, c.isAudience) {
		c.Request.Token = &rest.Token{Object: claims.Object, Tenant: claims.Tenant, Delegate: c.delegationKey}
		return nil
	}
	e := rest.Fail(401, "InvalidAuthenticationInfo", "Authentication information is not given in the correct format. Check the value of Authorization header.")
	e.Details = []string{"AuthenticationErrorDetail", "The audience of the token is " + strconv.Quote(strings.Join(claims.audiences, ", ")) + ", not https://storage.azure.com."}
	return e
}

func (c Caller) isAudience(audience string) bool {
	audience = strings.TrimSuffix(audience, "/")
	service := map[byte]string{Blob: "blob", Queue: "queue", Table: "table"}[c.Service]
	return audience == "https://storage.azure.com" || audience == "https://"+c.Request.Account+"."+service+".core.windows.net"
}

// claims are those of a token that matter here.
type claims struct {
	Object string `json:"oid"`
	Tenant string `json:"tid"`

	audiences []string
}

// read returns the claims of a token, none for text that is no token.
func read(token string) (c claims) {
	parts := strings.Split(strings.TrimSpace(token), ".")
	if len(parts) != 3 {
		return c
	}
	text, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(parts[1], "="))
	if err != nil || json.Unmarshal(text, &c) != nil {
		return claims{}
	}
	var one struct {
		Audience string `json:"aud"`
	}
	var many struct {
		Audiences []string `json:"aud"`
	}
	if json.Unmarshal(text, &one) == nil && one.Audience != "" {
		c.audiences = []string{one.Audience}
	} else if json.Unmarshal(text, &many) == nil {
		c.audiences = many.Audiences
	}
	return c
}
