package main

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write docs/licences.md")

// TestLicences checks that each module that a program links has a permissive
// licence, and is in docs/licences.md.
func TestLicences(t *testing.T) {
	root := filepath.Join("..", "..", "..")
	readSource(t, root)
	modules, err := linkedModules()
	if err != nil {
		t.Fatal(err)
	}
	if len(modules) < 20 {
		t.Errorf("found only %d modules: wrong working directory", len(modules))
	}
	want, path := page(modules), filepath.Join(root, "docs", "licences.md")
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("docs/licences.md is outdated; run the test with -update (-want +got):\n%s", diff)
	}
}

// readSource opens the files that `go list` reads. The test cache tracks only
// what the test itself opens, so it would keep an old pass without this.
func readSource(t *testing.T, root string) {
	t.Helper()
	for _, pattern := range []string{"go.*", "*.go", "*/*.go", "*/*/*.go", "*/*/*/*.go", "*/*/*/*/*.go"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range files {
			if _, err := os.Stat(path); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestRecognise(t *testing.T) {
	const (
		mit = "MIT License\n\nPermission is hereby granted, free of charge, to any person obtaining a copy\nof this software …\n" +
			"The above copyright notice and this permission notice shall be included in\nall copies or substantial portions"
		bsd   = "Redistribution and use in source and binary forms, with or without\nmodification, are permitted provided that …\n"
		third = "    * Neither the name of Example Inc. nor …\n"
		isc   = "Permission to use, copy, modify, and/or distribute this software for any purpose\nwith or without fee is hereby granted"
	)
	for _, tt := range []struct{ text, want, err string }{
		{text: mit, want: "[MIT]"},
		{text: bsd + third, want: "[BSD-3-Clause]"},
		{text: bsd, want: "[BSD-2-Clause]"},
		{text: bsd + third + "Files in x:\n" + mit, want: "[MIT BSD-3-Clause]"},
		{text: isc + ", provided that the above\ncopyright notice and this permission notice appear", want: "[ISC]"},
		{text: isc + ".\n\nTHE SOFTWARE IS PROVIDED \"AS IS\"", want: "[0BSD]"},
		{text: "Apache License\n  Version 2.0, January 2004\n 2. Grant of Copyright License. … 3. Grant of Patent License.", want: "[Apache-2.0]"},
		{text: "Mozilla Public License Version 2.0\n … the GNU General Public License … Covered Software in Source Code Form", want: "[MPL-2.0]"},
		{text: strings.ReplaceAll(mit, "\n", "\r\n"), want: "[MIT]"},

		{text: "All rights reserved.", err: "not one of the permissive ones"},
		{text: "", err: "not one of the permissive ones"},
		{text: "GNU GENERAL PUBLIC LICENSE\nVersion 3", err: `"general public license"`},
		{text: "GNU LESSER GENERAL PUBLIC LICENSE\n" + mit, err: `"general public license"`},
		{text: "“Commons Clause” License Condition v1.0\n" + mit, err: `"commons clause"`},
		{text: bsd + third + "All advertising materials mentioning features …", err: `"advertising materials"`},
		{text: "Permission is hereby granted, free of charge, to any person obtaining a copy, for two weeks.", err: "not one of the permissive ones"},
		{text: "Apache License Version 2.0, January 2004", err: "not one of the permissive ones"},
	} {
		found, err := recognise(tt.text)
		if tt.err != "" {
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%.40q: got %v and error %v, want an error with %s", tt.text, found, err, tt.err)
			}
		} else if got := fmt.Sprint(found); got != tt.want || err != nil {
			t.Errorf("%.40q: got %s and error %v, want %s", tt.text, got, err, tt.want)
		}
	}
}

// page returns docs/licences.md.
func page(modules map[string]string) string {
	byLicence := make(map[string][]string)
	for module, id := range modules {
		byLicence[id] = append(byLicence[id], module)
	}
	var text strings.Builder
	text.WriteString(head)
	ids := slices.SortedFunc(maps.Keys(byLicence), func(a, b string) int {
		if n := len(byLicence[b]) - len(byLicence[a]); n != 0 {
			return n
		}
		return strings.Compare(a, b)
	})
	for _, id := range ids {
		fmt.Fprintf(&text, "\n## %s\n\n", id)
		for _, module := range slices.Sorted(slices.Values(byLicence[id])) {
			fmt.Fprintf(&text, "- %s\n", module)
		}
	}
	return text.String()
}

const head = `# Licences of others

For those who pass on a binary or a container image of Kennel: the modules that the handler and ` + "`kennel`" + ` link, on any
system, by licence (SPDX identifiers). All are permissive: the texts of the licences have to go with what you pass on.
They are in the folder of each module, which ` + "`go list -m -f '{{.Dir}}' MODULE`" + ` prints. The standard library of Go is
BSD-3-Clause; its text is in ` + "`go env GOROOT`" + `. Kennel itself is MIT.

[go.mod](../go.mod) has the versions, and ` + "`make sbom`" + ` writes them with the licences of each binary. This page is made from
the source by ` + "`go test ./internal/dev/sbom -update`" + `; ` + "`make test`" + ` fails if it is outdated, or if a module with another
licence is linked.
`
