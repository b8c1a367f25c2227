package azuritetest

import (
	"crypto/md5"
	"encoding/base64"
	"fmt"
	"strings"
)

func (w *world) blobCall() call {
	if w.odds(5) {
		return w.containerCall()
	}
	if w.odds(60) {
		return w.oddBlobCall()
	}
	box := w.container(w.usual())
	blob := w.one("a", "b", "c", "dir/one", "dir/two words", "dir2/x", "log", "log2")
	c := call{service: "blob", path: "/" + box + "/" + escaped(blob), header: make(map[string]string)}
	thing := box + "/" + blob
	type maker struct {
		weight int
		make   func(*call, string)
	}
	makers := []maker{
		{14, w.putBlob}, {4, w.putAppend}, {8, w.appendBlock}, {7, w.putBlock}, {7, w.putBlockList}, {4, w.getBlockList},
		{14, w.getBlob}, {8, w.blobProperties}, {5, w.setBlobMetadata}, {5, w.setBlobProperties}, {9, w.deleteBlob},
		{5, w.snapshot}, {10, w.leaseBlob}, {4, w.copyBlob}, {2, w.setTier}, {2, w.getBlobMetadata}, {2, w.seal},
	}
	total := 0
	for _, m := range makers {
		total += m.weight
	}
	n := w.IntN(total)
	for _, m := range makers {
		if n -= m.weight; n < 0 {
			m.make(&c, thing)
			break
		}
	}
	return c
}

func (w *world) content() string {
	return strings.Repeat(w.one("x", "0123456789", "<a>&amp;\n", "ü"), w.IntN(12))
}

func (w *world) leaseHeader(c *call, thing string) {
	if token := w.token("lease", thing); token != "" && !w.odds(4) {
		c.header["x-ms-lease-id"] = token
	} else if w.odds(12) {
		c.header["x-ms-lease-id"] = guid(w.IntN(4))
	}
}

func (w *world) checksum(c *call) {
	switch w.IntN(12) {
	case 0:
		sum := md5.Sum([]byte(c.body))
		c.header["Content-MD5"] = base64.StdEncoding.EncodeToString(sum[:])
	case 1:
		c.header["Content-MD5"] = "AAAAAAAAAAAAAAAAAAAAAA=="
	}
}

func (w *world) contentHeaders(c *call, prefix string) {
	if w.odds(3) {
		c.header[prefix+"content-type"] = w.one("text/plain", "application/json")
	}
	if w.odds(6) {
		c.header[prefix+"content-encoding"] = "gzip"
	}
	if w.odds(6) {
		c.header[prefix+"content-language"] = "de"
	}
	if w.odds(6) {
		c.header[prefix+"cache-control"] = "no-cache"
	}
	if w.odds(6) {
		c.header[prefix+"content-disposition"] = "inline"
	}
}

func (w *world) putBlob(c *call, thing string) {
	c.name, c.method, c.body = "Put Blob", "PUT", w.content()
	c.header["x-ms-blob-type"] = "BlockBlob"
	if w.odds(50) {
		c.header["x-ms-blob-type"] = w.one("blockblob", "Other", "")
	}
	w.contentHeaders(c, "x-ms-blob-")
	if w.odds(5) {
		c.header["Content-Type"] = "text/html"
	}
	w.checksum(c)
	w.metadata(c.header)
	w.conditions(c.header, thing)
	w.leaseHeader(c, thing)
}

func (w *world) putAppend(c *call, thing string) {
	c.name, c.method = "Put Blob (append)", "PUT"
	c.header["x-ms-blob-type"] = "AppendBlob"
	w.contentHeaders(c, "x-ms-blob-")
	w.metadata(c.header)
	w.conditions(c.header, thing)
	w.leaseHeader(c, thing)
}

func (w *world) appendBlock(c *call, thing string) {
	c.name, c.method, c.query, c.body = "Append Block", "PUT", "comp=appendblock", w.content()
	if w.odds(4) {
		c.header["x-ms-blob-condition-appendpos"] = w.number("0", "10", "20")
	}
	if w.odds(6) {
		c.header["x-ms-blob-condition-maxsize"] = w.number("10", "100", "1000")
	}
	w.checksum(c)
	w.conditions(c.header, thing)
	w.leaseHeader(c, thing)
}

