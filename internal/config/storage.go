package config

import (
	"cmp"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// Storage is a storage account and how to sign in: a connection string, or
// addresses and an identity. It prints without its secrets.
type Storage struct {
	ConnectionString string

	// The addresses of the services, without a connection string. Those of
	// queues and tables are optional.
	BlobURL, QueueURL, TableURL string

	ManagedIdentity bool   // sign in with the identity assigned to the app
	ClientID        string // the client ID of a user-assigned identity
}

// String returns the account without its key.
func (s Storage) String() string {
	if s.ConnectionString != "" {
		return "storage by connection string"
	}
	return "storage at " + s.BlobURL
}

// GoString keeps the connection string out of %#v.
func (s Storage) GoString() string { return s.String() }

// MarshalText keeps the connection string out of logs.
func (s Storage) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

var accountName = regexp.MustCompile(`^[a-z0-9]+$`)

// validAccount reports whether a storage account may have this name. The length
// is not in the pattern: compiling a counted repetition costs as much of the
// start as everything else in this package.
func validAccount(name string) bool {
	return len(name) >= 3 && len(name) <= 24 && accountName.MatchString(name)
}

// storage reads the connection to storage, in the two forms of the Functions
// host: a connection string, or a section with an account or addresses.
func (r *reader) storage(name string) Storage {
	const (
		accountKey = "accountName"
		blobKey    = "blobServiceUri"
		queueKey   = "queueServiceUri"
		tableKey   = "tableServiceUri"
	)
	unsupported := []string{"managedIdentityResourceId", "managedIdentityObjectId", "tenantId", "clientSecret"}
	plain, section := r.section(name, append([]string{accountKey, blobKey, queueKey, tableKey}, unsupported...)...)
	switch {
	case plain != "":
		for _, p := range checkConnectionString(plain) {
			r.problem("%s %s", name, p)
		}
		return Storage{ConnectionString: plain}
	case len(section) == 0:
		r.problem("%s is not set: set it to the storage account's connection string or, for an emulator on this machine, to UseDevelopmentStorage=true; or set %[1]s__blobServiceUri and %[1]s__credential=managedidentity", name)
		return Storage{}
	}

	s := Storage{BlobURL: section[blobKey], QueueURL: section[queueKey], TableURL: section[tableKey]}
	if account := section[accountKey]; account != "" { // overrides the addresses, as in the host
		if !validAccount(account) {
			r.problem("%s__%s must be the account's name without a domain, 3 to 24 lower-case letters and digits", name, accountKey)
		}
		s.BlobURL = "https://" + account + ".blob.core.windows.net"
		s.QueueURL = "https://" + account + ".queue.core.windows.net"
		s.TableURL = "https://" + account + ".table.core.windows.net"
	} else {
		if s.BlobURL == "" {
			r.problem("%s__%s is missing: set it to https://ACCOUNT.blob.core.windows.net", name, blobKey)
		}
		for _, key := range []string{blobKey, queueKey, tableKey} {
			if section[key] != "" && !isAddress(section[key], "https") {
				r.problem("%s__%s must be an address such as https://ACCOUNT.%s.core.windows.net, without a query", name, key, strings.TrimSuffix(key, "ServiceUri"))
			}
		}
	}

	s.ManagedIdentity, s.ClientID = r.identity(name, section)
	for _, key := range unsupported {
		if section[key] != "" {
			r.problem("%[1]s__%[2]s is not supported: select the identity with %[1]s__%[3]s", name, key, clientIDKey)
		}
	}
	return s
}

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

// Account returns the name of the account, or "" if it is unknown.
func (s Storage) Account() string {
	address := s.BlobURL
	for part := range strings.SplitSeq(s.ConnectionString, ";") {
		switch name, value, _ := strings.Cut(part, "="); name {
		case "AccountName":
			return value
		case "BlobEndpoint":
			address = value
		}
	}
	if u, err := url.Parse(address); err == nil {
		if name, _, ok := strings.Cut(u.Hostname(), ".blob."); ok && validAccount(name) {
			return name
		}
	}
	return ""
}

// Local reports whether the account is an emulator on this machine.
func (s Storage) Local() bool { return s.LocalAddress() != "" }

// LocalAddress returns host and port of the blobs of an emulator on this
// machine, or "" for another account.
func (s Storage) LocalAddress() string {
	for part := range strings.SplitSeq(s.ConnectionString, ";") {
		switch name, value, _ := strings.Cut(part, "="); name {
		case "UseDevelopmentStorage":
			return "127.0.0.1:10000"
		case "BlobEndpoint":
			if u, err := url.Parse(value); err == nil && (u.Hostname() == "127.0.0.1" || u.Hostname() == "localhost") {
				return u.Host
			}
			return ""
		}
	}
	return ""
}
