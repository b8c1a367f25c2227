package blob

import (
	"bytes"
	"crypto/md5" // Azure's choice
	"encoding/base64"
	"encoding/binary"
	"hash/crc64"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"kennel/devstore/internal/rest"
)

// maxMetadata is how many bytes the names and values of metadata may have.
const maxMetadata = 8 << 10

const metaPrefix = "X-Ms-Meta-"

// parseMetadata reads the metadata of a request. Names are in lower case, since
// the case of a header is lost on its way.
func parseMetadata(r *rest.Request) (map[string]string, error) {
	var all map[string]string
	size := 0
	for header, values := range r.HTTP.Header {
		name, found := strings.CutPrefix(header, metaPrefix)
		if !found {
			continue
		}
		value := strings.Join(values, ",")
		switch {
		case name == "":
			return nil, rest.Fail(400, "EmptyMetadataKey", "The key for one of the metadata key-value pairs is empty.")
		case !identifier(name) || !utf8.ValidString(value):
			return nil, rest.Fail(400, "InvalidMetadata", "The metadata specified is invalid. It has characters that are not permitted.")
		}
		if all == nil {
			all = make(map[string]string)
		}
		all[strings.ToLower(name)] = value
		size += len(name) + len(value)
	}
	if size > maxMetadata {
		return nil, rest.Fail(400, "MetadataTooLarge", "The size of the specified metadata exceeds the maximum size permitted.")
	}
	return all, nil
}