func blockID(n int) string {
	return base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "block-%02d", n))
}

func (w *world) putBlock(c *call, thing string) {
	id := blockID(w.IntN(5))
	if w.odds(20) {
		id = w.one("not base64!", "YQ==", "", strings.Repeat("QUJD", 30))
	}
	c.name, c.method, c.body = "Put Block", "PUT", w.content()
	c.query = "comp=block&blockid=" + strings.NewReplacer("+", "%2B", "=", "%3D", "/", "%2F", " ", "%20").Replace(id)
	w.checksum(c)
	w.leaseHeader(c, thing)
}

func (w *world) putBlockList(c *call, thing string) {
	c.name, c.method, c.query = "Put Block List", "PUT", "comp=blocklist"
	var b strings.Builder
	b.WriteString(`<?xml version="1.0" encoding="utf-8"?><BlockList>`)
	for range w.IntN(4) {
		kind := w.one("Latest", "Latest", "Uncommitted", "Committed")
		fmt.Fprintf(&b, "<%s>%s</%s>", kind, blockID(w.IntN(5)), kind)
	}
	b.WriteString("</BlockList>")
	c.body = b.String()
	if w.odds(30) {
		c.body = w.one("", "<BlockList>", "<Other/>", "<BlockList><Odd>QUJD</Odd></BlockList>")
	}
	w.contentHeaders(c, "x-ms-blob-")
	w.metadata(c.header)
	w.conditions(c.header, thing)
	w.leaseHeader(c, thing)
}

func (w *world) getBlockList(c *call, thing string) {
	c.name, c.method, c.query = "Get Block List", "GET", "comp=blocklist"
	if kind := w.one("", "all", "committed", "uncommitted", "all", "odd"); kind != "" {
		c.query += "&blocklisttype=" + kind
	}
	w.leaseHeader(c, thing)
}

func (w *world) ofSnapshot(c *call, thing string) {
	if token := w.token("snapshot", thing); token != "" && w.odds(3) {
		c.query = strings.TrimPrefix(c.query+"&snapshot="+token, "&")
	} else if w.odds(40) {
		c.query = strings.TrimPrefix(c.query+"&snapshot="+w.one("2020-01-01T00:00:00.0000000Z", "yesterday"), "&")
	}
}

func (w *world) getBlob(c *call, thing string) {
	c.name, c.method = "Get Blob", "GET"
	w.ofSnapshot(c, thing)
	if w.odds(3) {
		name := w.one("Range", "x-ms-range")
		c.header[name] = w.one("bytes=0-9", "bytes=5-", "bytes=0-0", "bytes=10-5", "bytes=200-300", "bytes=-5", "bytes=0-1,3-4", "items=0-1", "bytes=x")
		if w.odds(4) {
			c.header["x-ms-range-get-content-md5"] = "true"
		}
	}
	w.conditions(c.header, thing)
	w.leaseHeader(c, thing)
}

func (w *world) blobProperties(c *call, thing string) {
	c.name, c.method = "Get Blob Properties", "HEAD"
	w.ofSnapshot(c, thing)
	w.conditions(c.header, thing)
	w.leaseHeader(c, thing)
}

func (w *world) getBlobMetadata(c *call, thing string) {
	c.name, c.method, c.query = "Get Blob Metadata", w.one("GET", "HEAD"), "comp=metadata"
	w.ofSnapshot(c, thing)
	w.conditions(c.header, thing)
	w.leaseHeader(c, thing)
}

func (w *world) setBlobMetadata(c *call, thing string) {
	c.name, c.method, c.query = "Set Blob Metadata", "PUT", "comp=metadata"
	w.metadata(c.header)
	w.conditions(c.header, thing)
	w.leaseHeader(c, thing)
}

