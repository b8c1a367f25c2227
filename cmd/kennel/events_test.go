package main

import (
	"bytes"
	"strings"
	"testing"

	devrun "kennel/internal/dev/run"
)

func TestReadySaysHowToDrawANumber(t *testing.T) {
	const elsewhere = "http://127.0.0.1:7080"
	for _, tt := range []struct {
		name  string
		event devrun.Event
		want  []string // lines
	}{
		{"defaults", devrun.Event{URL: defaultURL, BlobURL: "http://127.0.0.1:1/a"}, []string{
			"The app is ready at http://127.0.0.1:7071",
			"  curl -X POST http://127.0.0.1:7071/api/sequences/orders/next",
			"  bin/kennel next",
			"data    in memory, gone at the end; --data DIR keeps it",
			"blobs   http://127.0.0.1:1/a",
		}},
		{"another port, a key, kept data", devrun.Event{URL: elsewhere, Key: "k", BlobURL: "http://127.0.0.1:1/a", Data: "kept"}, []string{
			"  curl -X POST -H 'x-functions-key: k' http://127.0.0.1:7080/api/sequences/orders/next",
			"  bin/kennel next --url http://127.0.0.1:7080 --key k",
			"data    in kept",
		}},
		{"a given account", devrun.Event{URL: elsewhere}, []string{"data    in the storage account that the settings name"}},
	} {
		var out bytes.Buffer
		con := newConsole([]string{"bin/kennel"}, nil, nil, &out, nil)
		tt.event.Event = "ready"
		if err := con.report(false, tt.event); err != nil {
			t.Fatal(err)
		}
		for _, want := range tt.want {
			if !strings.Contains(out.String(), "\n"+want+"\n") {
				t.Errorf("%s: got\n%s\nwant the line %q", tt.name, out.String(), want)
			}
		}
	}
}
