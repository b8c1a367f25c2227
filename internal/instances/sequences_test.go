package instances

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// compareSequences fails if plainSequences decodes a text, and not as
// encoding/json does.
func compareSequences(t *testing.T, text string) {
	got, ok := plainSequences(text)
	if !ok {
		return
	}
	var want []Sequence
	if err := json.Unmarshal([]byte(text), &want); err != nil {
		t.Errorf("%q is decoded, but invalid: %v", text, err)
	} else if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%q (-json +ours):\n%s", text, diff)
	}
}

func TestPlainSequences(t *testing.T) {
	at := time.Date(2026, 11, 26, 15, 4, 5, 678, time.UTC)
	all := []Sequence{
		{Name: "orders"},
		{Name: "a.b-c", Issued: 1, Available: -2, Highest: 1<<53 - 1, Writer: "w1", Serial: 7, From: 6, End: 8, Used: 5, PerSecond: 12.345, Lost: 9, LastError: "reset by peer", LastErrorAt: at},
		{Name: "x", PerSecond: 0.001},
	}
	for i, every := 0, reflect.ValueOf(all[1]); i < every.NumField(); i++ {
		if every.Field(i).IsZero() {
			t.Errorf("no sequence of this test has %s", every.Type().Field(i).Name)
		}
	}
	for n := range len(all) + 1 {
		text := list(all[:n])
		if got, ok := plainSequences(text); !ok || cmp.Diff(all[:n], got) != "" {
			t.Errorf("%s: %v, %+v, want what was written", text, ok, got)
		}
	}
	for _, name := range []string{"é", "a\"b", "a\\b", "<", "\u2028", "\xff"} { // by encoding/json
		text := list([]Sequence{{Name: name}})
		if got, err := parseSequences([]byte(text)); err != nil || len(got) != 1 || name != "\xff" && got[0].Name != name {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	text := []byte(list(all))
	random := rand.New(rand.NewPCG(1, 1))
	const alphabet = "{}[],:\"\\-.019eEnulhasto \n\x00é+T"
	for range 20_000 { // damaged texts
		damaged := append([]byte(nil), text...)
		for range 1 + random.IntN(3) {
			at := random.IntN(len(damaged))
			switch random.IntN(3) {
			case 0:
				damaged[at] = alphabet[random.IntN(len(alphabet))]
			case 1:
				damaged = append(damaged[:at], damaged[at+1:]...)
			default:
				end := at + random.IntN(len(damaged)-at)
				damaged = append(damaged[:end:end], damaged[at:]...)
			}
		}
		compareSequences(t, string(damaged))
	}
}

func FuzzPlainSequences(f *testing.F) {
	f.Add(`[{"name":"orders","n":1,"has":-2,"top":0,"rate":1.5,"at":"2026-11-26T15:04:05Z"},{"name":"x","has":0,"top":0}]`)
	f.Fuzz(compareSequences)
}