func (w *world) setBlobProperties(c *call, thing string) {
	c.name, c.method, c.query = "Set Blob Properties", "PUT", "comp=properties"
	w.contentHeaders(c, "x-ms-blob-")
	w.conditions(c.header, thing)
	w.leaseHeader(c, thing)
}

func (w *world) deleteBlob(c *call, thing string) {
	c.name, c.method = "Delete Blob", "DELETE"
	w.ofSnapshot(c, thing)
	if kind := w.one("", "", "include", "only", "include", "include", "odd"); kind != "odd" || w.odds(4) {
		c.header["x-ms-delete-snapshots"] = kind
	}
	w.conditions(c.header, thing)
	w.leaseHeader(c, thing)
}

func (w *world) snapshot(c *call, thing string) {
	c.name, c.method, c.query = "Snapshot Blob", "PUT", "comp=snapshot"
	w.metadata(c.header)
	w.conditions(c.header, thing)
	w.leaseHeader(c, thing)
}

func (w *world) leaseBlob(c *call, thing string) {
	c.name, c.method, c.query = "Lease Blob", "PUT", "comp=lease"
	w.lease(c, thing)
	w.conditions(c.header, thing)
}

func (w *world) lease(c *call, thing string) {
	action := w.one("acquire", "acquire", "acquire", "renew", "change", "release", "break", "break")
	if w.odds(40) {
		action = w.one("steal", "")
	}
	c.name += " (" + action + ")"
	c.header["x-ms-lease-action"] = action
	id := w.token("lease", thing)
	if id == "" || w.odds(8) {
		id = guid(w.IntN(3))
	}
	switch action {
	case "acquire":
		c.header["x-ms-lease-duration"] = w.number("-1", "60", "15", "60", "60", "14", "61")
		if w.odds(2) {
			c.header["x-ms-proposed-lease-id"] = w.one(guid(0), guid(1), guid(2), "no guid")
		}
	case "renew", "release":
		c.header["x-ms-lease-id"] = id
	case "change":
		c.header["x-ms-lease-id"], c.header["x-ms-proposed-lease-id"] = id, guid(w.IntN(3))
	case "break":
		c.header["x-ms-lease-break-period"] = w.number("0", "0", "0", "60", "61", "")
	}
	if w.odds(20) {
		delete(c.header, w.one("x-ms-lease-id", "x-ms-lease-duration", "x-ms-proposed-lease-id"))
	}
}

func (w *world) copyBlob(c *call, thing string) {
	c.name, c.method = "Copy Blob", "PUT"
	box, blob := w.container(w.usual()), w.one("a", "b", "c", "log", "dir/one")
	c.header["x-ms-copy-source"] = "‹root›/" + box + "/" + blob
	if w.odds(20) {
		c.header["x-ms-copy-source"] = w.one("/relative", "no address")
	}
	if w.odds(4) {
		c.header["x-ms-source-if-match"] = w.etag(box+"/"+blob, `"0x8D0000000000000"`)
	}
	w.metadata(c.header)
	w.conditions(c.header, thing)
	w.leaseHeader(c, thing)
}

func (w *world) setTier(c *call, thing string) {
	c.name, c.method, c.query = "Set Blob Tier", "PUT", "comp=tier"
	c.header["x-ms-access-tier"] = w.one("Hot", "Cool", "Hot", "Odd", "")
	w.leaseHeader(c, thing)
}

func (w *world) seal(c *call, thing string) {
	c.name, c.method, c.query = "Append Blob Seal", "PUT", "comp=seal"
	w.conditions(c.header, thing)
	w.leaseHeader(c, thing)
}

