package main

import (
	"bytes"
	"encoding/json"
	"regexp"
	"runtime/debug"
	"strings"
	"testing"
)

var built = debug.BuildInfo{
	GoVersion: "go1.26.8",
	Path:      "kennel/handler",
	Settings:  []debug.BuildSetting{{Key: "-trimpath", Value: "true"}, {Key: "GOOS", Value: "linux"}},
	Deps: []*debug.Module{
		{Path: "example.com/Two/v2", Version: "v2.0.0+incompatible", Sum: "h1:" + strings.Repeat("A", 43) + "="},
		{Path: "example.com/fork", Version: "v1.0.0", Replace: &debug.Module{Path: "example.com/one", Version: "v1.0.1"}},
	},
}

var known = map[string]string{"example.com/Two/v2": "Apache-2.0 AND MIT", "example.com/one": "MIT"}

// The forms that CycloneDX 1.6 and package URLs demand.
var (
	uuid   = regexp.MustCompile(`^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	hex64  = regexp.MustCompile(`^[0-9a-f]{64}$`)
	golang = regexp.MustCompile(`^pkg:golang/[a-z0-9./_~-]+(@[A-Za-z0-9.%-]+)?$`)
)

func TestDocument(t *testing.T) {
	text, err := document(&built, []byte("binary"), "v0.1.0", "abc", known)
	if err != nil {
		t.Fatal(err)
	}
	again, _ := document(&built, []byte("binary"), "v0.1.0", "abc", known)
	if !bytes.Equal(text, again) {
		t.Error("two bills of the same binary differ")
	}
	other, _ := document(&built, []byte("another one"), "v0.1.0", "abc", known)

	var b, b2 bill
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&b); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(other, &b2); err != nil {
		t.Fatal(err)
	}
	if b.Format != "CycloneDX" || b.SpecVersion != "1.6" || b.Version != 1 || !uuid.MatchString(b.Serial) || b.Serial == b2.Serial {
		t.Errorf("the head is wrong: %+v", b)
	}
	refs := map[string]bool{}
	for _, c := range append(b.Components, b.Metadata.Component) {
		if c.Type == "" || c.Name == "" || c.Version == "" || c.Ref == "" || refs[c.Ref] {
			t.Errorf("a component lacks what it must have, or is there twice: %+v", c)
		}
		if !golang.MatchString(c.PURL) || len(c.Licences) != 1 || c.Licences[0].Expression == "" {
			t.Errorf("%s: package URL %q, licences %v", c.Name, c.PURL, c.Licences)
		}
		for _, h := range c.Hashes {
			if h.Algorithm != "SHA-256" || !hex64.MatchString(h.Content) {
				t.Errorf("%s: hash %v", c.Name, h)
			}
		}
		refs[c.Ref] = true
	}
	main := b.Metadata.Component
	if main.Name != "kennel/handler" || main.Version != "v0.1.0" || len(main.Hashes) != 1 || len(main.Properties) != 2 {
		t.Errorf("the binary is %+v", main)
	}
	want := []string{"stdlib 1.26.8 pkg:golang/stdlib@1.26.8 BSD-3-Clause",
		"example.com/Two/v2 v2.0.0+incompatible pkg:golang/example.com/two/v2@v2.0.0%2Bincompatible Apache-2.0 AND MIT",
		"example.com/one v1.0.1 pkg:golang/example.com/one@v1.0.1 MIT"}
	if len(b.Components) != len(want) || len(b.Dependencies) != 1 || b.Dependencies[0].Ref != main.Ref {
		t.Fatalf("got %d components and dependencies %v", len(b.Components), b.Dependencies)
	}
	for i, c := range b.Components {
		if got := strings.Join([]string{c.Name, c.Version, c.PURL, c.Licences[0].Expression}, " "); got != want[i] {
			t.Errorf("component %d: got %s, want %s", i, got, want[i])
		}
		if b.Dependencies[0].DependsOn[i] != c.Ref {
			t.Errorf("the binary depends on %v, want %s at %d", b.Dependencies[0].DependsOn, c.Ref, i)
		}
	}

	if _, err := document(&built, nil, "", "", map[string]string{"example.com/one": "MIT"}); err == nil || !strings.Contains(err.Error(), "example.com/Two/v2") {
		t.Errorf("a module without a licence: got error %v, want one that names it", err)
	}
	unversioned, err := document(&built, nil, "", "", known)
	if err != nil || !bytes.Contains(unversioned, []byte(`"version": "devel"`)) || !bytes.Contains(unversioned, []byte(`"pkg:golang/kennel/handler"`)) {
		t.Errorf("a binary without a version: error %v, text %s", err, unversioned)
	}
}
