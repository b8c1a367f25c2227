package app

import (
	"bytes"
	"encoding/json"
	"io"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// redacted is a writer without secrets. Nothing in this program writes one, but
// errors of libraries and services are written as they are, and what those
// contain differs from version to version. A line must be one write.
type redacted struct {
	next io.Writer
	own  []string // secrets of the settings, as they are in JSON
}

// NewRedacted returns a writer that passes on what it gets, without the secrets
// in environ and without what looks like a secret.
func NewRedacted(next io.Writer, environ []string) redacted {
	w := redacted{next: next}
	for _, setting := range environ {
		name, value, _ := strings.Cut(setting, "=")
		parts := secretParts().FindAllStringSubmatch(value, -1)
		if strings.HasPrefix(name, "OTEL_EXPORTER_OTLP_") && strings.HasSuffix(name, "HEADERS") {
			parts = append(parts, headerValues().FindAllStringSubmatch(value, -1)...)
		}
		for _, part := range parts {
			decoded, _ := url.PathUnescape(part[1])
			for _, secret := range []string{part[1], decoded} {
				if text, _ := json.Marshal(secret); len(secret) >= minSecret {
					w.own = append(w.own, secret, string(text[1:len(text)-1]))
				}
			}
		}
	}
	slices.SortFunc(w.own, func(a, b string) int { return len(b) - len(a) }) // one may be part of another
	w.own = slices.Compact(w.own)
	return w
}

// minSecret is the length below which a value of a setting is not a secret, but
// a word that lines may need.
const minSecret = 8

func (w redacted) Write(line []byte) (int, error) {
	clean := line
	for _, secret := range w.own {
		clean = bytes.ReplaceAll(clean, []byte(secret), []byte(Removed))
	}
	clean = secretLooks().ReplaceAll(clean, []byte("${1}${2}${3}${4}"+Removed))
	if _, err := w.next.Write(clean); err != nil {
		return 0, err
	}
	return len(line), nil
}

// Removed replaces a secret.
const Removed = "REDACTED"

// The expressions are compiled with the first line and not at the start of the
// process.
var (
	// secretParts finds the secrets in a connection string or an address.
	secretParts = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?i)(?:AccountKey|SharedAccessKey|sig)=([^;&]+)`)
	})

	headerValues = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`=([^,]+)`) })

	// secretLooks finds what looks like a secret in a line: a value in a
	// connection string or a query, also where another text quotes it, the user of
	// an address, the value of a header, and a token.
	secretLooks = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?i)` +
			`((?:\b|u0026|%3F|%26)(?:AccountKey|SharedAccessKey|sig|x-functions-key|api-?key|access_token|client_secret|password)(?:=|%3D)|(?:[?&]|u0026|%3F|%26)code(?:=|%3D))[^\s"'\\&;,<>)\]}]+` +
			`|(://)[^\s"'\\/@]+@` +
			`|(\b(?:authorization|cookie|x-functions-key|x-ms-client-principal|x-ms-token-[a-z-]+|api-key)\\?"?: ?\[?(?:\\?")?)[^"\\\]\n]+` +
			`|(\b(?:Bearer|Basic|SharedKey) )[A-Za-z0-9+/=._:~-]{16,}` +
			`|\beyJ[\w-]{8,}\.[\w.-]+`)
	})
)
