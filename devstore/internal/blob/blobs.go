package blob

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"kennel/devstore/internal/rest"
)

// maxHashed is the longest range whose checksum a reader may ask for.
const maxHashed = 4 << 20

func (c *call) putBlob() (*rest.Answer, error) {
	p, err := parseUpload(c.r)
	if err != nil {
		return nil, err
	}
	p.orType(c.r.Header("Content-Type"))
	sum, crc := md5Of(c.r.Body), crcOf(c.r.Body)
	for _, name := range []string{"Content-MD5", "x-ms-blob-content-md5"} {
		given, err := parseMD5(c.r, name)
		if err != nil {
			return nil, err
		}
		if given != nil && !bytes.Equal(given, sum) {
			return nil, mismatch("Md5Mismatch", "MD5", given, sum)
		}
	}
	if err := checkCRC(c.r, crc); err != nil {
		return nil, err
	}
	p.MD5 = encode64(sum)
	return c.putNew(p, blockBlob, "Content-MD5", p.MD5, "x-ms-content-crc64", encode64(crc))
}

func (c *call) putAppendBlob() (*rest.Answer, error) {
	p, err := parseUpload(c.r)
	if err != nil {
		return nil, err
	}
	if p.Tier != "" {
		return nil, rest.InvalidHeader("x-ms-access-tier", p.Tier)
	}
	p.orType(c.r.Header("Content-Type"))
	return c.putNew(p, appendBlob)
}

// putNew makes or replaces a blob, with the body as its content.
func (c *call) putNew(p *props, kind string, headers ...string) (*rest.Answer, error) {
	content := body(c.r)
	c.mu.Lock()
	defer c.mu.Unlock()
	b, err := c.toCreate()
	if err != nil {
		return nil, err
	}
	change := c.change(opPut, b, c.next(c.r))
	change.Props, change.data = p, content
	p.begin(kind, b, change.Stamp)
	if err := c.commit(change); err != nil {
		return nil, err
	}
	return stamped(201, p, append(headers, encrypted...)...), nil
}

// begin sets the properties of a blob that is made or replaced.
func (p *props) begin(kind string, b *blob, stamp int64) {
	p.Type, p.Created, p.Stamp = kind, stamp, stamp
	if p.Tier != "" {
		p.Tiered = stamp
	}
}

// describe sets the headers of reads that do not depend on the range.
func (c *call) describe(h http.Header, b *blob, v *version) {
	set := func(name, value string) {
		if value != "" {
			h.Set(name, value)
		}
	}
	h["Content-Type"] = nil // so that it is not guessed
	override := func(key, own string) string {
		if c.r.Grant != nil && c.r.Grant.Override[key] != "" {
			return c.r.Grant.Override[key]
		}
		return own
	}
	set("Content-Type", override("rsct", v.ContentType))
	set("Content-Encoding", override("rsce", v.Encoding))
	set("Content-Language", override("rscl", v.Language))
	set("Content-Disposition", override("rscd", v.Disposition))
	set("Cache-Control", override("rscc", v.Cache))
	set("ETag", v.etag())
	set("Last-Modified", v.modified())
	set("Accept-Ranges", "bytes")
	set("x-ms-blob-type", v.Type)
	set("x-ms-creation-time", rest.Date(timeOf(v.Created)))
	set("x-ms-server-encrypted", "true")
	if v.snapshot == 0 {
		state, status, duration := b.lease.describe(c.now())
		set("x-ms-lease-state", state)
		set("x-ms-lease-status", status)
		set("x-ms-lease-duration", duration)
	}
	if v.Type == appendBlob {
		set("x-ms-blob-committed-block-count", strconv.Itoa(len(v.blocks)))
	}
	if v.Sealed {
		set("x-ms-blob-sealed", "true")
	}
	if v.Copy != nil {
		set("x-ms-copy-id", v.Copy.ID)
		set("x-ms-copy-source", v.Copy.Source)
		set("x-ms-copy-status", "success")
		set("x-ms-copy-progress", v.Copy.Progress)
		set("x-ms-copy-completion-time", rest.Date(timeOf(v.Copy.At)))
	}
	setMetadata(h, v.Meta)
}

