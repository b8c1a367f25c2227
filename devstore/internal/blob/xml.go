package blob

import (
	"bytes"
	"encoding/base64"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"kennel/devstore/internal/rest"
)

const xmlType = "application/xml"

// A document is XML that is written element by element.
type document struct{ bytes.Buffer }

func newDocument() *document {
	d := new(document)
	d.WriteString(`<?xml version="1.0" encoding="utf-8"?>`)
	return d
}

func (d *document) open(name string) { d.WriteString("<" + name + ">") }
func (d *document) end(name string)  { d.WriteString("</" + name + ">") }

// element writes an element with text.
func (d *document) element(name, text string) {
	d.open(name)
	d.text(text)
	d.end(name)
}

// some writes an element unless its text is empty.
func (d *document) some(name, text string) {
	if text != "" {
		d.element(name, text)
	}
}

func (d *document) text(text string) {
	_ = xml.EscapeText(&d.Buffer, []byte(text)) // a buffer takes everything
}

// name writes the name of a blob. One that XML cannot hold is percent-encoded.
func (d *document) name(text string) {
	if !strings.ContainsFunc(text, notXML) {
		d.element("Name", text)
		return
	}
	d.WriteString(`<Name Encoded="true">`)
	for _, c := range []byte(text) {
		if c == '-' || c == '.' || c == '_' || c == '~' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' {
			d.WriteByte(c)
		} else {
			fmt.Fprintf(d, "%%%02X", c)
		}
	}
	d.end("Name")
}

func notXML(r rune) bool {
	return r < ' ' && r != '\t' && r != '\n' && r != '\r' || r == 0xFFFE || r == 0xFFFF || r == utf8.RuneError
}

func (d *document) metadata(meta map[string]string) {
	d.open("Metadata")
	for _, name := range slices.Sorted(maps.Keys(meta)) {
		d.element(name, meta[name])
	}
	d.end("Metadata")
}

// maxBlocks is how many blocks a blob may have.
const maxBlocks = 50_000

// maxContent is how many bytes a blob may have here. Azure allows far more, but
// blocks can be repeated at no cost, and a reader gets all of them.
const maxContent = 5000 * mib

var errContent = rest.Fail(413, "RequestBodyTooLarge", "The blob would be larger than 5,000 MiB, the most that this store keeps in one.")

// A wanted block is an element of the body of Put Block List.
type wanted struct {
	id   string
	from string // Committed, Uncommitted or Latest
}

// parseBlockList reads the body of Put Block List.
func parseBlockList(body []byte) (list []wanted, err error) {
	d := xml.NewDecoder(bytes.NewReader(body))
	root, err := firstElement(d, "BlockList")
	if err != nil {
		return nil, err
	}
	for {
		token, err := d.Token()
		if err != nil {
			return nil, rest.InvalidXML(err.Error())
		}
		switch token := token.(type) {
		case xml.StartElement:
			w := wanted{from: token.Name.Local}
			if w.from != "Committed" && w.from != "Uncommitted" && w.from != "Latest" {
				return nil, rest.InvalidXML("unknown element " + w.from)
			}
			if err := d.DecodeElement(&w.id, &token); err != nil {
				return nil, rest.InvalidXML(err.Error())
			}
			w.id = strings.TrimSpace(w.id)
			if len(list) == maxBlocks {
				return nil, rest.Fail(400, "BlockListTooLong", "The block list may not contain more than 50,000 blocks.")
			}
			list = append(list, w)
		case xml.EndElement:
			return list, atEnd(d, root)
		case xml.CharData:
			if len(bytes.TrimSpace(token)) > 0 {
				return nil, rest.InvalidXML("text outside of elements")
			}
		}
	}
}

// firstElement reads up to the root of a document, which must have this name.
func firstElement(d *xml.Decoder, name string) (xml.StartElement, error) {
	for {
		token, err := d.Token()
		if err != nil {
			return xml.StartElement{}, rest.InvalidXML(err.Error())
		}
		if start, ok := token.(xml.StartElement); ok {
			if start.Name.Local != name {
				return start, rest.InvalidXML("the root is not " + name)
			}
			return start, nil
		}
	}
}

