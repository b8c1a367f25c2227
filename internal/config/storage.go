package config

import (
	"net/url"
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

	// Prefix begins the name of every queue, table and container of the program;
	// "": none. KENNEL_PREFIX.
	Prefix string
}

// String returns the account without its key.
func (s Storage) String() string {
	text := "storage at " + s.BlobURL
	if s.ConnectionString != "" {
		text = "storage by connection string"
	}
	if s.Prefix != "" {
		text += ", prefix " + s.Prefix
	}
	return text
}

// GoString keeps the connection string out of %#v.
func (s Storage) GoString() string { return s.String() }

// MarshalText keeps the connection string out of logs.
func (s Storage) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

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