func (c *call) getBlob() (*rest.Answer, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	b, v, err := c.toRead()
	if err != nil {
		return nil, err
	}
	from, to, part, err := parseRange(c.r, v.length)
	if err != nil {
		return nil, err
	}
	a := rest.Reply(200)
	c.describe(a.Header, b, v)
	a.Body = v.bytes(from, to)
	sums := []string{"x-ms-range-get-content-md5", "x-ms-range-get-content-crc64"}
	for _, name := range sums {
		if !strings.EqualFold(c.r.Header(name), "true") {
			continue
		}
		if !part || to-from > maxHashed {
			return nil, rest.InvalidHeader(name, c.r.Header(name))
		}
		if name == sums[0] {
			a.Header.Set("Content-MD5", encode64(md5Of(a.Body)))
		} else {
			a.Header.Set("x-ms-content-crc64", encode64(crcOf(a.Body)))
		}
	}
	switch {
	case part:
		a.Status = 206
		a.Header.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, to-1, v.length))
		if v.MD5 != "" {
			a.Header.Set("x-ms-blob-content-md5", v.MD5)
		}
	case v.MD5 != "":
		a.Header.Set("Content-MD5", v.MD5)
	}
	return a, nil
}

// parseRange returns the part of the content that a read asks for. A range that
// cannot be read counts as none, as HTTP defines.
func parseRange(r *rest.Request, length int64) (from, to int64, part bool, err error) {
	text := r.Header("x-ms-range")
	if text == "" {
		text = r.Header("Range")
	}
	first, last, found := strings.Cut(strings.TrimPrefix(text, "bytes="), "-")
	from, err = strconv.ParseInt(first, 10, 64)
	if !found || err != nil || from < 0 {
		return 0, length, false, nil
	}
	to = length
	if last != "" {
		n, err := strconv.ParseInt(last, 10, 64)
		if err != nil || n < from {
			return 0, length, false, nil
		}
		if n < length {
			to = n + 1
		}
	}
	if from >= length {
		e := rest.Fail(416, "InvalidRange", "The range specified is invalid for the current size of the resource.")
		e.Header = http.Header{"Content-Range": {fmt.Sprintf("bytes */%d", length)}}
		return 0, 0, false, e
	}
	return from, to, true, nil
}

func (c *call) blobProperties() (*rest.Answer, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	b, v, err := c.toRead()
	if err != nil {
		return nil, err
	}
	a := rest.Reply(200, "Content-MD5", v.MD5)
	c.describe(a.Header, b, v)
	if v.Type == blockBlob {
		tier, inferred := v.tier()
		a.Header.Set("x-ms-access-tier", tier)
		if inferred {
			a.Header.Set("x-ms-access-tier-inferred", "true")
		} else {
			a.Header.Set("x-ms-access-tier-change-time", rest.Date(timeOf(v.Tiered)))
		}
	}
	a.Length = v.length
	return a, nil
}

// tier returns the access tier, and whether it is that of the account.
func (p *props) tier() (tier string, inferred bool) {
	if p.Tier == "" {
		return "Hot", true
	}
	return p.Tier, false
}

func (c *call) blobMetadata() (*rest.Answer, error) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	_, v, err := c.toRead()
	if err != nil {
		return nil, err
	}
	a := stamped(200, &v.props)
	setMetadata(a.Header, v.Meta)
	return a, nil
}

func (c *call) setBlobMetadata() (*rest.Answer, error) {
	meta, err := parseMetadata(c.r)
	if err != nil {
		return nil, err
	}
	return c.setProps(func(p *props) { p.Meta = meta }, encrypted...)
}

func (c *call) setBlobProperties() (*rest.Answer, error) {
	set, err := parseContent(c.r)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"x-ms-blob-content-length", "x-ms-sequence-number-action", "x-ms-blob-sequence-number"} {
		if c.r.Header(name) != "" {
			return nil, errType // they are for page blobs
		}
	}
	return c.setProps(func(p *props) {
		p.ContentType, p.Encoding, p.Language = set.ContentType, set.Encoding, set.Language
		p.Disposition, p.Cache, p.MD5 = set.Disposition, set.Cache, set.MD5
	})
}

