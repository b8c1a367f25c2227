package auth

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxSkew is how far the clock of a caller that signs with the account's key
// may be from that of the storage.
const maxSkew = 15 * time.Minute

// sharedKey checks a signature with the account's key.
func (c Caller) sharedKey(lite bool, credential string) error {
	account, signature, found := strings.Cut(strings.TrimSpace(credential), ":")
	if !found || account != c.Request.Account {
		return failed("The account of the signature is %q, that of the address %q.", account, c.Request.Account)
	}
	if err := c.date(); err != nil {
		return err
	}
	if !signed(c.Key, signature, c.textsToSign(lite)...) {
		return failed("The signature is not that of the account's key. The server signed this text: %q.", c.textsToSign(lite)[0])
	}
	return nil
}

// date checks the clock of a caller.
func (c Caller) date() error {
	text := c.Request.Header("x-ms-date")
	if text == "" {
		text = c.Request.Header("Date")
	}
	date, err := http.ParseTime(text)
	if err != nil {
		return failed("The header x-ms-date or Date is needed, in the form of RFC 1123: %q.", text)
	}
	if skew := c.Request.Now.Sub(date); !c.AnyDate && (skew > maxSkew || skew < -maxSkew) {
		return failed("The date of the request is %s, that of the storage %s: the clocks may differ by %s.",
			date.UTC().Format(time.RFC3339), c.Request.Now.Format(time.RFC3339), maxSkew)
	}
	return nil
}

// textsToSign returns the texts of which a caller may have signed one: the SDKs
// do not agree on the order of headers with a hyphen.
func (c Caller) textsToSign(lite bool) []string {
	h := c.Request.HTTP.Header
	if c.Service == Table {
		date := c.tableDate()
		if lite {
			return []string{date + "\n" + c.resourceOfComp()}
		}
		return []string{strings.Join([]string{c.Request.HTTP.Method, h.Get("Content-MD5"), h.Get("Content-Type"), date, c.resourceOfComp()}, "\n")}
	}
	date := h.Get("Date")
	if h.Get("x-ms-date") != "" {
		date = ""
	}
	var lines []string
	resource := c.resource()
	if lite {
		lines = []string{c.Request.HTTP.Method, h.Get("Content-MD5"), h.Get("Content-Type"), date}
		resource = c.resourceOfComp()
	} else {
		lines = []string{
			c.Request.HTTP.Method, h.Get("Content-Encoding"), h.Get("Content-Language"), c.contentLength(), h.Get("Content-MD5"), h.Get("Content-Type"),
			date, h.Get("If-Modified-Since"), h.Get("If-Match"), h.Get("If-None-Match"), h.Get("If-Unmodified-Since"), h.Get("Range"),
		}
	}
	front := strings.Join(lines, "\n") + "\n"
	return []string{
		front + headers(h, strings.Compare) + resource,
		front + headers(h, func(a, b string) int {
			return strings.Compare(strings.ReplaceAll(a, "-", ""), strings.ReplaceAll(b, "-", ""))
		}) + resource,
	}
}

func (c Caller) tableDate() string {
	if date := c.Request.Header("x-ms-date"); date != "" {
		return date
	}
	return c.Request.Header("Date")
}

// contentLength is that of the request as the caller signed it. Go's server
// takes the header out of the others.
func (c Caller) contentLength() string {
	if n := c.Request.HTTP.ContentLength; n > 0 {
		return strconv.FormatInt(n, 10)
	}
	if h := c.Request.Header("Content-Length"); h != "0" {
		return h
	}
	return ""
}

// headers returns the lines of all headers that begin with x-ms-.
func headers(h http.Header, compare func(a, b string) int) string {
	lines := make(map[string]string)
	var names []string
	for name, values := range h {
		name = strings.ToLower(name)
		if strings.HasPrefix(name, "x-ms-") {
			names = append(names, name)
			lines[name] = name + ":" + strings.TrimSpace(strings.Join(values, ",")) + "\n"
		}
	}
	slices.SortFunc(names, compare)
	var all strings.Builder
	for _, name := range names {
		all.WriteString(lines[name])
	}
	return all.String()
}

// path is that of the address as the caller sent it.
func (c Caller) path() string {
	if path := c.Request.HTTP.URL.EscapedPath(); path != "" {
		return path
	}
	return "/"
}

// resource is the resource with all query parameters.
func (c Caller) resource() string {
	byName := make(map[string][]string)
	for name, values := range c.Request.Query {
		name = strings.ToLower(name)
		byName[name] = append(byName[name], values...)
	}
	var lines []string
	for name, values := range byName {
		slices.Sort(values)
		lines = append(lines, "\n"+name+":"+strings.Join(values, ","))
	}
	slices.Sort(lines)
	return "/" + c.Request.Account + c.path() + strings.Join(lines, "")
}

// resourceOfComp is the resource with the parameter comp alone.
func (c Caller) resourceOfComp() string {
	resource := "/" + c.Request.Account + c.path()
	if comp, found := c.Request.Query["comp"]; found {
		resource += "?comp=" + comp[0]
	}
	return resource
}
