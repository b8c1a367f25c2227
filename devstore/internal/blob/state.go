package blob

import (
	"maps"
	"slices"
	"time"

	"kennel/devstore/internal/rest"
	"kennel/devstore/internal/sorted"
)

// Times are kept in ticks of 100 ns since 1970, as Azure counts them.
const second = int64(time.Second / 100)

func ticks(t time.Time) int64 { return t.UnixNano() / 100 }

func timeOf(ticks int64) time.Time { return time.Unix(0, ticks*100).UTC() }

// snapshotLayout is how the time of a snapshot is written, which names it.
const snapshotLayout = "2006-01-02T15:04:05.0000000Z"

// A container is state that [change] describes, and its blobs.
type container struct {
	Stamp    int64             `json:"t"`
	Meta     map[string]string `json:"m,omitempty"`
	Access   string            `json:"p,omitempty"` // "", "blob" or "container"
	Policies []rest.Policy     `json:"i,omitempty"`
	Lease    lease             `json:"l,omitzero"`

	blobs sorted.List[*blob]
}

// A blob is all that exists under one name.
type blob struct {
	base      *version   // nil while there are only blocks that are not committed
	snapshots []*version // oldest first
	lease     lease
	pending   sorted.List[[]byte] // blocks that are not committed, by their IDs
	staged    int64               // when the last of them arrived
}

// empty reports whether nothing is left under the name.
func (b *blob) empty() bool {
	return b.base == nil && len(b.snapshots) == 0 && b.pending.Empty()
}

// version returns the base blob or one of its snapshots, nil if it does not
// exist. The blob may be nil.
func (b *blob) version(snapshot int64) *version {
	switch {
	case b == nil:
		return nil
	case snapshot == 0:
		return b.base
	}
	for _, v := range b.snapshots {
		if v.snapshot == snapshot {
			return v
		}
	}
	return nil
}

// A version is a blob or a snapshot of it.
type version struct {
	props
	snapshot int64 // 0 for the blob itself
	blocks   []block
	length   int64
}

// A block is a part of the content. Its bytes are never changed.
type block struct {
	id   string // "" for what was uploaded without a block list
	data []byte
}

// The types of blobs.
const (
	blockBlob  = "BlockBlob"
	appendBlob = "AppendBlob"
)

// props are what is known of a version apart from its content.
type props struct {
	Type    string `json:"k"`
	Created int64  `json:"c"`
	Stamp   int64  `json:"t"` // of the last change, for ETag and Last-Modified

	ContentType string `json:"ct,omitempty"`
	Encoding    string `json:"ce,omitempty"`
	Language    string `json:"cl,omitempty"`
	Disposition string `json:"cd,omitempty"`
	Cache       string `json:"cc,omitempty"`
	MD5         string `json:"h,omitempty"` // in base64

	Meta   map[string]string `json:"m,omitempty"`
	Sealed bool              `json:"s,omitempty"`
	Tier   string            `json:"a,omitempty"` // "" if it was not set
	Tiered int64             `json:"ta,omitempty"`
	Copy   *copied           `json:"y,omitempty"`
}

// copied is what is known of the last copy to a blob.
type copied struct {
	ID       string `json:"i"`
	Source   string `json:"s"`
	Progress string `json:"p"`
	At       int64  `json:"t"`
}

func (p props) etag() string     { return rest.ETag(timeOf(p.Stamp)) }
func (p props) modified() string { return rest.Date(timeOf(p.Stamp)) }

func (c *container) etag() string     { return rest.ETag(timeOf(c.Stamp)) }
func (c *container) modified() string { return rest.Date(timeOf(c.Stamp)) }

// bytes returns a part of the content. It copies only what lies in more than
// one block.
func (v *version) bytes(from, to int64) []byte {
	var all []byte
	for _, b := range v.blocks {
		n := int64(len(b.data))
		if from < n && to > 0 {
			part := b.data[max(from, 0):min(to, n)]
			switch {
			case from >= 0 && to <= n:
				return part[:len(part):len(part)]
			case all == nil:
				all = make([]byte, 0, to-from)
			}
			all = append(all, part...)
		}
		from, to = from-n, to-n
	}
	return all
}

// measure sets the length after the blocks changed.
func (v *version) measure() {
	v.length = 0
	for _, b := range v.blocks {
		v.length += int64(len(b.data))
	}
}

// share returns the blocks so that an append to the result does not reach the
// version.
func (v *version) share() []block { return slices.Clip(v.blocks) }

// clone returns properties that may be changed.
func (p props) clone() *props {
	p.Meta = maps.Clone(p.Meta)
	return &p
}
