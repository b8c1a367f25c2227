package azuritetest

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// pairs are the values that the two storages made for the same thing, such as
// an ETag. A test names them in its requests.
type pairs struct {
	names  []map[string]string // by side: the value to its name
	values []map[string]string // by side: the name to its value
}

func newPairs() *pairs {
	p := &pairs{}
	for range 2 {
		p.names, p.values = append(p.names, make(map[string]string)), append(p.values, make(map[string]string))
	}
	return p
}

// bind returns the name of a pair, which it makes for two new values. It
// returns "" if one storage repeats a value and the other one does not.
func (p *pairs) bind(kind string, of [2]string) string {
	if of[0] == "" || of[1] == "" {
		return ""
	}
	a, known0 := p.names[0][kind+of[0]]
	b, known1 := p.names[1][kind+of[1]]
	switch {
	case known0 && known1 && a == b:
		return a
	case known0 || known1:
		return ""
	}
	name := fmt.Sprintf("‹%s%d›", kind, len(p.names[0]))
	for side := range 2 {
		p.names[side][kind+of[side]], p.values[side][name] = name, of[side]
	}
	return name
}

var token = regexp.MustCompile("‹[a-z]+[0-9]*›")

// resolve returns the text with the values of a side for the names in it.
func (p *pairs) resolve(side int, root string) func(string) string {
	return func(text string) string {
		if !strings.Contains(text, "‹") {
			return text
		}
		return token.ReplaceAllStringFunc(text, func(name string) string {
			if name == "‹root›" {
				return root
			}
			return p.values[side][name]
		})
	}
}

// escaping does the same for the query of an address.
func escaping(resolve func(string) string) func(string) string {
	return func(text string) string {
		return token.ReplaceAllStringFunc(text, func(name string) string { return url.QueryEscape(resolve(name)) })
	}
}

// A field is a part of an answer. Those that each storage makes its own value
// for have a kind.
type field struct{ name, value, kind string }

// result is the field of status and code. Where they differ, nothing else of two
// answers is compared.
const result = "result"

// shown is the value in a difference, where what a storage makes is of no use.
func (f field) shown() string {
	if f.kind != "" {
		return "(there)"
	}
	return f.value
}

// novelty says whether a storage returned the value before.
func (p *pairs) novelty(side int, f field) string {
	if _, known := p.names[side][f.kind+f.value]; known {
		return "(known)"
	}
	return "(new)"
}

// headers that are compared by value, and those that are made, by their kind.
var (
	plainHeaders = []string{
		"Content-Type", "Content-Range", "Content-Md5", "Content-Encoding", "Content-Language", "Content-Disposition", "Cache-Control", "Accept-Ranges",
		"X-Ms-Blob-Type", "X-Ms-Blob-Content-Md5", "X-Ms-Lease-State", "X-Ms-Lease-Status", "X-Ms-Lease-Duration", "X-Ms-Lease-Time",
		"X-Ms-Blob-Append-Offset", "X-Ms-Blob-Committed-Block-Count", "X-Ms-Blob-Public-Access", "X-Ms-Copy-Status", "X-Ms-Copy-Progress", "X-Ms-Request-Server-Encrypted",
		"X-Ms-Server-Encrypted", "X-Ms-Blob-Sealed", "X-Ms-Access-Tier", "X-Ms-Access-Tier-Inferred", "X-Ms-Blob-Content-Length", "X-Ms-Has-Immutability-Policy", "X-Ms-Has-Legal-Hold",
		"X-Ms-Approximate-Messages-Count", "Preference-Applied", "X-Ms-Sku-Name", "X-Ms-Account-Kind",
	}
	madeHeaders = map[string]string{"Etag": "etag", "X-Ms-Lease-Id": "lease", "X-Ms-Snapshot": "snapshot", "X-Ms-Popreceipt": "receipt", "X-Ms-Copy-Id": "copy"}
	onlyHeaders = []string{ // whose values are times or addresses
		"Last-Modified", "X-Ms-Creation-Time", "X-Ms-Time-Next-Visible", "X-Ms-Continuation-Nextpartitionkey", "X-Ms-Continuation-Nextrowkey", "X-Ms-Continuation-Nexttablename",
		"X-Ms-Request-Id", "X-Ms-Version", "Date", "Location", "Dataserviceid", "X-Ms-Copy-Source", "X-Ms-Copy-Completion-Time", "X-Ms-Content-Crc64",
	}
)

