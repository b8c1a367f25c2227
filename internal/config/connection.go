package config

import (
	"encoding/base64"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

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
func checkConnectionString(text string) (problems []string) {
	wrong := func(format string, args ...any) {
		problems = append(problems, fmt.Sprintf(format, args...))
	}
	parts := make(map[string]string)
	for i, part := range strings.Split(strings.TrimRight(text, ";"), ";") {
		name, value, ok := strings.Cut(part, "=")
		known := slices.IndexFunc(connectionParts, func(p string) bool { return strings.EqualFold(p, strings.TrimSpace(name)) })
		switch {
		case !ok && i == 0:
			wrong("is not a connection string: copy the one that starts with DefaultEndpointsProtocol= from the storage account's access keys")
			return problems
		case !ok:
			wrong("is malformed: its part %d is not of the form Name=Value; parts are separated by single semicolons", i+1)
			return problems
		case known < 0:
			// A part for another service, or one that storage clients ignore.
		case name != connectionParts[known]:
			wrong("must spell its part %d exactly %s", i+1, connectionParts[known])
		default:
			if _, twice := parts[name]; twice {
				wrong("has %s twice", name)
			}
			parts[name] = value
		}
	}
	if len(problems) > 0 {
		return problems // misspelt parts would also be reported as missing
	}

	for _, name := range connectionParts {
		value, given := parts[name]
		if !given {
			continue
		}
		if strings.HasSuffix(name, "Endpoint") && !isAddress(value, "http", "https") {
			wrong("has a %s that is not an address such as https://ACCOUNT.blob.core.windows.net", name)
		}
	}
	if value, given := parts["UseDevelopmentStorage"]; given {
		if value != "true" {
			wrong("must contain exactly UseDevelopmentStorage=true or omit it")
		}
		if proxy, given := parts["DevelopmentStorageProxyUri"]; given && !proxyAddress.MatchString(proxy) {
			wrong("has a DevelopmentStorageProxyUri that is not an address such as http://azurite")
		}
		return problems
	}
	if p, given := parts["DefaultEndpointsProtocol"]; given && p != "http" && p != "https" {
		wrong("must contain DefaultEndpointsProtocol=https")
	}
	if suffix, given := parts["EndpointSuffix"]; given && !domain.MatchString(suffix) {
		wrong("has an EndpointSuffix that is not a domain such as core.windows.net")
	}
	name, named := parts["AccountName"]
	if named && !validAccount(name) {
		wrong("has an AccountName that is not 3 to 24 lower-case letters and digits")
	}
	if _, given := parts["BlobEndpoint"]; !given && !named {
		wrong("has neither AccountName nor BlobEndpoint: copy the whole connection string from the storage account's access keys")
	}
	key, keyed := parts["AccountKey"]
	signature, signed := parts["SharedAccessSignature"]
	switch {
	case keyed:
		if !named {
			wrong("has an AccountKey without an AccountName")
		}
		if bytes, err := base64.StdEncoding.DecodeString(key); err != nil || len(bytes) == 0 {
			wrong("has an AccountKey that is not base64: it may have been truncated when it was copied")
		}
	case signed:
		if strings.HasPrefix(signature, "?") || !strings.Contains(signature, "sig=") {
			wrong("has a SharedAccessSignature that is not of the form sv=…&sig=…, without a leading question mark")
		}
	default:
		wrong("has neither AccountKey nor SharedAccessSignature: copy the whole connection string from the storage account's access keys")
	}
	return problems
}
