package blob

import (
	"encoding/base64"
	"math"
	"slices"
	"strconv"
	"strings"

	"kennel/devstore/internal/rest"
)

// maxPage is how many items a page of a list holds at most.
const maxPage = 5000

// A listing is the request for a page of a list.
type listing struct {
	prefix, delimiter string
	include           []string
	max               int

	from     string // the first name of the page
	snapshot int64  // and the first of its versions
}

// whole stands for the blob itself among its versions, which it follows.
const whole = int64(math.MaxInt64)

// parseListing reads the query of a list.
func parseListing(r *rest.Request, includes []string) (l listing, err error) {
	l.prefix, l.delimiter, l.max = r.Query.Get("prefix"), r.Query.Get("delimiter"), maxPage
	if text := r.Query.Get("maxresults"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil {
			return l, rest.InvalidQuery("maxresults", text, "Not a number.")
		}
		if n < 1 {
			return l, rest.OutOfRange("maxresults", text, 1, maxPage)
		}
		l.max = min(n, maxPage)
	}
	for _, text := range r.Query["include"] {
		for _, one := range strings.Split(text, ",") {
			if one = strings.ToLower(strings.TrimSpace(one)); one == "" {
				continue
			}
			if !slices.Contains(includes, one) {
				return l, rest.InvalidQuery("include", text, "Unknown element "+one+".")
			}
			l.include = append(l.include, one)
		}
	}
	l.from, l.snapshot, err = parseMarker(r.Query.Get("marker"))
	l.from = max(l.from, l.prefix, r.Query.Get("startFrom"))
	return l, err
}

func (l listing) includes(what string) bool { return slices.Contains(l.include, what) }

// markerForm begins each marker.
const markerForm = "1!"

func writeMarker(name string, snapshot int64) string {
	return markerForm + base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatInt(snapshot, 10)+"/"+name))
}

func parseMarker(text string) (name string, snapshot int64, err error) {
	if text == "" {
		return "", 0, nil
	}
	plain, found := strings.CutPrefix(text, markerForm)
	bytes, err := base64.RawURLEncoding.DecodeString(plain)
	number, name, cut := strings.Cut(string(bytes), "/")
	snapshot, parseErr := strconv.ParseInt(number, 10, 64)
	if !found || !cut || err != nil || parseErr != nil {
		return "", 0, rest.InvalidQuery("marker", text, "Not a marker that this service returned.")
	}
	return name, snapshot, nil
}

// head writes the begin of a list.
func (l listing) head(d *document, r *rest.Request, container string) {
	scheme := "http"
	if r.HTTP.TLS != nil {
		scheme = "https"
	}
	endpoint := scheme + "://" + r.HTTP.Host + strings.TrimSuffix(r.HTTP.URL.EscapedPath(), r.Path)
	d.WriteString(`<EnumerationResults ServiceEndpoint="`)
	d.text(endpoint)
	if container != "" {
		d.WriteString(`" ContainerName="`)
		d.text(container)
	}
	d.WriteString(`">`)
	for _, one := range [][2]string{{"Prefix", "prefix"}, {"Marker", "marker"}, {"MaxResults", "maxresults"}, {"Delimiter", "delimiter"}} {
		d.some(one[0], strings.Map(forXML, r.Query.Get(one[1])))
	}
}

// forXML replaces what XML cannot hold.
func forXML(r rune) rune {
	if notXML(r) {
		return '?'
	}
	return r
}

func (c *call) listContainers() (*rest.Answer, error) {
	l, err := parseListing(c.r, []string{"metadata", "deleted", "system"})
	if err != nil {
		return nil, err
	}
	d, next, n := newDocument(), "", 0
	l.head(d, c.r, "")
	d.open("Containers")
	c.mu.RLock()
	defer c.mu.RUnlock()
	if all := c.accounts[c.r.Account]; all != nil {
		for name, k := range all.From(l.from) {
			if !strings.HasPrefix(name, l.prefix) {
				break
			}
			if n == l.max {
				next = writeMarker(name, 0)
				break
			}
			c.listContainer(d, name, k, l.includes("metadata"))
			n++
		}
	}
	d.end("Containers")
	d.element("NextMarker", next)
	d.end("EnumerationResults")
	return rest.Reply(200).With(xmlType, d.Bytes()), nil
}

func (c *call) listContainer(d *document, name string, k *container, metadata bool) {
	d.open("Container")
	d.element("Name", name)
	d.open("Properties")
	d.element("Last-Modified", k.modified())
	d.element("Etag", k.etag())
	d.lease(k.Lease, c.now())
	d.some("PublicAccess", k.Access)
	d.element("DefaultEncryptionScope", "$account-encryption-key")
	d.element("DenyEncryptionScopeOverride", "false")
	d.element("HasImmutabilityPolicy", "false")
	d.element("HasLegalHold", "false")
	d.end("Properties")
	if metadata && len(k.Meta) > 0 {
		d.metadata(k.Meta)
	}
	d.end("Container")
}

func (d *document) lease(l lease, now int64) {
	state, status, duration := l.describe(now)
	d.element("LeaseStatus", status)
	d.element("LeaseState", state)
	d.some("LeaseDuration", duration)
}