// atEnd checks that nothing follows the root.
func atEnd(d *xml.Decoder, root xml.StartElement) error {
	for {
		switch token, err := d.Token(); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return rest.InvalidXML(err.Error())
		default:
			if _, ok := token.(xml.StartElement); ok {
				return rest.InvalidXML("another element follows " + root.Name.Local)
			}
		}
	}
}

// checkBlockID returns the error of an ID that no block can have.
func checkBlockID(id string) error {
	plain, err := base64.StdEncoding.DecodeString(id)
	if err != nil || len(plain) == 0 || len(plain) > 64 {
		return rest.InvalidQuery("blockid", id, "Not a valid base64 string of 1 to 64 bytes.")
	}
	return nil
}

// The limits of stored access policies.
const (
	maxPolicies = 5
	maxPolicyID = 64
)

// parsePolicies reads the body of Set Container ACL, which may be empty.
func parsePolicies(body []byte) ([]rest.Policy, error) {
	if len(bytes.TrimSpace(body)) == 0 {
		return nil, nil
	}
	var list struct {
		XMLName xml.Name `xml:"SignedIdentifiers"`
		All     []struct {
			ID     string `xml:"Id"`
			Policy struct {
				Start      string
				Expiry     string
				Permission string
			} `xml:"AccessPolicy"`
		} `xml:"SignedIdentifier"`
	}
	if err := xml.Unmarshal(body, &list); err != nil {
		return nil, rest.InvalidXML(err.Error())
	}
	if len(list.All) > maxPolicies {
		return nil, rest.InvalidXML("there are more than five policies")
	}
	var all []rest.Policy
	for _, one := range list.All {
		p := rest.Policy{ID: one.ID, Permission: one.Policy.Permission}
		if p.ID == "" || utf8.RuneCountInString(p.ID) > maxPolicyID {
			return nil, rest.InvalidXML("the Id of a policy must have 1 to 64 characters")
		}
		if slices.ContainsFunc(all, func(other rest.Policy) bool { return other.ID == p.ID }) {
			return nil, rest.InvalidXML("two policies have the same Id")
		}
		var err error
		if p.Start, err = policyTime("Start", one.Policy.Start); err != nil {
			return nil, err
		}
		if p.Expiry, err = policyTime("Expiry", one.Policy.Expiry); err != nil {
			return nil, err
		}
		if p.Permission, err = policyPermission(p.Permission); err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

// policyTime reads a time of a policy and returns it as it is answered.
func policyTime(name, text string) (string, error) {
	if text == "" {
		return "", nil
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04Z07:00", "2006-01-02"} {
		if at, err := time.Parse(layout, text); err == nil {
			return at.UTC().Format(snapshotLayout), nil
		}
	}
	return "", invalidNode(name, text)
}

// policyPermission returns permissions in the order in which Azure answers them.
func policyPermission(text string) (ordered string, err error) {
	const all = "racwdxyltmeopi"
	if strings.Trim(text, all) != "" {
		return "", invalidNode("Permission", text)
	}
	for _, letter := range all {
		if strings.ContainsRune(text, letter) {
			ordered += string(letter)
		}
	}
	return ordered, nil
}

func invalidNode(name, text string) error {
	e := rest.Fail(400, "InvalidXmlNodeValue", "The value for one of the XML nodes is not in the correct format.")
	e.Details = []string{"XmlNodeName", name, "XmlNodeValue", text}
	return e
}

func writePolicies(all []rest.Policy) []byte {
	d := newDocument()
	d.open("SignedIdentifiers")
	for _, p := range all {
		d.open("SignedIdentifier")
		d.element("Id", p.ID)
		if p.Start != "" || p.Expiry != "" || p.Permission != "" {
			d.open("AccessPolicy")
			d.some("Start", p.Start)
			d.some("Expiry", p.Expiry)
			d.some("Permission", p.Permission)
			d.end("AccessPolicy")
		}
		d.end("SignedIdentifier")
	}
	d.end("SignedIdentifiers")
	return d.Bytes()
}
