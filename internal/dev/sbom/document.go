package main

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"strings"
)

// The part of CycloneDX 1.6 that is written.
type (
	bill struct {
		Schema       string       `json:"$schema"`
		Format       string       `json:"bomFormat"`
		SpecVersion  string       `json:"specVersion"`
		Serial       string       `json:"serialNumber"`
		Version      int          `json:"version"`
		Metadata     metadata     `json:"metadata"`
		Components   []component  `json:"components"`
		Dependencies []dependency `json:"dependencies"`
	}
	metadata struct {
		Component component `json:"component"`
	}
	component struct {
		Type       string     `json:"type"`
		Ref        string     `json:"bom-ref"`
		Name       string     `json:"name"`
		Version    string     `json:"version,omitempty"`
		Hashes     []hash     `json:"hashes,omitempty"`
		Licences   []licence  `json:"licenses"`
		PURL       string     `json:"purl"`
		Properties []property `json:"properties,omitempty"`
	}
	hash struct {
		Algorithm string `json:"alg"`
		Content   string `json:"content"`
	}
	licence struct {
		Expression string `json:"expression"` // of SPDX
	}
	property struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	}
	dependency struct {
		Ref       string   `json:"ref"`
		DependsOn []string `json:"dependsOn"`
	}
)

// document returns the bill of a binary. It has no time and no random serial
// number, so that two people who build the same commit can compare theirs.
func document(info *debug.BuildInfo, binary []byte, version, commit string, licences map[string]string) ([]byte, error) {
	sum := sha256.Sum256(binary)
	main := component{
		Type: "application", Ref: info.Path, Name: info.Path, Version: cmp.Or(version, "devel"),
		Hashes: []hash{{"SHA-256", hex.EncodeToString(sum[:])}}, Licences: []licence{{"MIT"}},
		PURL: purl(info.Path, version),
	}
	if commit != "" {
		main.Properties = append(main.Properties, property{"kennel:commit", commit})
	}
	for _, setting := range info.Settings {
		if setting.Key == "GOOS" || setting.Key == "GOARCH" {
			main.Properties = append(main.Properties, property{"kennel:" + setting.Key, setting.Value})
		}
	}
	b := bill{
		Schema: "http://cyclonedx.org/schema/bom-1.6.schema.json", Format: "CycloneDX", SpecVersion: "1.6",
		Serial: serial(sum), Version: 1, Metadata: metadata{main},
	}
	// The vulnerability database of Go has the standard library by this name.
	goVersion := strings.TrimPrefix(info.GoVersion, "go")
	add := func(c component) {
		c.Type, c.Ref = "library", c.PURL
		b.Components = append(b.Components, c)
	}
	add(component{Name: "stdlib", Version: goVersion, Licences: []licence{{"BSD-3-Clause"}}, PURL: purl("stdlib", goVersion)})
	for _, module := range info.Deps {
		if module.Replace != nil {
			module = module.Replace
		}
		found, ok := licences[module.Path]
		if !ok {
			return nil, fmt.Errorf("module %s is in the binary but not in the source of this folder; build the binary here", module.Path)
		}
		c := component{Name: module.Path, Version: module.Version, Licences: []licence{{found}}, PURL: purl(module.Path, module.Version)}
		if content, ok := strings.CutPrefix(module.Sum, "h1:"); ok {
			raw, err := base64.StdEncoding.DecodeString(content)
			if err != nil {
				return nil, fmt.Errorf("the checksum of module %s: %w", module.Path, err)
			}
			c.Hashes = []hash{{"SHA-256", hex.EncodeToString(raw)}} // of the list of its files, as in go.sum
		}
		add(c)
	}
	direct := dependency{Ref: main.Ref}
	for _, c := range b.Components {
		direct.DependsOn = append(direct.DependsOn, c.Ref)
	}
	b.Dependencies = []dependency{direct} // the binary does not record which module needs which
	text, err := json.MarshalIndent(b, "", "  ")
	return append(text, '\n'), err
}

// purl returns the package URL of a Go module. Its type golang is in lower case
// by definition.
func purl(path, version string) string {
	url := "pkg:golang/" + strings.ToLower(path)
	if version != "" {
		url += "@" + strings.ReplaceAll(version, "+", "%2B")
	}
	return url
}

// serial returns a UUID, version 8, made from the checksum of the binary.
func serial(sum [sha256.Size]byte) string {
	sum[6] = sum[6]&0x0f | 0x80
	sum[8] = sum[8]&0x3f | 0x80
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", sum[0:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}
