package main

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"
)

var threeNumbers = answer{200, "application/json", "{\"sequence\": \"orders\",\n \"first\": 9007199254740989, \"last\": 9007199254740991, \"count\": 3}", nil}

func TestNext(t *testing.T) {
	address := serving(t, threeNumbers)
	for _, tt := range []struct {
		args []string
		want string
	}{
		{nil, "9007199254740989\n9007199254740990\n9007199254740991\n"},
		{[]string{"--json"}, `{"sequence":"orders","first":9007199254740989,"last":9007199254740991,"count":3}` + "\n"},
	} {
		code, stdout, stderr := call(t, nil, append([]string{"next", "--count", "3", "--url", address}, tt.args...)...)
		if code != exitDone || stdout != tt.want || stderr != "" {
			t.Errorf("%v: code %d, stdout %q, stderr %q, want %q", tt.args, code, stdout, stderr, tt.want)
		}
	}
}

// full is a standard output that has no space left.
type full struct {
	space int
	bytes.Buffer
}

func (f *full) Write(p []byte) (int, error) {
	n := min(f.space, len(p))
	f.space -= n
	f.Buffer.Write(p[:n])
	if n < len(p) {
		return n, errors.New("no space left")
	}
	return n, nil
}

// TestNumbersThatAreNotWritten checks that the error names them: no other
// caller gets them.
func TestNumbersThatAreNotWritten(t *testing.T) {
	address := serving(t, threeNumbers)
	for _, tt := range []struct {
		space int
		json  bool
		want  string
	}{
		{0, false, "numbers 9007199254740989 to 9007199254740991 were drawn and not written: no space left"},
		{20, false, "numbers 9007199254740990 to 9007199254740991 were drawn"},
		{50, false, "number 9007199254740991 was drawn and not written"},
		{20, true, "numbers 9007199254740989 to 9007199254740991 were drawn"},
	} {
		args := []string{"kennel", "next", "--count", "3", "--url", address}
		if tt.json {
			args = append(args, "--json")
		}
		var stderr strings.Builder
		code := run(t.Context(), args, nil, nil, &full{space: tt.space}, &stderr)
		if code != exitFailed || !strings.Contains(stderr.String(), tt.want) {
			t.Errorf("space for %d bytes, JSON %t: code %d, stderr %q, want %q", tt.space, tt.json, code, stderr.String(), tt.want)
		}
	}
}

// TestIsClosed checks that the null device of a caller that discards output is
// not taken for a closed standard output; testdata/script/next.txtar closes it.
func TestIsClosed(t *testing.T) {
	discard, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer discard.Close()
	if isClosed(discard) || isClosed(new(bytes.Buffer)) {
		t.Error("a standard output that discards its text is taken for a closed one")
	}
}
