package main

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"kennel/internal/version"
)

var handlerPackage, commandPackage = version.Module + "/handler", version.Module + "/cmd/kennel"

// programs are the programs that ship, with the systems for which they are
// built: some modules are linked on one system only.
var programs = map[string][]string{
	"linux":   {handlerPackage, commandPackage},
	"darwin":  {commandPackage},
	"windows": {commandPackage},
}

// linkedModules returns the licences, as an SPDX expression, of each module
// that a program links. It fails if the text of a licence is not known to be
// permissive.
func linkedModules() (map[string]string, error) {
	var wait sync.WaitGroup
	var mu sync.Mutex // guards the variables below
	var all []map[string]map[string]bool
	var errs []error
	for system, packages := range programs {
		wait.Go(func() {
			folders, err := linkedFolders(system, packages)
			mu.Lock()
			defer mu.Unlock()
			all, errs = append(all, folders), append(errs, err)
		})
	}
	wait.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	folders := make(map[string]map[string]bool) // of each module
	for _, modules := range all {
		for module, list := range modules {
			if folders[module] == nil {
				folders[module] = make(map[string]bool)
			}
			maps.Copy(folders[module], list)
		}
	}
	licences := make(map[string]string)
	for module, list := range folders {
		var ids []string
		for folder := range list {
			found, err := folderLicences(folder)
			if err != nil {
				return nil, fmt.Errorf("module %s: %w", module, err)
			}
			ids = append(ids, found...)
		}
		if len(ids) == 0 {
			return nil, fmt.Errorf("module %s has no licence: replace it", module)
		}
		slices.Sort(ids)
		licences[module] = strings.Join(slices.Compact(ids), " AND ")
	}
	return licences, nil
}

// linkedFolders returns the folders of each module that the packages link on a
// system, from the root of the module to its packages.
func linkedFolders(system string, packages []string) (map[string]map[string]bool, error) {
	args := []string{"list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}}\t{{.Dir}}\t{{$.Dir}}{{end}}{{end}}"}
	cmd := exec.Command("go", append(args, packages...)...)
	cmd.Env = append(os.Environ(), "GOOS="+system, "GOARCH=amd64", "CGO_ENABLED=0")
	var message strings.Builder
	cmd.Stderr = &message
	output, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list the modules that are linked on %s: %w: %s", system, err, strings.TrimSpace(message.String()))
	}
	folders := make(map[string]map[string]bool)
	for line := range strings.Lines(string(output)) {
		fields := strings.Split(strings.TrimSpace(line), "\t")
		if len(fields) != 3 {
			continue // the standard library, or this module
		}
		module, root, folder := fields[0], fields[1], fields[2]
		if folders[module] == nil {
			folders[module] = map[string]bool{root: true}
		}
		for ; !folders[module][folder]; folder = filepath.Dir(folder) {
			folders[module][folder] = true
		}
	}
	return folders, nil
}

var licenceFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|unlicense)`)

// folderLicences returns the licences of the files in a folder.
func folderLicences(folder string) ([]string, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	var all []string
	for _, entry := range entries {
		if entry.Type() != fs.ModeDir && licenceFile.MatchString(entry.Name()) && filepath.Ext(entry.Name()) != ".go" {
			text, err := os.ReadFile(filepath.Join(folder, entry.Name()))
			if err != nil {
				return nil, err
			}
			found, err := recognise(string(text))
			if err != nil {
				return nil, fmt.Errorf("%s: %w", filepath.Join(folder, entry.Name()), err)
			}
			all = append(all, found...)
		}
	}
	return all, nil
}

// A file may have the texts of several licences. These allow every use of a
// program, and to pass it on with the text. Each is found by the words that
// grant this, in lower case.
var permissive = []struct {
	id    string
	words []string // the text has all of them
	not   string   // and does not have these
}{
	{id: "Apache-2.0", words: []string{"apache license version 2.0, january 2004", "grant of copyright license", "grant of patent license"}},
	{id: "MPL-2.0", words: []string{"mozilla public license version 2.0", "covered software in source code form"}},
	{id: "MIT", words: []string{"permission is hereby granted, free of charge, to any person obtaining a copy", "this permission notice shall be included in all copies"}},
	{id: "BSD-3-Clause", words: []string{binaryForms, "neither the name"}},
	{id: "BSD-2-Clause", words: []string{binaryForms}, not: "neither the name"},
	{id: "ISC", words: []string{"for any purpose with or without fee is hereby granted, provided that the above copyright notice"}},
	{id: "0BSD", words: []string{"for any purpose with or without fee is hereby granted. the software is provided"}},
}

const binaryForms = "redistribution and use in source and binary forms, with or without modification, are permitted"

// restricting are words of conditions that a file adds to such a text, and of
// other licences.
var restricting = []string{"general public license", "commons clause", "business source license", "server side public license",
	"elastic license", "creative commons", "commercial use", "non-commercial", "noncommercial", "advertising materials"}

var layout = regexp.MustCompile(`[\s*#]+`)

// recognise returns the licences of a text.
func recognise(text string) (found []string, err error) {
	text = strings.ToLower(layout.ReplaceAllString(text, " "))
	for _, l := range permissive {
		if !slices.ContainsFunc(l.words, func(w string) bool { return !strings.Contains(text, w) }) && (l.not == "" || !strings.Contains(text, l.not)) {
			found = append(found, l.id)
		}
	}
	for _, words := range restricting {
		if strings.Contains(text, words) && !slices.Contains(found, "MPL-2.0") { // which names other licences
			return nil, fmt.Errorf("the text has the words %q: read it, and replace the module if they restrict its use", words)
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("the licence %q… is not one of the permissive ones that are known: read it, and replace the module or add its words", text[:min(60, len(text))])
	}
	return found, nil
}
