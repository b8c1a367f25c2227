package config

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// Settings of every section that sign in by identity.
const (
	credentialKey = "credential"
	clientIDKey   = "clientId"
)

// section reads a connection: a connection string, or a section with these keys
// and those of an identity. Setting both is a problem, because one of them is
// probably a leftover; the host would ignore the section.
func (r *reader) section(name string, keys ...string) (connectionString string, section map[string]string) {
	connectionString, section = r.connection(name), make(map[string]string)
	var set []string
	for _, key := range append(keys, credentialKey, clientIDKey) {
		if value := r.connection(name + "__" + key); value != "" {
			section[key] = value
			set = append(set, name+"__"+key)
		}
	}
	if connectionString != "" && len(set) > 0 {
		r.problem("%s and %s are both set, and the host ignores the latter: remove %[1]s to sign in by identity, or all %[1]s__ settings to use the connection string", name, strings.Join(set, ", "))
	}
	return connectionString, section
}

// identity reads the identity of a section: whether it is managed, and the
// client ID of a user-assigned one.
func (r *reader) identity(name string, section map[string]string) (managed bool, clientID string) {
	credential, clientID := section[credentialKey], section[clientIDKey]
	switch {
	case strings.EqualFold(credential, "managedidentity"):
		return true, cmp.Or(clientID, r.get("AZURE_CLIENT_ID"))
	case credential != "":
		r.problem("%s__%s must be managedidentity or absent", name, credentialKey)
	case clientID != "":
		r.problem("%[1]s__%[2]s has no effect alone: set %[1]s__%[3]s=managedidentity too", name, clientIDKey, credentialKey)
	}
	return false, clientID
}

// connection reads a setting of a connection. As in the host, case does not
// matter, and the parts of the name may be joined by __ or by a colon.
func (r *reader) connection(name string) string {
	if value := r.get(name); value != "" {
		return value
	}
	var found []string
	for other, value := range r.env {
		if strings.EqualFold(strings.ReplaceAll(other, ":", "__"), name) && strings.TrimSpace(value) != "" {
			found = append(found, other)
		}
	}
	if len(found) == 0 {
		return ""
	}
	return r.get(slices.Min(found))
}

// isAddress reports whether text is the URL of a service, without query,
// fragment and user.
func isAddress(text string, schemes ...string) bool {
	u, err := url.Parse(text)
	return err == nil && slices.Contains(schemes, u.Scheme) && u.Hostname() != "" &&
		u.User == nil && u.RawQuery == "" && !u.ForceQuery && u.Fragment == ""
}

// The parts of a storage connection string. The SDK compares them exactly.
var connectionParts = []string{
	"DefaultEndpointsProtocol", "AccountName", "AccountKey", "EndpointSuffix", "SharedAccessSignature",
	"BlobEndpoint", "QueueEndpoint", "TableEndpoint", "FileEndpoint",
	"UseDevelopmentStorage", "DevelopmentStorageProxyUri",
}

var domain = regexp.MustCompile(`^[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)+$`)

// proxyAddress is the address of an emulator, whose ports are fixed.
var proxyAddress = regexp.MustCompile(`^https?://[A-Za-z0-9.-]+/?$`)

// checkConnectionString returns the problems of a storage connection string.
// Each continues a sentence that starts with the setting's name. They repeat
// only the names of known parts, because any other text may be part of a key.
func checkConnectionString(text string) []string {
	var c connection
	c.parse(text)
	if len(c.problems) > 0 {
		return c.problems // misspelt parts would also be reported as missing
	}
	for _, name := range connectionParts {
		if value, given := c.parts[name]; given && strings.HasSuffix(name, "Endpoint") && !isAddress(value, "http", "https") {
			c.wrong("has a %s that is not an address such as https://ACCOUNT.blob.core.windows.net", name)
		}
	}
	if _, given := c.parts["UseDevelopmentStorage"]; given {
		c.checkEmulator()
		return c.problems
	}
	c.checkAccount()
	c.checkKey()
	return c.problems
}

// connection is a connection string that is being checked.
type connection struct {
	parts    map[string]string // those that are known
	problems []string
}

func (c *connection) wrong(format string, args ...any) {
	c.problems = append(c.problems, fmt.Sprintf(format, args...))
}

func (c *connection) parse(text string) {
	c.parts = make(map[string]string)
	for i, part := range strings.Split(strings.TrimRight(text, ";"), ";") {
		name, value, ok := strings.Cut(part, "=")
		known := slices.IndexFunc(connectionParts, func(p string) bool { return strings.EqualFold(p, strings.TrimSpace(name)) })
		switch {
		case !ok && i == 0:
			c.wrong("is not a connection string: copy the one that starts with DefaultEndpointsProtocol= from the storage account's access keys")
			return
		case !ok:
			c.wrong("is malformed: its part %d is not of the form Name=Value; parts are separated by single semicolons", i+1)
			return
		case known < 0:
			// A part for another service, or one that storage clients ignore.
		case name != connectionParts[known]:
			c.wrong("must spell its part %d exactly %s", i+1, connectionParts[known])
		default:
			if _, twice := c.parts[name]; twice {
				c.wrong("has %s twice", name)
			}
			c.parts[name] = value
		}
	}
}

func (c *connection) checkEmulator() {
	if c.parts["UseDevelopmentStorage"] != "true" {
		c.wrong("must contain exactly UseDevelopmentStorage=true or omit it")
	}
	if proxy, given := c.parts["DevelopmentStorageProxyUri"]; given && !proxyAddress.MatchString(proxy) {
		c.wrong("has a DevelopmentStorageProxyUri that is not an address such as http://azurite")
	}
}

func (c *connection) checkAccount() {
	if p, given := c.parts["DefaultEndpointsProtocol"]; given && p != "http" && p != "https" {
		c.wrong("must contain DefaultEndpointsProtocol=https")
	}
	if suffix, given := c.parts["EndpointSuffix"]; given && !domain.MatchString(suffix) {
		c.wrong("has an EndpointSuffix that is not a domain such as core.windows.net")
	}
	name, named := c.parts["AccountName"]
	if named && !validAccount(name) {
		c.wrong("has an AccountName that is not 3 to 24 lower-case letters and digits")
	}
	if _, given := c.parts["BlobEndpoint"]; !given && !named {
		c.wrong("has neither AccountName nor BlobEndpoint: copy the whole connection string from the storage account's access keys")
	}
}

func (c *connection) checkKey() {
	key, keyed := c.parts["AccountKey"]
	signature, signed := c.parts["SharedAccessSignature"]
	switch {
	case keyed:
		if _, named := c.parts["AccountName"]; !named {
			c.wrong("has an AccountKey without an AccountName")
		}
		if bytes, err := base64.StdEncoding.DecodeString(key); err != nil || len(bytes) == 0 {
			c.wrong("has an AccountKey that is not base64: it may have been truncated when it was copied")
		}
	case signed:
		if strings.HasPrefix(signature, "?") || !strings.Contains(signature, "sig=") {
			c.wrong("has a SharedAccessSignature that is not of the form sv=…&sig=…, without a leading question mark")
		}
	default:
		c.wrong("has neither AccountKey nor SharedAccessSignature: copy the whole connection string from the storage account's access keys")
	}
}

var accountName = regexp.MustCompile(`^[a-z0-9]+$`)

// validAccount reports whether a storage account may have this name. The length
// is not in the pattern: compiling a counted repetition costs as much of the
// start as everything else in this package.
func validAccount(name string) bool {
	return len(name) >= 3 && len(name) <= 24 && accountName.MatchString(name)
}
