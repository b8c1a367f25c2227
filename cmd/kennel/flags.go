package main

import (
	"flag"
	"slices"
	"strings"
	"unicode/utf8"
)

// reach is how a command reaches the app.
type reach struct{ base, key string }

// addTo adds its flags.
func (r *reach) addTo(flags *flag.FlagSet) {
	flags.StringVar(&r.base, "url", defaultURL, "ask the app at `URL`, without /api")
	flags.StringVar(&r.key, "key", "", "open the app with the function key `K`; better put it into the environment\nas KENNEL_KEY, for others can see command lines")
}

// onlyFlags refuses flags that a verb has no use for, and those whose texts JSON
// would alter. Its own come beside those that all verbs have.
func onlyFlags(flags *flag.FlagSet, verb string, own []string) error {
	var strange, garbled []string
	flags.Visit(func(f *flag.Flag) {
		if !utf8.ValidString(f.Value.String()) {
			garbled = append(garbled, "--"+f.Name)
		}
		if !slices.Contains(own, f.Name) && !slices.Contains([]string{"url", "key", "json"}, f.Name) {
			strange = append(strange, "--"+f.Name)
		}
	})
	if len(strange) > 0 {
		return usagef("%s: it has no use for %s; see `kennel help %s`", verb, strings.Join(strange, ", "), flags.Name())
	}
	if len(garbled) > 0 {
		return usagef("%s: what %s says is not UTF-8, and would not be kept as it is", verb, strings.Join(garbled, ", "))
	}
	return nil
}