// listedBlobs are what a list of blobs may include. There is nothing of some of
// them in this store.
var listedBlobs = []string{
	"copy", "deleted", "metadata", "snapshots", "uncommittedblobs",
	"versions", "tags", "immutabilitypolicy", "legalhold", "deletedwithversions", "permissions",
}

func (c *call) listBlobs() (*rest.Answer, error) {
	l, err := parseListing(c.r, listedBlobs)
	if err != nil {
		return nil, err
	}
	if l.delimiter != "" && l.includes("snapshots") {
		return nil, rest.InvalidQuery("include", "snapshots", "Not allowed with a delimiter.")
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	k, err := c.container()
	if err != nil {
		return nil, err
	}
	d := newDocument()
	l.head(d, c.r, c.name)
	d.open("Blobs")
	next := c.page(d, k, l)
	d.end("Blobs")
	d.element("NextMarker", next)
	d.end("EnumerationResults")
	return rest.Reply(200, "Cache-Control", "no-cache").With(xmlType, d.Bytes()), nil
}

// page writes the blobs of a page and returns where the next begins.
func (c *call) page(d *document, k *container, l listing) (next string) {
	n, from, more := 0, l.from, true
	for more {
		more = false
		for name, b := range k.blobs.From(from) {
			if !strings.HasPrefix(name, l.prefix) {
				return ""
			}
			versions := l.versions(b)
			if name == l.from && l.snapshot != 0 {
				versions = slices.DeleteFunc(versions, func(v *version) bool { return v.order() < l.snapshot })
			}
			if len(versions) == 0 {
				continue
			}
			group := l.group(name)
			if group != "" {
				versions = versions[:1]
			}
			for _, v := range versions {
				if n == l.max {
					return writeMarker(name, v.order())
				}
				n++
				if group == "" {
					c.listBlob(d, name, b, v, l)
				}
			}
			if group != "" {
				d.open("BlobPrefix")
				d.name(group)
				d.end("BlobPrefix")
				from, more = after(group), true
				break
			}
		}
	}
	return ""
}

// versions returns what a list shows under a name, in its order.
func (l listing) versions(b *blob) (all []*version) {
	if l.includes("snapshots") {
		all = append(all, b.snapshots...)
	}
	if b.base != nil {
		return append(all, b.base)
	}
	if l.includes("uncommittedblobs") {
		all = append(all, &version{props: props{Type: blockBlob, Created: b.staged, Stamp: b.staged}})
	}
	return all
}

// order is the place of a version among those of its name.
func (v *version) order() int64 {
	if v.snapshot == 0 {
		return whole
	}
	return v.snapshot
}

// group returns the common prefix that a list shows instead of a name, or "".
func (l listing) group(name string) string {
	if l.delimiter == "" {
		return ""
	}
	i := strings.Index(name[len(l.prefix):], l.delimiter)
	if i < 0 {
		return ""
	}
	return name[:len(l.prefix)+i+len(l.delimiter)]
}

// after returns the first name that may follow all those with a prefix, which
// is not empty and does not end with the byte 0xFF, as no UTF-8 does.
func after(prefix string) string {
	last := len(prefix) - 1
	return prefix[:last] + string([]byte{prefix[last] + 1})
}

func (c *call) listBlob(d *document, name string, b *blob, v *version, l listing) {
	d.open("Blob")
	d.name(name)
	if v.snapshot != 0 {
		d.element("Snapshot", writeSnapshot(v.snapshot))
	}
	d.open("Properties")
	d.element("Creation-Time", rest.Date(timeOf(v.Created)))
	d.element("Last-Modified", v.modified())
	d.element("Etag", bare(v.etag()))
	d.element("Content-Length", strconv.FormatInt(v.length, 10))
	d.element("Content-Type", v.ContentType)
	d.element("Content-Encoding", v.Encoding)
	d.element("Content-Language", v.Language)
	d.element("Content-CRC64", "")
	d.element("Content-MD5", v.MD5)
	d.element("Cache-Control", v.Cache)
	d.element("Content-Disposition", v.Disposition)
	d.element("BlobType", v.Type)
	if v.Type == blockBlob {
		tier, inferred := v.tier()
		d.element("AccessTier", tier)
		if inferred {
			d.element("AccessTierInferred", "true")
		} else {
			d.element("AccessTierChangeTime", rest.Date(timeOf(v.Tiered)))
		}
	}
	if v.snapshot == 0 {
		d.lease(b.lease, c.now())
	}
	if v.Copy != nil && l.includes("copy") {
		d.element("CopyId", v.Copy.ID)
		d.element("CopyStatus", "success")
		d.element("CopySource", v.Copy.Source)
		d.element("CopyProgress", v.Copy.Progress)
		d.element("CopyCompletionTime", rest.Date(timeOf(v.Copy.At)))
	}
	d.element("ServerEncrypted", "true")
	if v.Sealed {
		d.element("Sealed", "true")
	}
	d.end("Properties")
	if l.includes("metadata") {
		d.metadata(v.Meta)
	}
	d.element("OrMetadata", "")
	d.end("Blob")
}