func (w *world) containerCall() call {
	box := w.container(w.usual())
	c := call{service: "blob", path: "/" + box, query: "restype=container", header: make(map[string]string)}
	switch w.IntN(14) {
	case 0:
		c.name, c.method = "Create Container", "PUT"
		w.metadata(c.header)
		c.header["x-ms-blob-public-access"] = w.one("", "", "blob", "container", "odd")
	case 1:
		c.name, c.method = "Delete Container", "DELETE"
		if w.odds(2) {
			w.containerConditions(&c, box)
		}
		w.leaseHeader(&c, box)
	case 2, 3:
		c.name, c.method = "Get Container Properties", w.one("GET", "HEAD")
		w.leaseHeader(&c, box)
	case 4:
		c.name, c.method = "Set Container Metadata", "PUT"
		c.query += "&comp=metadata"
		w.metadata(c.header)
		if w.odds(3) {
			c.header["If-Modified-Since"] = w.one(past, future)
		}
		w.leaseHeader(&c, box)
	case 5:
		c.name, c.method = "Get Container ACL", "GET"
		c.query += "&comp=acl"
		w.leaseHeader(&c, box)
	case 6:
		c.name, c.method, c.body = "Set Container ACL", "PUT", w.policies()
		c.query += "&comp=acl"
		c.header["x-ms-blob-public-access"] = w.one("", "blob", "container")
		w.leaseHeader(&c, box)
	case 7, 8:
		c.name, c.method = "Lease Container", "PUT"
		c.query += "&comp=lease"
		w.lease(&c, box)
	case 9:
		c.name, c.method, c.path = "List Containers", "GET", "/"
		c.query = "comp=list&prefix=" + w.name + "-" + w.one("", "b", "box1", "none") + w.one("", "&include=metadata", "&include=odd") + w.listLimits("marker list")
	default:
		c.name, c.method = "List Blobs", "GET"
		c.query += "&comp=list" + w.one("", "", "&prefix=dir", "&prefix=dir/", "&prefix=none", "&prefix=l") + w.one("", "", "&delimiter=/", "&delimiter=o") +
			w.one("", "&include=metadata", "&include=snapshots", "&include=uncommittedblobs,metadata,snapshots", "&include=copy", "&include=odd") + w.listLimits("marker list "+box)
	}
	return c
}

func (w *world) containerConditions(c *call, box string) {
	switch w.IntN(3) {
	case 0:
		c.header["If-Modified-Since"] = w.one(past, future)
	case 1:
		c.header["If-Unmodified-Since"] = w.one(past, future)
	}
}

func (w *world) listLimits(thing string) (query string) {
	if w.odds(2) {
		query = "&maxresults=" + w.number("1", "2", "3", "5000", "5001")
	}
	return query
}

func (w *world) policies() string {
	if w.odds(12) {
		return w.one("<SignedIdentifiers>", "<Other/>", "x")
	}
	var b strings.Builder
	b.WriteString(`<?xml version="1.0" encoding="utf-8"?><SignedIdentifiers>`)
	for n := range w.IntN(3) {
		fmt.Fprintf(&b, "<SignedIdentifier><Id>id%d</Id><AccessPolicy><Start>2026-01-01T00:00:00Z</Start><Expiry>2027-01-01T00:00:00Z</Expiry><Permission>r</Permission></AccessPolicy></SignedIdentifier>", n)
	}
	b.WriteString("</SignedIdentifiers>")
	return b.String()
}

// oddBlobCall returns what is no operation, or has a bad address.
func (w *world) oddBlobCall() call {
	box := w.container(0)
	all := []call{
		{method: "GET", path: "/" + box, query: "restype=container&comp=odd"},
		{method: "POST", path: "/" + box + "/a"},
		{method: "PUT", path: "/" + box + "/a", query: "comp=odd"},
		{method: "PUT", path: "/" + strings.ToUpper(box), query: "restype=container"},
		{method: "PUT", path: "/ab", query: "restype=container"},
		{method: "PUT", path: "/a--b", query: "restype=container"},
		{method: "PUT", path: "/-" + w.name, query: "restype=container"},
		{method: "GET", path: "/", query: "comp=odd"},
		{method: "GET", path: "/", query: "restype=account&comp=properties"},
		{method: "GET", path: "/" + box + "/a", query: "restype=account&comp=properties"},
	}
	c := all[w.IntN(len(all))]
	c.name, c.service = "(odd) "+c.method+" "+strings.ReplaceAll(strings.ReplaceAll(c.path, w.name, "w"), strings.ToUpper(w.name), "W")+"?"+c.query, "blob"
	return c
}
