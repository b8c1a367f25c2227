package main

import "github.com/spf13/pflag"

// target is the address of the app and the key to call it with.
type target struct{ base, key string }

// addTo adds the flags.
func (t *target) addTo(flags *pflag.FlagSet) {
	flags.StringVar(&t.base, "url", defaultURL, "call the app at `URL`, without /api")
	flags.StringVar(&t.key, "key", "", "send the function key `K`; prefer the environment variable KENNEL_KEY,\nbecause other users can see command lines")
}
