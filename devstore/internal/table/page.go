package table

import (
	"encoding/base64"
	"strconv"
	"strings"

	"kennel/devstore/internal/rest"
)

// maxPage is how many tables or entities an answer has at most.
const maxPage = 1000

// A page is what all queries ask for.
type page struct {
	format format
	filter filter
	top    int
}

// pageOf parses the parameters of a query.
func pageOf(r *rest.Request) (page, error) {
	p := page{top: maxPage}
	var err error
	if p.format, err = formatOf(r); err != nil {
		return p, err
	}
	for name := range r.Query {
		switch name {
		case "$filter", "$top", "$select", "$format":
		default:
			if strings.HasPrefix(name, "$") {
				return p, errFeature
			}
		}
	}
	if top := r.Query.Get("$top"); top != "" {
		if p.top, err = strconv.Atoi(top); err != nil || p.top < 1 || p.top > maxPage {
			return p, errInput
		}
	}
	p.filter, err = parseFilter(r.Query.Get("$filter"))
	return p, err
}

// A continuation token has a version, the length of what follows, and a key in
// base64 with other signs for those that have a meaning in addresses, as in
// Azure.
const tokenVersion = "1!"

func writeToken(key string) string {
	text := strings.NewReplacer("=", "-", "/", "_", "+", "*").Replace(base64.StdEncoding.EncodeToString([]byte(key)))
	return tokenVersion + strconv.Itoa(len(text)) + "!" + text
}

// readToken returns the key of a token, "" for none.
func readToken(token string) (string, error) {
	if token == "" {
		return "", nil
	}
	length, text, ok := strings.Cut(strings.TrimPrefix(token, tokenVersion), "!")
	if !ok || !strings.HasPrefix(token, tokenVersion) || length != strconv.Itoa(len(text)) {
		return "", errInput
	}
	key, err := base64.StdEncoding.DecodeString(strings.NewReplacer("-", "=", "_", "/", "*", "+").Replace(text))
	if err != nil {
		return "", errInput
	}
	return string(key), nil
}
