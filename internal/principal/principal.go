// Package principal reads the caller that the platform has signed in: the
// header that authentication of Azure App Service adds to a request. Nothing in
// it is signed, so use it only where the platform removes such a header of
// callers.
package principal

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Header is the name of the header.
const Header = "X-Ms-Client-Principal"

const (
	maxHeader = 32 << 10 // bytes; claims of groups can be many
	maxName   = 200      // characters of a name that are kept
)

// entra is the only identity provider whose roles are app roles: others may let
// people choose the content of a claim.
const entra = "aad"

// Principal is a person, or a program with an identity of its own.
type Principal struct {
	Name  string // as people know it, printable and of at most 200 characters; else the id
	ID    string // of the account, which never changes; "" if unknown
	Roles []string
}

// claim is a fact about a caller.
type claim struct{ kind, value string }

// Kinds of claims besides those that the principal names itself. Which form the
// platform uses depends on its version and on that of the token.
var (
	roleClaims = []string{"roles"}
	nameClaims = []string{"preferred_username", "name"}
	idClaims   = []string{"http://schemas.microsoft.com/identity/claims/objectidentifier", "oid"}
)

// Parse reads the value of [Header]: JSON in base64. Its errors repeat nothing
// of it.
func Parse(header string) (Principal, error) {
	if len(header) > maxHeader {
		return Principal{}, fmt.Errorf("it is longer than %d bytes", maxHeader)
	}
	text, err := base64.StdEncoding.Strict().DecodeString(header)
	if err != nil || strings.ContainsAny(header, "\r\n") { // which the decoder ignores
		return Principal{}, errors.New("it is not base64")
	}
	if !utf8.Valid(text) {
		return Principal{}, errors.New("it is not UTF-8")
	}
	principal, err := members(text)
	if err != nil {
		return Principal{}, err
	}
	provider, err1 := textMember(principal, "auth_typ")
	nameClaim, err2 := textMember(principal, "name_typ")
	roleClaim, err3 := textMember(principal, "role_typ")
	claims, err4 := claimsOf(principal["claims"])
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return Principal{}, err
	}
	if provider != entra {
		return Principal{}, errors.New("the identity provider is not Microsoft Entra")
	}
	p := Principal{ID: first(claims, idClaims)}
	p.Name = printable(cmp.Or(first(claims, append([]string{nameClaim}, nameClaims...)), p.ID))
	if p.Name == "" {
		return Principal{}, errors.New("it has neither a name nor an id")
	}
	for _, c := range claims {
		if c.kind != "" && c.value != "" && (c.kind == roleClaim || slices.Contains(roleClaims, c.kind)) {
			p.Roles = append(p.Roles, c.value)
		}
	}
	return p, nil
}

// members reads a JSON object. A name that appears twice is an error, and case
// matters: encoding/json would merge such members.
func members(text []byte) (map[string]json.RawMessage, error) {
	malformed := errors.New("it is not the expected JSON object")
	dec := json.NewDecoder(bytes.NewReader(text))
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		return nil, malformed
	}
	found := make(map[string]json.RawMessage)
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, malformed
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return nil, malformed
		}
		if _, twice := found[name.(string)]; twice {
			return nil, errors.New("a member appears twice")
		}
		found[name.(string)] = value
	}
	if _, err := dec.Token(); err != nil {
		return nil, malformed
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, malformed
	}
	return found, nil
}

// textMember returns a member that is a text, "" if it is missing.
func textMember(object map[string]json.RawMessage, name string) (text string, err error) {
	value, ok := object[name]
	if ok && (value[0] != '"' || json.Unmarshal(value, &text) != nil) {
		return "", fmt.Errorf("its member %s is not text", name)
	}
	return text, nil
}

// claimsOf reads the list of claims. It may be missing.
func claimsOf(list json.RawMessage) ([]claim, error) {
	var objects []json.RawMessage
	if len(list) > 0 && json.Unmarshal(list, &objects) != nil {
		return nil, errors.New("its member claims is not a list")
	}
	claims := make([]claim, 0, len(objects))
	for _, object := range objects {
		c, err := members(object)
		if err != nil {
			return nil, fmt.Errorf("a claim: %w", err)
		}
		kind, err1 := textMember(c, "typ")
		value, err2 := textMember(c, "val")
		if err := errors.Join(err1, err2); err != nil {
			return nil, fmt.Errorf("a claim: %w", err)
		}
		claims = append(claims, claim{kind, value})
	}
	return claims, nil
}

// first returns the first value of the first kind that there is.
func first(claims []claim, kinds []string) string {
	for _, kind := range kinds {
		for _, c := range claims {
			if kind != "" && c.kind == kind && c.value != "" {
				return c.value
			}
		}
	}
	return ""
}

// printable shortens a name and replaces characters that would not show.
func printable(name string) string {
	name = strings.TrimSpace(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, name))
	runes := []rune(name)
	return string(runes[:min(len(runes), maxName)])
}