// identifier reports whether a name is one of C#, in ASCII.
func identifier(name string) bool {
	for i, c := range []byte(name) {
		letter := c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return true
}

func setMetadata(h http.Header, meta map[string]string) {
	for name, value := range meta {
		h.Set(metaPrefix+name, value)
	}
}

// parseContent reads the headers that describe the content of a blob.
func parseContent(r *rest.Request) (*props, error) {
	p := &props{
		ContentType: r.Header("x-ms-blob-content-type"),
		Encoding:    r.Header("x-ms-blob-content-encoding"),
		Language:    r.Header("x-ms-blob-content-language"),
		Disposition: r.Header("x-ms-blob-content-disposition"),
		Cache:       r.Header("x-ms-blob-cache-control"),
	}
	for _, one := range []string{p.ContentType, p.Encoding, p.Language, p.Disposition, p.Cache} {
		if !utf8.ValidString(one) {
			return nil, rest.InvalidHeader("x-ms-blob-content-type", one)
		}
	}
	sum, err := parseMD5(r, "x-ms-blob-content-md5")
	if sum != nil {
		p.MD5 = base64.StdEncoding.EncodeToString(sum)
	}
	return p, err
}

// parseUpload reads the headers of an upload that makes a blob.
func parseUpload(r *rest.Request) (*props, error) {
	p, err := parseContent(r)
	if err != nil {
		return nil, err
	}
	for to, name := range map[*string]string{&p.Encoding: "Content-Encoding", &p.Language: "Content-Language", &p.Cache: "Cache-Control"} {
		if *to == "" && utf8.ValidString(r.Header(name)) {
			*to = r.Header(name)
		}
	}
	if p.Meta, err = parseMetadata(r); err != nil {
		return nil, err
	}
	p.Tier = r.Header("x-ms-access-tier")
	return p, nil
}

// orType sets the content type if the caller gave none for the blob.
func (p *props) orType(contentType string) {
	if p.ContentType == "" && utf8.ValidString(contentType) {
		p.ContentType = contentType
	}
	if p.ContentType == "" {
		p.ContentType = "application/octet-stream"
	}
}

func parseMD5(r *rest.Request, name string) ([]byte, error) {
	text := r.Header(name)
	if text == "" {
		return nil, nil
	}
	sum, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(sum) != md5.Size {
		return nil, rest.Fail(400, "InvalidMd5", "The MD5 value specified in the request is invalid. MD5 value must be 128 bits and base64 encoded.")
	}
	return sum, nil
}

// azureCRC is the polynomial of Azure's checksums, in reversed order of bits.
var azureCRC = crc64.MakeTable(0x9A6C9329AC4BC9B5)

func crcOf(data []byte) []byte {
	return binary.LittleEndian.AppendUint64(nil, crc64.Checksum(data, azureCRC))
}

func md5Of(data []byte) []byte {
	sum := md5.Sum(data)
	return sum[:]
}

func encode64(sum []byte) string { return base64.StdEncoding.EncodeToString(sum) }

// checkBody compares the body with the checksums that the caller sent. It
// returns the headers of the answer: the MD5 if the caller sent it, else the
// CRC64.
func checkBody(r *rest.Request) ([]string, error) {
	sum, err := parseMD5(r, "Content-MD5")
	if err != nil {
		return nil, err
	}
	if sum != nil {
		if actual := md5Of(r.Body); !bytes.Equal(sum, actual) {
			return nil, mismatch("Md5Mismatch", "MD5", sum, actual)
		}
		return []string{"Content-MD5", encode64(sum)}, nil
	}
	actual := crcOf(r.Body)
	if err := checkCRC(r, actual); err != nil {
		return nil, err
	}
	return []string{"x-ms-content-crc64", encode64(actual)}, nil
}

func checkCRC(r *rest.Request, actual []byte) error {
	const name = "x-ms-content-crc64"
	text := r.Header(name)
	if text == "" {
		return nil
	}
	sum, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(sum) != crc64.Size {
		return rest.InvalidHeader(name, text)
	}
	if !bytes.Equal(sum, actual) {
		return mismatch("Crc64Mismatch", "CRC64", sum, actual)
	}
	return nil
}

func mismatch(code, kind string, given, actual []byte) error {
	e := rest.Fail(400, code, "The %s value specified in the request did not match with the %s value calculated by the server.", kind, kind)
	name := strings.ReplaceAll(kind, "MD5", "Md5")
	e.Details = []string{"UserSpecified" + name, encode64(given), "ServerCalculated" + name, encode64(actual)}
	return e
}

// body returns the body to be kept, without room that a reader left behind it.
func body(r *rest.Request) []byte {
	if cap(r.Body)-len(r.Body) > len(r.Body)/8 {
		return slices.Clone(r.Body)
	}
	return r.Body
}

// unsupported are headers that change what a request means and that this store
// does not imitate.
var unsupported = []string{
	"X-Ms-Tags", "X-Ms-If-Tags", "X-Ms-Source-If-Tags",
	"X-Ms-Encryption-Scope", "X-Ms-Default-Encryption-Scope", "X-Ms-Deny-Encryption-Scope-Override",
	"X-Ms-Encryption-Key", "X-Ms-Encryption-Key-Sha256", "X-Ms-Encryption-Algorithm", "X-Ms-Source-Encryption-Key",
	"X-Ms-Immutability-Policy-Until-Date", "X-Ms-Immutability-Policy-Mode", "X-Ms-Legal-Hold",
	"X-Ms-Structured-Body",
}

// plainTiers are the access tiers that differ in price only.
var plainTiers = []string{"", "Hot", "Cool", "Cold"}

// checkSupported returns 501 for a request with a header that would have to be
// ignored, or with a tier that is more than a price.
func checkSupported(r *rest.Request, operation string) error {
	for _, name := range unsupported {
		if r.HTTP.Header[name] != nil {
			return notImplemented("%s with the header %s", operation, strings.ToLower(name))
		}
	}
	if r.Header("x-ms-expiry-option") != "" {
		return errFlat
	}
	switch tier := r.Header("x-ms-access-tier"); {
	case slices.Contains(plainTiers, tier):
		return nil
	case tier == "Archive", tier == "Smart", strings.HasPrefix(tier, "P"): // P4 to P80 and Premium
		return notImplemented("%s with the access tier %s", operation, tier)
	default:
		return rest.InvalidHeader("x-ms-access-tier", tier)
	}
}

func notImplemented(format string, args ...any) error {
	return rest.Fail(501, "NotImplemented", "This store does not imitate "+format+".", args...)
}
