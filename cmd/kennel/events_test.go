package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestReadySaysHowToDrawANumber(t *testing.T) {
	const elsewhere = "http://127.0.0.1:7080"
	tests := []struct {
		name  string
		event event
		want  []string // lines
	}{
		{
			name:  "as it comes",
			event: event{URL: defaultURL, BlobURL: "http://127.0.0.1:1/a"},
			want: []string{
				"The app is ready at http://127.0.0.1:7071",
				"  curl -X POST http://127.0.0.1:7071/api/sequences/orders/next",
				"  bin/kennel next",
				"data    in memory, gone at the end; --data DIR keeps it",
				"blobs   http://127.0.0.1:1/a",
			},
		},
		{
			name:  "another port, a key, kept data",
			event: event{URL: elsewhere, Key: "k", BlobURL: "http://127.0.0.1:1/a", Data: "kept"},
			want: []string{
				"  curl -X POST -H 'x-functions-key: k' http://127.0.0.1:7080/api/sequences/orders/next",
				"  bin/kennel next --url http://127.0.0.1:7080 --key k",
				"data    in kept",
			},
		},
		{
			name:  "an account of one's own",
			event: event{URL: elsewhere},
			want:  []string{"data    in the storage account that the settings name"},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var out bytes.Buffer
			con := newConsole([]string{"bin/kennel"}, nil, nil, &out, nil)
			test.event.Event = "ready"
			if err := con.report(false, test.event); err != nil {
				t.Fatal(err)
			}
			for _, want := range test.want {
				if !strings.Contains(out.String(), "\n"+want+"\n") {
					t.Errorf("got\n%s\nwant the line %q", out.String(), want)
				}
			}
		})
	}
}