// setProps changes properties of the blob.
func (c *call) setProps(set func(*props), headers ...string) (*rest.Answer, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	b, v, err := c.toChange()
	if err != nil {
		return nil, err
	}
	change := c.change(opProps, b, c.next(c.r))
	change.Props = v.clone()
	set(change.Props)
	change.Props.Stamp = change.Stamp
	if err := c.commit(change); err != nil {
		return nil, err
	}
	return stamped(200, change.Props, headers...), nil
}

// setTier notes the access tier, which changes neither ETag nor content.
func (c *call) setTier() (*rest.Answer, error) {
	tier := c.r.Header("x-ms-access-tier")
	if tier == "" {
		return nil, rest.MissingHeader("x-ms-access-tier")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	b, v, err := c.existing()
	if err != nil {
		return nil, err
	}
	if v.Type != blockBlob {
		return nil, errType
	}
	if id := c.r.Header("x-ms-lease-id"); id != "" {
		if err := b.lease.checkWrite(id, ofBlob, c.now()); err != nil {
			return nil, err
		}
	}
	change := &change{Op: opProps, Account: c.r.Account, Container: c.name, Blob: c.blob, Snapshot: c.snapshot, Stamp: c.next(c.r)}
	change.Props = v.clone()
	change.Props.Tier, change.Props.Tiered = tier, change.Stamp
	return rest.Reply(200), c.commit(change)
}

func (c *call) deleteBlob() (*rest.Answer, error) {
	which := strings.ToLower(c.r.Header("x-ms-delete-snapshots"))
	if !slices.Contains([]string{"", "include", "only"}, which) {
		return nil, rest.InvalidHeader("x-ms-delete-snapshots", which)
	}
	if which != "" && c.snapshot != 0 {
		return nil, rest.InvalidQuery("snapshot", writeSnapshot(c.snapshot), "Not allowed with x-ms-delete-snapshots.")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	b, v, err := c.toDelete()
	if err != nil {
		return nil, err
	}
	change := &change{Op: opDelete, Account: c.r.Account, Container: c.name, Blob: c.blob, Snapshot: c.snapshot}
	switch {
	case which == "include":
		change.Op = opDeleteAll
	case which == "only":
		change.Op = opDeleteSnapshots
	case v.snapshot == 0 && len(b.snapshots) > 0:
		return nil, rest.Fail(409, "SnapshotsPresent", "This operation is not permitted because the blob has snapshots.")
	}
	change.Stamp = c.next(c.r)
	return rest.Reply(202, "x-ms-delete-type-permanent", "true"), c.commit(change)
}

// toDelete returns the version that the call may delete.
func (c *call) toDelete() (*blob, *version, error) {
	when, err := parseConditions(c.r, "")
	if err != nil {
		return nil, nil, err
	}
	tier, err := parseConditions(c.r, "x-ms-access-tier-")
	if err != nil {
		return nil, nil, err
	}
	b, v, err := c.existing()
	if err != nil {
		return nil, nil, err
	}
	if err := when.write(v.etag(), timeOf(v.Stamp)); err != nil {
		return nil, nil, err
	}
	if at := timeOf(v.Tiered); !tier.modified(at) || !tier.unmodified(at) {
		return nil, nil, rest.Fail(412, "AccessTierChangeTimeConditionNotMet", "The condition on the time when the access tier changed is not met.")
	}
	if c.snapshot != 0 {
		return b, v, nil
	}
	return b, v, b.lease.checkWrite(c.r.Header("x-ms-lease-id"), ofBlob, c.now())
}

// accountInfo answers what kind of account this is.
func (c *call) accountInfo() (*rest.Answer, error) {
	return rest.Reply(200, "x-ms-sku-name", "Standard_LRS", "x-ms-account-kind", "StorageV2", "x-ms-is-hns-enabled", "false"), nil
}
