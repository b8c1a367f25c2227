package main

import (
	"flag"
	"slices"
	"strings"
	"unicode/utf8"
)

// target is the address of the app and the key to call it with.
type target struct{ base, key string }

// addTo adds the flags.
func (t *target) addTo(flags *flag.FlagSet) {
	flags.StringVar(&t.base, "url", defaultURL, "call the app at `URL`, without /api")
	flags.StringVar(&t.key, "key", "", "send the function key `K`; prefer the environment variable KENNEL_KEY,\nbecause other users can see command lines")
}

// onlyFlags rejects flags that a verb does not accept, and flags whose values
// JSON would alter. Every verb accepts own, --url, --key and --json.
func onlyFlags(flags *flag.FlagSet, verb string, own []string) error {
	var unknown, invalid []string
	flags.Visit(func(f *flag.Flag) {
		if !utf8.ValidString(f.Value.String()) {
			invalid = append(invalid, "--"+f.Name)
		}
		if !slices.Contains(own, f.Name) && !slices.Contains([]string{"url", "key", "json"}, f.Name) {
			unknown = append(unknown, "--"+f.Name)
		}
	})
	if len(unknown) > 0 {
		return usagef("%s does not accept %s; see `kennel help %s`", verb, strings.Join(unknown, ", "), flags.Name())
	}
	if len(invalid) > 0 {
		return usagef("%s: the value of %s is not valid UTF-8", verb, strings.Join(invalid, ", "))
	}
	return nil
}
