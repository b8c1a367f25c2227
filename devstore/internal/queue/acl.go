package queue

import (
	"bytes"
	"encoding/xml"
	"errors"
	"strings"
	"time"
	"unicode/utf8"

	"kennel/devstore/internal/rest"
)

const (
	maxPolicies = 5
	maxPolicyID = 64
	permissions = "raup"
)

func (s *Service) getACL(r *rest.Request, name string) (*rest.Answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q, err := s.open(r, name)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.WriteString(`<?xml version="1.0" encoding="utf-8"?><SignedIdentifiers>`)
	for _, p := range q.policies {
		b.WriteString(`<SignedIdentifier>`)
		writeElement(&b, "Id", p.ID)
		b.WriteString(`<AccessPolicy>`)
		for _, field := range [][2]string{{"Start", p.Start}, {"Expiry", p.Expiry}, {"Permission", p.Permission}} {
			if field[1] != "" {
				writeElement(&b, field[0], field[1])
			}
		}
		b.WriteString(`</AccessPolicy></SignedIdentifier>`)
	}
	b.WriteString(`</SignedIdentifiers>`)
	answer := rest.Reply(200).With("application/xml", b.Bytes())
	if r.HTTP.Method == "HEAD" {
		answer.Body, answer.Length = nil, int64(b.Len())
	}
	return answer, nil
}

func (s *Service) setACL(r *rest.Request, name string) (*rest.Answer, error) {
	policies, err := readPolicies(r.Body)
	if err != nil {
		return nil, rest.InvalidXML(err.Error())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	q, err := s.open(r, name)
	if err != nil {
		return nil, err
	}
	q.policies = policies
	s.logQueue(r, name, q)
	return rest.Reply(204), nil
}

// readPolicies reads the body of Set Queue ACL. An empty body has no policies.
func readPolicies(body []byte) ([]rest.Policy, error) {
	if len(body) == 0 {
		return nil, nil
	}
	var document struct {
		XMLName     xml.Name `xml:"SignedIdentifiers"`
		Identifiers []struct {
			ID     string `xml:"Id"`
			Policy struct {
				Start      string `xml:"Start"`
				Expiry     string `xml:"Expiry"`
				Permission string `xml:"Permission"`
			} `xml:"AccessPolicy"`
		} `xml:"SignedIdentifier"`
	}
	if err := decodeXML(body, &document); err != nil {
		return nil, err
	}
	if len(document.Identifiers) > maxPolicies {
		return nil, errors.New("there are more than 5 access policies")
	}
	var policies []rest.Policy
	known := make(map[string]bool)
	for _, i := range document.Identifiers {
		p := rest.Policy{ID: i.ID, Start: i.Policy.Start, Expiry: i.Policy.Expiry, Permission: i.Policy.Permission}
		if known[p.ID] {
			return nil, errors.New("two access policies have the same id")
		}
		known[p.ID] = true
		if err := checkPolicy(p); err != nil {
			return nil, err
		}
		p.Permission = inOrder(p.Permission)
		policies = append(policies, p)
	}
	return policies, nil
}

func checkPolicy(p rest.Policy) error {
	if p.ID == "" || utf8.RuneCountInString(p.ID) > maxPolicyID {
		return errors.New("the id of an access policy must have from 1 to 64 characters")
	}
	if strings.Trim(p.Permission, permissions) != "" {
		return errors.New("the permissions of an access policy must be of the letters raup")
	}
	for _, t := range []string{p.Start, p.Expiry} {
		if t != "" && !isTime(t) {
			return errors.New("the times of an access policy must be in the form of ISO 8601")
		}
	}
	return nil
}

// inOrder returns permissions in the order in which Azure shows them.
func inOrder(given string) string {
	var ordered strings.Builder
	for _, letter := range permissions {
		if strings.ContainsRune(given, letter) {
			ordered.WriteRune(letter)
		}
	}
	return ordered.String()
}

func isTime(s string) bool {
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04Z07:00", "2006-01-02T15:04:05", "2006-01-02T15:04", time.DateOnly} {
		if _, err := time.Parse(layout, s); err == nil {
			return true
		}
	}
	return false
}
