package auth

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"kennel/devstore/internal/rest"
)

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// bearer checks that a token was made for storage, and nothing else: there is
// nobody here who could have signed it.
func (c Caller) bearer(token string) error {
	audiences := audiences(token)
	if slices.ContainsFunc(audiences, c.isAudience) {
		return nil
	}
	e := rest.Fail(401, "InvalidAuthenticationInfo", "Authentication information is not given in the correct format. Check the value of Authorization header.")
	e.Details = []string{"AuthenticationErrorDetail", "The audience of the token is " + strconv.Quote(strings.Join(audiences, ", ")) + ", not https://storage.azure.com."}
	return e
}

func (c Caller) isAudience(audience string) bool {
	audience = strings.TrimSuffix(audience, "/")
	service := map[byte]string{Blob: "blob", Queue: "queue", Table: "table"}[c.Service]
	return audience == "https://storage.azure.com" || audience == "https://"+c.Request.Account+"."+service+".core.windows.net"
}

// audiences returns those of a token, none for text that is no token.
func audiences(token string) []string {
	parts := strings.Split(strings.TrimSpace(token), ".")
	if len(parts) != 3 {
		return nil
	}
	claims, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(parts[1], "="))
	if err != nil {
		return nil
	}
	var one struct {
		Audience string `json:"aud"`
	}
	if json.Unmarshal(claims, &one) == nil && one.Audience != "" {
		return []string{one.Audience}
	}
	var many struct {
		Audiences []string `json:"aud"`
	}
	if json.Unmarshal(claims, &many) == nil {
		return many.Audiences
	}
	return nil
}
