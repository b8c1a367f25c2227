// Sbom writes a software bill of materials for each of the given binaries of
// this app, a file NAME.cdx.json in the folder of -out:
//
//	go run ./internal/dev/sbom -version v0.1.0 -commit COMMIT -out bin dist/handler bin/kennel
//
// The bill is a CycloneDX document. It lists the modules that the Go linker
// recorded in the binary, with their licences. The same binary gives the same
// bytes.
//
// The tests of this package hold docs/licences.md against the modules that are
// linked, and reject licences that are not in a list of permissive ones.
package main

import (
	"debug/buildinfo"
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	version := flag.String("version", "", "the version of the binaries")
	commit := flag.String("commit", "", "the commit of the binaries")
	out := flag.String("out", ".", "the folder to write to")
	flag.Parse()
	if err := run(*version, *commit, *out, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func run(version, commit, out string, binaries []string) error {
	modules, err := linkedModules()
	if err != nil {
		return err
	}
	for _, path := range binaries {
		info, err := buildinfo.ReadFile(path)
		if err != nil {
			return err
		}
		binary, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		text, err := document(info, binary, version, commit, modules)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		to := filepath.Join(out, filepath.Base(path)+".cdx.json")
		if err := os.WriteFile(to, text, 0o644); err != nil {
			return err
		}
		fmt.Printf("%s  %d modules\n", to, len(info.Deps))
	}
	return nil
}
