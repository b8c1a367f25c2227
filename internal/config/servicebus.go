package config

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"
)

// ServiceBus is a Service Bus namespace and how to sign in: a connection
// string, or a host name and an identity. The zero ServiceBus is none. It
// prints without its secrets.
type ServiceBus struct {
	ConnectionString string

	Namespace       string // without a connection string: NAME.servicebus.windows.net
	ManagedIdentity bool   // sign in with the identity assigned to the app
	ClientID        string // the client ID of a user-assigned identity
}

// Given reports whether there is a namespace.
func (s ServiceBus) Given() bool { return s.ConnectionString != "" || s.Namespace != "" }

// String returns the namespace without its key.
func (s ServiceBus) String() string {
	switch {
	case s.ConnectionString != "":
		return "Service Bus at " + hostOf(s.ConnectionString) + " by connection string"
	case s.Namespace != "":
		return "Service Bus at " + s.Namespace
	}
	return "no Service Bus"
}

// Host returns the host of the namespace, with its port if it has one.
func (s ServiceBus) Host() string {
	if s.ConnectionString != "" {
		return hostOf(s.ConnectionString)
	}
	return s.Namespace
}

// Name returns the name of the namespace: its host up to the first dot.
func (s ServiceBus) Name() string {
	host, _, _ := strings.Cut(strings.Trim(s.Host(), "[]"), ":")
	name, _, _ := strings.Cut(host, ".")
	return cmp.Or(name, "local") // an address of IPv6
}

// hostOf returns the host of a connection string.
func hostOf(connection string) string {
	parts, _ := partsOf(connection)
	u, err := url.Parse(parts["Endpoint"])
	if err != nil || u.Host == "" {
		return "an unknown host"
	}
	return u.Host
}

// GoString keeps the connection string out of %#v.
func (s ServiceBus) GoString() string { return s.String() }

// MarshalText keeps the connection string out of logs.
func (s ServiceBus) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// serviceBus reads a connection to a namespace, in the same two forms as
// storage. It is optional.
func (r *reader) serviceBus(name string) ServiceBus {
	const namespaceKey = "fullyQualifiedNamespace"
	plain, section := r.section(name, namespaceKey)
	switch {
	case plain != "":
		for _, p := range checkServiceBusString(plain) {
			r.problem("%s %s", name, p)
		}
		return ServiceBus{ConnectionString: plain}
	case len(section) == 0:
		return ServiceBus{}
	}
	s := ServiceBus{Namespace: section[namespaceKey]}
	if !domain.MatchString(s.Namespace) {
		r.problem("%s__%s must be the namespace's host name, such as NAME.servicebus.windows.net", name, namespaceKey)
	}
	s.ManagedIdentity, s.ClientID = r.identity(name, section)
	return s
}

// The parts of a Service Bus connection string. The SDK ignores their case.
var serviceBusParts = []string{
	"Endpoint", "SharedAccessKeyName", "SharedAccessKey", "SharedAccessSignature", "EntityPath", "UseDevelopmentEmulator",
}

// partsOf parses a connection string. It also returns the names of parts that
// occur twice.
func partsOf(text string) (parts map[string]string, twice []string) {
	parts = make(map[string]string)
	for part := range strings.SplitSeq(strings.TrimRight(text, ";"), ";") {
		name, value, _ := strings.Cut(part, "=")
		known := slices.IndexFunc(serviceBusParts, func(p string) bool { return strings.EqualFold(p, strings.TrimSpace(name)) })
		if known < 0 {
			continue // a part that Service Bus clients ignore
		}
		name = serviceBusParts[known]
		if _, there := parts[name]; there {
			twice = append(twice, name)
		}
		parts[name] = strings.TrimSpace(value)
	}
	return parts, twice
}

// checkServiceBusString returns the problems of a connection string, in the
// form of checkConnectionString.
func checkServiceBusString(text string) (problems []string) {
	wrong := func(format string, args ...any) {
		problems = append(problems, fmt.Sprintf(format, args...))
	}
	parts, twice := partsOf(text)
	for _, name := range twice {
		wrong("has %s twice", name)
	}
	endpoint, given := parts["Endpoint"]
	switch {
	case !given:
		wrong("is not a Service Bus connection string: copy the one that starts with Endpoint=sb:// from the namespace's shared access policies")
		return problems
	case !isAddress(endpoint, "sb"):
		wrong("has an Endpoint that is not of the form sb://NAME.servicebus.windows.net/")
	}
	switch {
	case parts["SharedAccessSignature"] != "":
	case parts["SharedAccessKeyName"] == "" || parts["SharedAccessKey"] == "":
		wrong("has neither SharedAccessKeyName with SharedAccessKey nor SharedAccessSignature: copy the whole connection string from the namespace's shared access policies")
	}
	if emulator := parts["UseDevelopmentEmulator"]; emulator != "" && !strings.EqualFold(emulator, "true") && !strings.EqualFold(emulator, "false") {
		wrong("has a UseDevelopmentEmulator that is neither true nor false")
	}
	if parts["EntityPath"] != "" {
		wrong("has an EntityPath and is valid for one queue or topic only: copy the connection string of the namespace")
	}
	return problems
}
