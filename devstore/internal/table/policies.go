package table

import (
	"bytes"
	"encoding/xml"
	"io"
	"strings"

	"kennel/devstore/internal/rest"
)

// identifiers is the XML of stored access policies.
type identifiers struct {
	XMLName xml.Name     `xml:"SignedIdentifiers"`
	List    []identifier `xml:"SignedIdentifier"`
}

type identifier struct {
	ID     string        `xml:"Id"`
	Policy *accessPolicy `xml:"AccessPolicy"`
}

type accessPolicy struct {
	Start      string `xml:"Start,omitempty"`
	Expiry     string `xml:"Expiry,omitempty"`
	Permission string `xml:"Permission,omitempty"`
}

// parsePolicies parses the body of Set Table ACL, which may be empty.
func parsePolicies(body []byte) ([]rest.Policy, error) {
	if len(bytes.TrimSpace(body)) == 0 {
		return nil, nil
	}
	var found identifiers
	decoder := xml.NewDecoder(bytes.NewReader(body))
	if err := decoder.Decode(&found); err != nil {
		return nil, rest.InvalidXML(err.Error())
	}
	if _, err := decoder.Token(); err != io.EOF {
		return nil, rest.InvalidXML("There is something after the root element.")
	}
	if len(found.List) > maxPolicies {
		return nil, rest.InvalidXML("A table has at most 5 stored access policies.")
	}
	var policies []rest.Policy
	seen := make(map[string]bool)
	for _, i := range found.List {
		p := rest.Policy{ID: i.ID}
		if i.Policy != nil {
			p.Start, p.Expiry, p.Permission = i.Policy.Start, i.Policy.Expiry, i.Policy.Permission
		}
		switch {
		case p.ID == "" || units(p.ID) > 64 || seen[p.ID]:
			return nil, rest.InvalidXML("Each Id must have 1 to 64 characters and be unique.")
		case strings.Trim(p.Permission, "raud") != "":
			return nil, rest.InvalidXML("Permissions are r, a, u and d.")
		}
		for _, at := range []*string{&p.Start, &p.Expiry} {
			t, ok := parseTicks(*at)
			switch {
			case ok:
				*at = timeOf(t).Format("2006-01-02T15:04:05.0000000Z")
			case *at != "":
				return nil, rest.InvalidXML("Start and Expiry must be times of ISO 8601.")
			}
		}
		seen[p.ID] = true
		policies = append(policies, p)
	}
	return policies, nil
}

func renderPolicies(policies []rest.Policy) []byte {
	var list identifiers
	for _, p := range policies {
		i := identifier{ID: p.ID}
		if p.Start+p.Expiry+p.Permission != "" {
			i.Policy = &accessPolicy{p.Start, p.Expiry, p.Permission}
		}
		list.List = append(list.List, i)
	}
	text, _ := xml.Marshal(list) // strings can always be written
	return append([]byte(`<?xml version="1.0" encoding="utf-8"?>`), text...)
}

func (s *Service) getPolicies(r *rest.Request, a address) (*rest.Answer, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	t := s.accounts.find(r.Account, a.table)
	if t == nil {
		return nil, errTableNotFound
	}
	return rest.Reply(200).With("application/xml", renderPolicies(t.policies)), nil
}

func (s *Service) setPolicies(r *rest.Request, a address) (*rest.Answer, error) {
	policies, err := parsePolicies(r.Body)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.accounts.find(r.Account, a.table)
	if t == nil {
		return nil, errTableNotFound
	}
	t.policies = policies
	s.log.Append(tableRecord(r.Account, t))
	return rest.Reply(204), nil
}
