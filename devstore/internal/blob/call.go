package blob

import (
	"cmp"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"kennel/devstore/internal/rest"
)

// A call is one request to the service, with what its address names.
type call struct {
	*Service
	r         *rest.Request
	operation string
	name      string // of the container
	blob      string
	snapshot  int64
}

func (c *call) now() int64 { return ticks(c.r.Now) }

// The errors of addresses.
var (
	errNoContainer = rest.Fail(404, "ContainerNotFound", "The specified container does not exist.")
	errNoBlob      = rest.Fail(404, "BlobNotFound", "The specified blob does not exist.")
	errName        = rest.Fail(400, "InvalidResourceName", "The specified resource name contains invalid characters.")
	errNameLength  = rest.Fail(400, "OutOfRangeInput", "One of the request inputs is out of range.")
	errPath        = rest.Fail(400, "InvalidUri", "The requested URI does not represent any resource on the server.")
	errType        = rest.Fail(409, "InvalidBlobType", "The blob type is invalid for this operation.")
)

// checkContainerName applies Azure's rules for the names of containers.
func checkContainerName(name string) error {
	switch name {
	case "$root", "$web", "$logs":
		return nil
	}
	if len(name) < 3 || len(name) > 63 {
		return errNameLength
	}
	for i, c := range []byte(name) {
		inner := c == '-' && i > 0 && i < len(name)-1 && name[i-1] != '-'
		if !inner && (c < '0' || c > '9') && (c < 'a' || c > 'z') {
			return errName
		}
	}
	return nil
}

// The limits of the names of blobs.
const (
	maxBlobName = 1024 // characters
	maxSegments = 254
)

func checkBlobName(name string) error {
	switch {
	case !utf8.ValidString(name):
		return errPath
	case utf8.RuneCountInString(name) > maxBlobName || strings.Count(name, "/") >= maxSegments:
		return errNameLength
	}
	return nil
}

// parseSnapshot reads the time that names a snapshot, "" for none.
func parseSnapshot(text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil || at.Year() < 2000 || at.Year() > 2200 {
		return 0, rest.InvalidQuery("snapshot", text, "Must be a time as the service returned it.")
	}
	return ticks(at), nil
}

func writeSnapshot(snapshot int64) string { return timeOf(snapshot).Format(snapshotLayout) }

// container returns the container of the call. The caller holds the lock.
func (c *call) container() (*container, error) {
	k := c.Service.container(c.r.Account, c.name)
	if k == nil {
		return nil, errNoContainer
	}
	return k, nil
}

// target returns what exists under the name of the call's blob. It is an empty
// blob if nothing does.
func (c *call) target() (*blob, error) {
	k, err := c.container()
	if err != nil {
		return nil, err
	}
	b, found := k.blobs.Get(c.blob)
	if !found {
		b = new(blob)
	}
	return b, nil
}

// existing returns the version that the call names.
func (c *call) existing() (*blob, *version, error) {
	b, err := c.target()
	if err != nil {
		return nil, nil, err
	}
	v := b.version(c.snapshot)
	if v == nil {
		return nil, nil, errNoBlob
	}
	return b, v, nil
}

// toRead returns the version that the call may read under its conditions.
func (c *call) toRead() (*blob, *version, error) {
	when, err := parseConditions(c.r, "")
	if err != nil {
		return nil, nil, err
	}
	b, v, err := c.existing()
	if err != nil {
		return nil, nil, err
	}
	if err := when.read(v.etag(), timeOf(v.Stamp)); err != nil {
		return nil, nil, err
	}
	return b, v, c.checkLeaseRead(b)
}

func (c *call) checkLeaseRead(b *blob) error {
	if c.snapshot != 0 {
		return nil
	}
	return b.lease.checkRead(c.r.Header("x-ms-lease-id"), ofBlob, c.now())
}

// toChange returns the blob that the call may change under its conditions.
func (c *call) toChange() (*blob, *version, error) {
	when, err := parseConditions(c.r, "")
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
	return b, v, b.lease.checkWrite(c.r.Header("x-ms-lease-id"), ofBlob, c.now())
}

// toCreate returns the name under which the call may make or replace a blob.
func (c *call) toCreate() (*blob, error) {
	when, err := parseConditions(c.r, "")
	if err != nil {
		return nil, err
	}
	b, err := c.target()
	if err != nil {
		return nil, err
	}
	if err := c.mayReplace(b); err != nil {
		return nil, err
	}
	if err := when.create(b); err != nil {
		return nil, err
	}
	return b, b.lease.checkWrite(c.r.Header("x-ms-lease-id"), ofBlob, c.now())
}

// mayReplace refuses to replace a blob for a caller who may only create some.
func (c *call) mayReplace(b *blob) error {
	if b.base != nil && c.r.Grant != nil && !strings.Contains(c.r.Grant.Permissions, "w") {
		return rest.Fail(403, "UnauthorizedBlobOverwrite", "This request is not authorized to perform blob overwrites.")
	}
	return nil
}

// sub runs a request as one that came on the same connection.
func (c *call) sub(r *http.Request) *rest.Answer {
	r.Host, r.TLS, r.RemoteAddr = cmp.Or(r.Host, c.r.HTTP.Host), c.r.HTTP.TLS, c.r.HTTP.RemoteAddr
	r.URL.Scheme = c.r.HTTP.URL.Scheme
	return c.r.Sub(r)
}

// change returns a change of the call's blob. The blob's lease changes with it
// if it expired or was broken.
func (c *call) change(op string, b *blob, stamp int64) *change {
	at := &change{Op: op, Account: c.r.Account, Container: c.name, Blob: c.blob, Stamp: stamp}
	if after := b.lease.written(c.now()); after != b.lease {
		at.Lease = &after
	}
	return at
}

// stamped returns an answer with the ETag and the time of a version.
func stamped(status int, p *props, headers ...string) *rest.Answer {
	return rest.Reply(status, append(headers, "ETag", p.etag(), "Last-Modified", p.modified())...)
}

// encrypted is what answers to writes say of encryption, as Azure's do.
var encrypted = []string{"x-ms-request-server-encrypted", "true"}
