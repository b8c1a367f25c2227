package blob

import (
	"bytes"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"kennel/devstore/internal/rest"
	"kennel/internal/loopback"
)

// A source is a blob of this store that a request names by its address.
type source struct {
	place
	address *url.URL
	later   bool // Azure reads it after the answer
}

// parseSource reads the address of the source.
func (c *call) parseSource() (*source, error) {
	const name = "x-ms-copy-source"
	text := c.r.Header(name)
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || len(text) > 2<<10 {
		return nil, rest.InvalidHeader(name, text)
	}
	account, path, ok := c.split(u)
	if !ok {
		return nil, notImplemented("%s from another store", c.operation)
	}
	s := &source{address: u}
	s.Account = account
	container, blob, found := strings.Cut(path, "/")
	if !found {
		container, blob = "$root", container
	}
	s.Container = container
	if s.Blob, err = url.PathUnescape(blob); err != nil || s.Blob == "" {
		return nil, rest.InvalidHeader(name, text)
	}
	if s.Snapshot, err = parseSnapshot(u.Query().Get("snapshot")); err != nil {
		return nil, err
	}
	// Another operation could need another right than to read the blob.
	if query := u.Query(); query.Has("comp") || query.Has("restype") {
		return nil, rest.InvalidHeader(name, u.Redacted())
	}
	if u.Query().Has("versionid") {
		return nil, notImplemented("%s from a version", c.operation)
	}
	return s, nil
}

// split divides an address of this store into the account and the path below
// it. Accounts are the first label of the host or the first segment of the path,
// as they are in the address of this request. What may follow both is the name
// of the service.
func (c *call) split(u *url.URL) (account, path string, ok bool) {
	path = strings.TrimPrefix(u.EscapedPath(), "/")
	base := strings.TrimSuffix(c.r.HTTP.URL.EscapedPath(), c.r.Path)
	if base == "/" {
		account, kind, _ := strings.Cut(u.Host, ".")
		_, ownKind, _ := strings.Cut(c.r.HTTP.Host, ".")
		return account, path, kind == ownKind
	}
	first, path, _ := strings.Cut(path, "/")
	account, kind, _ := strings.Cut(first, ".")
	_, ownKind, _ := strings.Cut(strings.Trim(base, "/"), ".")
	return account, path, kind == ownKind && sameHost(c.r.HTTP.Host, u.Host)
}

// sameHost compares hosts. All names of the loopback are one.
func sameHost(a, b string) bool {
	if strings.EqualFold(a, b) {
		return true
	}
	_, portA, errA := net.SplitHostPort(a)
	_, portB, errB := net.SplitHostPort(b)
	return errA == nil && errB == nil && portA == portB && loopback.IsHost(a) && loopback.IsHost(b)
}

// verify checks that the caller may read the source. A caller who holds the key
// of the account needs no signature in the address of a source that is read
// later.
func (c *call) verify(s *source) error {
	signed := s.address.Query().Has("sig") || c.r.Header("x-ms-copy-source-authorization") != ""
	if s.later && !signed && c.r.Grant == nil && s.Account == c.r.Account {
		return nil
	}
	sub, err := http.NewRequestWithContext(c.r.Context(), http.MethodHead, s.address.String(), nil)
	if err != nil {
		return rest.InvalidHeader("x-ms-copy-source", s.address.Redacted())
	}
	sub.Header.Set("x-ms-version", c.r.Header("x-ms-version"))
	if token := c.r.Header("x-ms-copy-source-authorization"); token != "" {
		sub.Header.Set("Authorization", token)
	}
	a := c.sub(sub)
	switch {
	case a.Status == 404:
		return rest.Fail(404, "CannotVerifyCopySource", "The specified blob does not exist.")
	case a.Status >= 400:
		return rest.Fail(a.Status, "CannotVerifyCopySource", "The source cannot be read: %s.", a.Header.Get("x-ms-error-code"))
	}
	return nil
}

