package main

import (
	"flag"
	"strings"
	"testing"
)

func TestOnlyFlags(t *testing.T) {
	for _, test := range []struct {
		args []string
		says string
	}{
		{[]string{"--by", "Jürgen", "--json"}, ""},
		{[]string{"--by", "J\xfcrgen"}, "--by says is not UTF-8"},
		{[]string{"--by", "ann", "--yes", "--reason", "x\xff"}, "no use for --reason, --yes"},
	} {
		flags := flag.NewFlagSet("gate", flag.ContinueOnError)
		for _, name := range []string{"by", "reason"} {
			flags.String(name, "", "")
		}
		flags.Bool("json", false, "")
		flags.Bool("yes", false, "")
		if err := flags.Parse(test.args); err != nil {
			t.Fatal(err)
		}
		err := onlyFlags(flags, "close", []string{"by"})
		if (err == nil) != (test.says == "") || err != nil && !strings.Contains(err.Error(), test.says) {
			t.Errorf("%q: %v, want %q", test.args, err, test.says)
		}
	}
}
