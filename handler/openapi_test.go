package main

import (
	"testing"

	"kennel/docs"
)

func TestOpenAPI(t *testing.T) {
	p := shared(t)
	if status, header, body := p.call(t, "GET", "/api/openapi.yaml", nil); status != 200 || body != string(docs.OpenAPI) || header.Get("Content-Type") != "application/yaml" {
		t.Errorf("got %d %v %.100q, want docs/openapi.yaml", status, header, body)
	}
}