// read returns the source under the conditions on it. The caller holds the lock.
func (c *call) read(s *source, when conditions) (*version, error) {
	k := c.Service.container(s.Account, s.Container)
	if k == nil {
		return nil, errNoContainer
	}
	b, _ := k.blobs.Get(s.Blob)
	v := b.version(s.Snapshot)
	if v == nil {
		return nil, errNoBlob
	}
	if err := when.source(v, s.later); err != nil {
		return nil, err
	}
	return v, b.lease.checkRead(c.r.Header("x-ms-source-lease-id"), ofBlob, c.now())
}

// copyBlob makes the blob a copy of another, at once. Azure copies later unless
// x-ms-requires-sync is set; a caller sees only that the copy is done early.
func (c *call) copyBlob() (*rest.Answer, error) {
	sync := strings.EqualFold(c.r.Header("x-ms-requires-sync"), "true")
	meta, err := parseMetadata(c.r)
	if err != nil {
		return nil, err
	}
	from, when, err := c.prepareCopy(!sync)
	if err != nil {
		return nil, err
	}
	seal := c.r.Header("x-ms-seal-blob")
	c.mu.Lock()
	defer c.mu.Unlock()
	v, b, err := c.bothEnds(from, when)
	if err != nil {
		return nil, err
	}
	stamp := c.next(c.r)
	p := v.clone()
	p.Tier = c.r.Header("x-ms-access-tier")
	p.begin(v.Type, b, stamp)
	if meta != nil {
		p.Meta = meta
	}
	switch {
	case strings.EqualFold(seal, "true") && v.Type == appendBlob:
		p.Sealed = true
	case seal != "":
		p.Sealed = false
	}
	size := strconv.FormatInt(v.length, 10)
	plain := *from.address
	plain.RawQuery = ""
	if from.Snapshot != 0 {
		plain.RawQuery = "snapshot=" + url.QueryEscape(writeSnapshot(from.Snapshot))
	}
	p.Copy = &copied{ID: c.newID(stamp), Source: plain.String(), Progress: size + "/" + size, At: stamp}
	headers := []string{"x-ms-copy-id", p.Copy.ID, "x-ms-copy-status", "success"}
	if sync {
		sums, err := c.checkSource(v.bytes(0, v.length))
		if err != nil {
			return nil, err
		}
		headers = append(headers, sums...)
	}
	return stamped(202, p, headers...), c.commitCopy(b, stamp, p, from)
}

// commitCopy logs where the content came from, not the content.
func (c *call) commitCopy(b *blob, stamp int64, p *props, from *source) error {
	change := c.change(opCopy, b, stamp)
	change.Props, change.Source = p, &from.place
	return c.commit(change)
}

// prepareCopy reads the source of a copy and checks that the caller may read it.
func (c *call) prepareCopy(later bool) (*source, conditions, error) {
	when, err := parseConditions(c.r, "x-ms-source-")
	if err != nil {
		return nil, when, err
	}
	from, err := c.parseSource()
	if err != nil {
		return nil, when, err
	}
	from.later = later
	return from, when, c.verify(from)
}

// bothEnds returns the source and the destination of a copy.
func (c *call) bothEnds(from *source, when conditions) (*version, *blob, error) {
	v, err := c.read(from, when)
	if err != nil {
		return nil, nil, err
	}
	b, err := c.toCreate()
	if err != nil {
		return nil, nil, err
	}
	if b.base != nil && b.base.Type != v.Type {
		return nil, nil, errType
	}
	return v, b, nil
}

