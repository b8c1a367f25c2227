package queue

import (
	"net/http"
	"regexp"
	"sort"
	"strings"

	"kennel/devstore/internal/rest"
)

const (
	minName     = 3
	maxName     = 63
	maxMetadata = 8 << 10
)

var nameForm = regexp.MustCompile(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// checkName returns an error for what is no name of a queue.
func checkName(name string) error {
	if len(name) < minName || len(name) > maxName {
		return rest.Fail(400, "OutOfRangeInput", "The specified resource name length is not within the permissible limits.")
	}
	if !nameForm.MatchString(name) {
		return rest.Fail(400, "InvalidResourceName", "The specified resource name contains invalid characters.")
	}
	return nil
}

const metadataPrefix = "x-ms-meta-"

var metadataForm = regexp.MustCompile(`^[\pL_][\pL\pN_]*$`)

// readMetadata returns the metadata in the headers of a request. Names are in
// lower case, because HTTP does not keep their case.
func readMetadata(h http.Header) (map[string]string, error) {
	metadata, size := make(map[string]string), 0
	for header, values := range h {
		name, ok := strings.CutPrefix(strings.ToLower(header), metadataPrefix)
		if !ok {
			continue
		}
		if name == "" {
			return nil, rest.Fail(400, "EmptyMetadataKey", "The key for one of the metadata key-value pairs is empty.")
		}
		if !metadataForm.MatchString(name) {
			return nil, rest.Fail(400, "InvalidMetadata", "The metadata specified is invalid. It has characters that are not permitted.")
		}
		value := strings.Join(values, ",")
		metadata[name] = value
		size += len(name) + len(value)
	}
	if size > maxMetadata {
		return nil, rest.Fail(400, "MetadataTooLarge", "The metadata specified exceeds the maximum permissible limit (8KB).")
	}
	return metadata, nil
}

// writeMetadata adds metadata to the headers of an answer.
func writeMetadata(h http.Header, metadata map[string]string) {
	for name, value := range metadata {
		h[http.CanonicalHeaderKey(metadataPrefix+name)] = []string{value}
	}
}

// sortedNames returns the names of metadata in order.
func sortedNames(metadata map[string]string) []string {
	names := make([]string, 0, len(metadata))
	for name := range metadata {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}
