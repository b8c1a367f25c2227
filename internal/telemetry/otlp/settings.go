package otlp

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path"
	"strconv"
	"strings"
	"time"
)

// The settings of OpenTelemetry that this package reads, besides those that
// begin with OTEL_EXPORTER_OTLP_.
const (
	disabled       = "OTEL_SDK_DISABLED"
	tracesExporter = "OTEL_TRACES_EXPORTER"
)

const defaultTimeout = 10 * time.Second

// value returns a setting of the exporter and its whole name. One for traces
// has precedence over that for all signals.
func value(env map[string]string, setting string) (name, is string) {
	name = "OTEL_EXPORTER_OTLP_TRACES_" + setting
	if is = strings.TrimSpace(env[name]); is == "" {
		name = "OTEL_EXPORTER_OTLP_" + setting
		is = strings.TrimSpace(env[name])
	}
	return name, is
}

// requested returns the collector that the environment requests, or nil. A
// setting without which spans would be sent to the wrong place, or as someone
// else, turns traces off; another one that is wrong is replaced by its default.
// No value is logged that may contain a secret.
func requested(env map[string]string, log *slog.Logger) *collector {
	name, endpoint := value(env, "ENDPOINT")
	switch to := env[tracesExporter]; {
	case endpoint == "" || strings.EqualFold(env[disabled], "true") || to == "none":
		return nil
	case to != "" && to != "otlp":
		log.Warn("traces are off: the setting names another exporter than otlp", "setting", tracesExporter, "value", to)
		return nil
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		log.Warn("traces are off: the setting is not an address; use the form http://127.0.0.1:4318", "setting", name)
		return nil
	}
	if !strings.HasSuffix(name, "_TRACES_ENDPOINT") {
		u.Path, u.RawPath = path.Join("/", u.Path, "v1/traces"), ""
	}
	c := &collector{address: u}
	var valid bool
	if name, list := value(env, "HEADERS"); list != "" {
		if c.headers, valid = headersOf(list); !valid {
			log.Warn("traces are off: the setting is not a list of headers; use the form name=value,name=value", "setting", name)
			return nil
		}
	}
	if name, err := c.readCertificates(env); err != nil {
		log.Warn("traces are off: the certificate of the setting cannot be used", "setting", name, "error", oneLine(err))
		return nil
	}
	c.readOptions(env, log)
	return c
}

// readOptions reads the settings that have a default.
func (c *collector) readOptions(env map[string]string, log *slog.Logger) {
	if name, is := value(env, "PROTOCOL"); is != "" && is != "http/protobuf" {
		log.Warn("traces are sent by http/protobuf; the protocol of the settings is not supported. Name the port that the collector has for HTTP, normally 4318", "setting", name, "value", is)
	}
	name, is := value(env, "COMPRESSION")
	c.gzip = is == "gzip"
	if is != "" && is != "gzip" && is != "none" {
		log.Warn("traces are sent without compression; that of the settings is not supported", "setting", name, "value", is)
	}
	c.timeout = defaultTimeout
	if name, is = value(env, "TIMEOUT"); is != "" {
		if n, err := strconv.Atoi(is); err == nil && n > 0 && n <= int(time.Hour/time.Millisecond) {
			c.timeout = time.Duration(n) * time.Millisecond
		} else {
			log.Warn("a setting of traces is out of range; another value is used", "setting", name, "value", defaultTimeout.Milliseconds())
		}
	}
	name, is = value(env, "INSECURE") // of gRPC, for addresses without a scheme
	if is != "" && strings.EqualFold(is, "true") != (c.address.Scheme == "http") {
		log.Warn("the scheme of the collector's address decides on encryption; a setting that says otherwise is ignored", "setting", name, "value", is)
	}
}

// headersOf reads a list of headers, as name=value,name=value. The values are
// escaped as in addresses.
func headersOf(list string) (headers map[string]string, valid bool) {
	headers = make(map[string]string)
	for header := range strings.SplitSeq(list, ",") {
		if strings.TrimSpace(header) == "" {
			continue
		}
		name, escaped, found := strings.Cut(header, "=")
		text, err := url.PathUnescape(escaped)
		name, text = strings.TrimSpace(name), strings.TrimSpace(text)
		if !found || err != nil || !isHeaderName(name) || strings.ContainsFunc(text, isControl) {
			return nil, false
		}
		headers[http.CanonicalHeaderKey(name)] = text
	}
	return headers, true
}

func isHeaderName(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		isLetter := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
		return !isLetter && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	})
}

func isControl(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }

// readCertificates reads the files of certificates that the settings name. The
// setting is that of an error.
func (c *collector) readCertificates(env map[string]string) (setting string, err error) {
	setting, authorities := value(env, "CERTIFICATE")
	certName, cert := value(env, "CLIENT_CERTIFICATE")
	keyName, key := value(env, "CLIENT_KEY")
	switch {
	case authorities == "" && cert == "" && key == "":
		return "", nil
	case c.address.Scheme != "https":
		if authorities == "" {
			setting = certName
		}
		return setting, errors.New("the address of the collector begins with http: use https or remove the setting")
	case cert == "" && key != "":
		return certName, errors.New("it is empty, but there is a key: set both or remove it")
	case cert != "" && key == "":
		return keyName, errors.New("it is empty, but there is a certificate: set both or remove it")
	}
	c.tls = &tls.Config{}
	if authorities != "" {
		text, err := os.ReadFile(authorities)
		if err != nil {
			return setting, err
		}
		c.tls.RootCAs = x509.NewCertPool()
		if !c.tls.RootCAs.AppendCertsFromPEM(text) {
			return setting, errors.New("the file has no certificate in the form PEM")
		}
	}
	if cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return certName, err
		}
		c.tls.Certificates = []tls.Certificate{pair}
	}
	return "", nil
}