// fields returns what of an answer is compared.
func fields(c call, a answer) ([]field, error) {
	if a.status == 304 || a.status >= 400 || a.status == 0 {
		return []field{{result, strings.TrimSpace(fmt.Sprintf("%d %s", a.status, code(a))), ""}}, nil
	}
	all := []field{{result, fmt.Sprint(a.status), ""}}
	for _, name := range plainHeaders {
		if value := a.header.Get(name); value != "" && !(name == "Content-Type" && len(a.body) == 0 && c.method != http.MethodHead) {
			all = append(all, field{name, normal(name, value), ""})
		}
	}
	for name, kind := range madeHeaders {
		if value := a.header.Get(name); value != "" {
			all = append(all, field{name, value, kind})
		}
	}
	for _, name := range onlyHeaders {
		if a.header.Get(name) != "" {
			all = append(all, field{name, "(there)", ""})
		}
	}
	for name, values := range a.header {
		if strings.HasPrefix(name, "X-Ms-Meta-") {
			all = append(all, field{name, values[0], ""})
		}
	}
	if c.method == http.MethodHead {
		all = append(all, field{"Content-Length", a.header.Get("Content-Length"), ""})
	}
	body, err := bodyFields(c, a)
	return append(all, body...), err
}

func normal(name, value string) string {
	if name != "Content-Type" {
		return value
	}
	if strings.HasPrefix(value, "multipart/mixed") {
		return "multipart/mixed"
	}
	return strings.ToLower(strings.ReplaceAll(value, " ", ""))
}

var (
	codeXML  = regexp.MustCompile(`<Code>([^<]*)</Code>`)
	codeJSON = regexp.MustCompile(`"code":"([^"]*)"`)
)

func code(a answer) string {
	if text := a.header.Get("x-ms-error-code"); text != "" {
		return text
	}
	for _, form := range []*regexp.Regexp{codeXML, codeJSON} {
		if found := form.FindSubmatch(a.body); found != nil {
			return string(found[1])
		}
	}
	return ""
}

func bodyFields(c call, a answer) ([]field, error) {
	kind := a.header.Get("Content-Type")
	switch {
	case len(a.body) == 0:
		return nil, nil
	case strings.HasPrefix(c.name, "Get Blob"): // with the type that its writer gave it
		return []field{{"body", string(a.body), ""}}, nil
	case strings.HasPrefix(kind, "application/xml"):
		return xmlFields(a.body)
	case strings.HasPrefix(kind, "application/json"):
		return jsonFields(a.body)
	case strings.HasPrefix(kind, "multipart/mixed"):
		return partFields(a.body), nil
	}
	return []field{{"body", string(a.body), ""}}, nil
}

// Elements whose values are made, and those that only must be there.
var (
	madeElements = map[string]string{"Etag": "etag", "ETag": "etag", "MessageId": "message", "PopReceipt": "receipt", "Snapshot": "snapshot", "CopyId": "copy", "NextMarker": "marker"}
	onlyElements = []string{"Last-Modified", "Creation-Time", "InsertionTime", "ExpirationTime", "TimeNextVisible", "LastModified", "CopySource", "CopyCompletionTime", "LastAccessTime", "AccessTierChangeTime"}
)

// xmlFields returns the elements of a document by their paths. The number of
// a repeated element is a part of its path.
func xmlFields(body []byte) (all []field, err error) {
	d := xml.NewDecoder(bytes.NewReader(bytes.TrimPrefix(body, []byte("\ufeff"))))
	var path []string
	counts := make(map[string]int)
	var text strings.Builder
	leaf := false
	for {
		next, err := d.Token()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		switch next := next.(type) {
		case xml.StartElement:
			full := strings.Join(path, "/") + "/" + next.Name.Local
			counts[full]++
			name := next.Name.Local
			if slices.Contains([]string{"Blob", "BlobPrefix", "Container", "Queue", "QueueMessage", "SignedIdentifier", "Block"}, name) {
				name = fmt.Sprintf("%s[%d]", name, counts[full])
			}
			path, leaf = append(path, name), true
			text.Reset()
		case xml.CharData:
			text.Write(next)
		case xml.EndElement:
			if leaf {
				all = appendElement(all, path, text.String())
			}
			path, leaf = path[:len(path)-1], false
		}
	}
}