// checkSource compares data of a source with the checksums that the caller sent.
// It returns the headers of the answer.
func (c *call) checkSource(data []byte) ([]string, error) {
	given, err := parseMD5(c.r, "x-ms-source-content-md5")
	if err != nil {
		return nil, err
	}
	actual := md5Of(data)
	if given != nil {
		if !bytes.Equal(given, actual) {
			return nil, mismatch("Md5Mismatch", "MD5", given, actual)
		}
		return []string{"Content-MD5", encode64(actual)}, nil
	}
	crc := crcOf(data)
	if text := c.r.Header("x-ms-source-content-crc64"); text != "" && text != encode64(crc) {
		return nil, rest.Fail(400, "Crc64Mismatch", "The CRC64 value specified in the request did not match with the CRC64 value calculated by the server.")
	}
	return []string{"x-ms-content-crc64", encode64(crc)}, nil
}

// putFromURL is Put Blob with content of another blob.
func (c *call) putFromURL() (*rest.Answer, error) {
	own, err := parseUpload(c.r)
	if err != nil {
		return nil, err
	}
	from, when, err := c.prepareCopy(false)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	v, b, err := c.bothEnds(from, when)
	if err != nil {
		return nil, err
	}
	if v.Type != blockBlob {
		return nil, errType
	}
	sums, err := c.checkSource(v.bytes(0, v.length))
	if err != nil {
		return nil, err
	}
	p := own
	if !strings.EqualFold(c.r.Header("x-ms-copy-source-blob-properties"), "false") {
		p = v.clone()
		p.override(own)
	}
	p.orType("")
	p.MD5, p.Copy = encode64(md5Of(v.bytes(0, v.length))), nil
	stamp := c.next(c.r)
	p.begin(blockBlob, b, stamp)
	return stamped(201, p, append(sums, encrypted...)...), c.commitCopy(b, stamp, p, from)
}

// override replaces what other properties set.
func (p *props) override(other *props) {
	pairs := map[*string]string{
		&p.ContentType: other.ContentType, &p.Encoding: other.Encoding, &p.Language: other.Language,
		&p.Disposition: other.Disposition, &p.Cache: other.Cache,
	}
	for to, text := range pairs {
		if text != "" {
			*to = text
		}
	}
	p.Meta, p.Tier, p.Tiered = other.Meta, other.Tier, 0
}

// fromURL returns the part of the source that a block is made of, and the
// headers that answer for it. It may be as large as the body of the same call
// without a source.
func (c *call) fromURL(limit int64) ([]byte, []string, error) {
	from, when, err := c.prepareCopy(false)
	if err != nil {
		return nil, nil, err
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	v, err := c.read(from, when)
	if err != nil {
		return nil, nil, err
	}
	first, end := int64(0), v.length
	if text := c.r.Header("x-ms-source-range"); text != "" {
		part := &rest.Request{HTTP: &http.Request{Header: http.Header{"Range": {text}}}}
		if first, end, _, err = parseRange(part, v.length); err != nil {
			return nil, nil, err
		}
	}
	if end-first > limit {
		return nil, nil, rest.Fail(413, "RequestBodyTooLarge", "The part of the source is larger than a block may be.")
	}
	data := v.bytes(first, end)
	if len(data) == 0 {
		return nil, nil, rest.InvalidHeader("x-ms-copy-source", from.address.Redacted())
	}
	sums, err := c.checkSource(data)
	return data, sums, err
}

func (c *call) putBlockFromURL() (*rest.Answer, error) {
	data, sums, err := c.fromURL(maxBlock)
	if err != nil {
		return nil, err
	}
	return c.stage(data, sums)
}

func (c *call) appendFromURL() (*rest.Answer, error) {
	data, sums, err := c.fromURL(maxAppended)
	if err != nil {
		return nil, err
	}
	return c.append(data, sums)
}

// abortCopy fails always: no copy takes time.
func (c *call) abortCopy() (*rest.Answer, error) {
	if _, err := parseID("", c.r.Query.Get("copyid")); err != nil {
		return nil, rest.InvalidQuery("copyid", c.r.Query.Get("copyid"), "Not a GUID.")
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	if _, _, err := c.existing(); err != nil {
		return nil, err
	}
	return nil, rest.Fail(409, "NoPendingCopyOperation", "There is currently no pending copy operation.")
}