func appendElement(all []field, path []string, text string) []field {
	name := path[len(path)-1]
	full := strings.Join(path, "/")
	switch {
	case slices.Contains(onlyElements, name):
		text = "(there)"
	case madeElements[name] != "" && text != "":
		return append(all, field{full, text, madeElements[name]})
	}
	return append(all, field{full, text, ""})
}

func jsonFields(body []byte) ([]field, error) {
	var root any
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if err := d.Decode(&root); err != nil {
		return nil, err
	}
	var all []field
	var walk func(path string, v any)
	walk = func(path string, v any) {
		name := path[strings.LastIndexByte(path, '/')+1:]
		switch v := v.(type) {
		case map[string]any:
			for key, one := range v {
				walk(path+"/"+key, one)
			}
		case []any:
			all = append(all, field{path + "/length", fmt.Sprint(len(v)), ""})
			for n, one := range v {
				walk(fmt.Sprintf("%s[%d]", path, n), one)
			}
		default:
			text := fmt.Sprintf("%T %v", v, v)
			switch name {
			case "odata.etag":
				all = append(all, field{path, fmt.Sprint(v), "etag"})
				return
			case "Timestamp", "odata.metadata", "odata.id", "odata.editLink":
				text = "(there)"
			}
			all = append(all, field{path, text, ""})
		}
	}
	walk("", root)
	return all, nil
}

var (
	partStatus = regexp.MustCompile(`(?m)^HTTP/1\.1 ([0-9]+)`)
	partFailed = regexp.MustCompile(`"value":"([0-9]+):`)
	partETag   = regexp.MustCompile(`(?mi)^ETag: ?(.*?)\r?$`)
)

// partFields returns what the answers within the answer to a batch are.
func partFields(body []byte) (all []field) {
	for n, part := range bytes.Split(body, []byte("Content-Type: application/http"))[1:] {
		name := fmt.Sprintf("part[%d]/", n)
		first := func(form *regexp.Regexp) string {
			if found := form.FindSubmatch(part); found != nil {
				return string(found[1])
			}
			return ""
		}
		answer := first(partStatus)
		if code := first(codeJSON); code != "" {
			answer += " " + code
		}
		if failed := first(partFailed); failed != "" { // the number of the operation
			answer += " at " + failed
		}
		all = append(all, field{name + result, answer, ""})
		if tag := first(partETag); tag != "" {
			all = append(all, field{name + "Etag", tag, "etag"})
		}
	}
	return all
}

// A difference is a part of two answers that is not the same.
type difference struct{ field, devstore, azurite string }

func (d difference) String() string {
	return fmt.Sprintf("%s: devstore %.120q, Azurite %.120q", d.field, d.devstore, d.azurite)
}

// compare returns the differences of two answers, and binds what both made.
func (p *pairs) compare(ours, theirs []field) (all []difference) {
	if ours[0] != theirs[0] {
		return []difference{{result, ours[0].value, theirs[0].value}}
	}
	b := make(map[string]field, len(theirs))
	for _, f := range theirs {
		b[f.name] = f
	}
	for _, f := range ours {
		other, found := b[f.name]
		delete(b, f.name)
		switch {
		case !found:
			all = append(all, difference{f.name, f.shown(), "(none)"})
		case f.kind != "":
			if p.bind(f.kind, [2]string{f.value, other.value}) == "" {
				all = append(all, difference{f.name, p.novelty(0, f), p.novelty(1, other)})
			}
		case f.value != other.value:
			all = append(all, difference{f.name, f.value, other.value})
		}
	}
	for _, f := range theirs {
		if _, left := b[f.name]; left {
			all = append(all, difference{f.name, "(none)", f.shown()})
		}
	}
	return all
}
