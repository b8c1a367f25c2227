package queue

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

var testTime = time.Date(2026, 7, 1, 12, 30, 0, 123456789, time.UTC)

var testCoders coders

// inline returns the text of a message whose body needs no claim.
func inline(t testing.TB, e Envelope, body []byte) string {
	t.Helper()
	if e.ID == "" {
		e.ID = "order-7"
	}
	e.Time = testTime
	if content := e.fill(body, &testCoders); content != nil {
		t.Fatalf("body of %d bytes needs a claim", len(body))
	}
	text, err := e.Text()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// noise returns bytes that cannot be compressed.
func noise(n int) []byte {
	random := rand.New(rand.NewPCG(uint64(n), 1))
	body := make([]byte, n)
	for i := range body {
		body[i] = byte(random.Uint32())
	}
	return body
}

// TestForms: a body travels in its shortest form, and every form is text that a
// queue can hold.
func TestForms(t *testing.T) {
	text := func(n int) []byte { return []byte(strings.Repeat("resize photo 7, please; ", n/24+1)[:n]) }
	for _, tt := range []struct {
		name, form string
		body       []byte
	}{
		{"empty", "text", nil},
		{"short", "text", []byte(`{"photo":7}`)},
		{"other languages", "text", []byte("ümlaut 日本 🐕 \u2028")},
		{"lines", "text", []byte("a\r\n\tb")},
		{"invalid UTF-8", "base64", []byte("a\xff")},
		{"control characters", "base64", []byte("bell \a")},
		{"no character of XML", "base64", []byte("\ufffe")},
		{"NUL", "base64", []byte{0}},
		{"not worth compressing", "text", text(minCompress - 1)},
		{"long text", "zstd", text(maxInline)},
		{"longer than a message", "zstd", text(100 << 10)},
		{"64 KiB of control characters", "zstd", bytes.Repeat([]byte{1}, MaxBody)},
		{"noise", "base64", noise(maxInline / 4 * 3)},
		{"compressed before", "base64", append(slices.Clone(zstdMagic), text(2*minCompress)...)},
		{"quotes", "base64", []byte(strings.Repeat(`"`, minCompress-1))},
		{"too much noise", "claim", noise(maxInline/4*3 + 3)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := Envelope{ID: "order-7", Time: testTime}
			content := e.fill(tt.body, &testCoders)
			form := "base64"
			switch {
			case content != nil:
				form = "claim"
			case e.isText:
				form = "text"
			case e.zstd:
				form = "zstd"
			}
			if form != tt.form {
				t.Errorf("travels as %s, want %s", form, tt.form)
			}
			if content != nil {
				return
			}
			text := inline(t, e, tt.body)
			if err := checkBody(text); err != nil || len(text) > MaxText {
				t.Errorf("text of %d bytes: %v", len(text), err)
			}
			got, err := Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			body, err := got.body(got.inline, &testCoders)
			if err != nil || !bytes.Equal(body, tt.body) || got.Size() != len(tt.body) {
				t.Errorf("got %.80q of %d bytes, %v, want %.80q", body, got.Size(), err, tt.body)
			}
		})
	}
}

// TestHeader: an envelope keeps what it states, and a dead letter with the
// longest reason is no longer than a message can be, also in base64.
func TestHeader(t *testing.T) {
	want := Envelope{
		ID: strings.Repeat(`"`, maxID), Attempts: 1 << 30, TraceParent: strings.Repeat(`\`, maxID), Raw: true,
	}
	longest := bytes.Repeat([]byte(`"`), maxInline/2)
	for i := range longest { // incompressible enough to stay text
		if rand.N(2) == 0 {
			longest[i] = '\\'
		}
	}
	for _, body := range [][]byte{longest, noise(maxInline / 4 * 3)} {
		text := inline(t, want, body)
		got, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if got.ID != want.ID || !got.Time.Equal(testTime) || got.Attempts != want.Attempts || got.TraceParent != want.TraceParent || !got.Raw || got.Reason != "" {
			t.Errorf("got %.300v, want %.300v", got, want)
		}
		got.Reason = strings.Repeat("\u2028\"\n", 1000)
		dead, err := got.Text()
		if err != nil || len(dead) > MaxText {
			t.Fatalf("dead letter of %d bytes: %v", len(dead), err)
		}
		again, err := Parse(dead)
		if err != nil || again.Reason != got.Reason[:maxReason/5*5] {
			t.Errorf("reason of %d bytes, %v, want the first %d", len(again.Reason), err, maxReason)
		}
	}
	for reason, kept := range map[string]string{"bell \a": "bell \ufffd", "\xff": "\ufffd", strings.Repeat("ü", 1000): strings.Repeat("ü", 500), "x" + strings.Repeat("ü", 1000): "x" + strings.Repeat("ü", 499)} {
		e, err := Parse(inline(t, Envelope{Reason: reason}, nil))
		if err != nil || e.Reason != kept {
			t.Errorf("reason %.20q became %.20q, %v, want %.20q", reason, e.Reason, err, kept)
		}
	}
}

// TestEnvelopeLimits: an envelope that no receiver would accept is not sent.
func TestEnvelopeLimits(t *testing.T) {
	for name, e := range map[string]Envelope{
		"no id":       {Time: testTime},
		"long id":     {ID: strings.Repeat("x", maxID+1), Time: testTime},
		"control":     {ID: "a\n", Time: testTime},
		"no UTF-8":    {ID: "\xff", Time: testTime},
		"no time":     {ID: "a"},
		"late":        {ID: "a", Time: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)},
		"attempts":    {ID: "a", Time: testTime, Attempts: -1},
		"traceparent": {ID: "a", Time: testTime, TraceParent: strings.Repeat("x", maxID+1)},
	} {
		e.fill([]byte("x"), &testCoders)
		if text, err := e.Text(); !errors.Is(err, ErrLimit) {
			t.Errorf("%s: %q, %v, want ErrLimit", name, text, err)
		}
	}
}

const (
	claimed    = `{"v":1,"id":"a","time":"2026-07-01T12:30:00Z","size":70000,"sha256":"` + zeroDigest + `","claim":{"in":"blob","key":"` + key26 + `","bytes":70000}}`
	zeroDigest = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
	key26      = "2026-07-23-ABCDEFGHIJKLMNOPQRSTUVWXYZ"
)

// TestBadMessages: whatever a message holds, Parse or the check of the body
// rejects it with a reason.
func TestBadMessages(t *testing.T) {
	good := inline(t, Envelope{}, []byte("resize photo 7"))
	packed := inline(t, Envelope{}, bytes.Repeat([]byte("x"), 5000))
	change := func(text, old, new string) string {
		if !strings.Contains(text, old) {
			t.Fatalf("%s does not contain %q", text, old)
		}
		return strings.Replace(text, old, new, 1)
	}
	for _, text := range []string{good, packed, claimed} {
		if _, err := Parse(text); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct{ name, text, want string }{
		{"nothing", "", "JSON"},
		{"no JSON", "resize photo 7", "JSON"},
		{"base64 of an envelope", "eyJ2IjoxfQ==", "JSON"},
		{"a list", "[]", "JSON"},
		{"null", "null", "no version"},
		{"cut", good[:len(good)-1], "JSON"},
		{"more", good + "{}", "after top-level"},
		{"too long", good + strings.Repeat(" ", MaxText), "more than"},
		{"64 KiB with control characters", strings.Repeat("\t\n\x01", MaxBody/3), "more than"},
		{"no version", `{"id":"a"}`, "no version"},
		{"version 0", change(good, `"v":1`, `"v":0`), "no version"},
		{"unknown version", change(good, `"v":1`, `"v":2`), "version 2 is unknown"},
		{"unknown version with other members", `{"v":2,"body":{}}`, "version 2 is unknown"},
		{"version is text", change(good, `"v":1`, `"v":"1"`), "JSON"},
		{"a known member in other letters", change(good, `"v":1`, `"v":1,"x":1,"ID":"x"`), "other letters"},
		{"no id", change(good, `"order-7"`, `""`), "id"},
		{"no time", change(good, `"time":"2026-07-01T12:30:00.123456789Z",`, ``), "time"},
		{"negative size", change(claimed, `70000`, `-1`), "-1 bytes"},
		{"large size", change(claimed, `70000`, `67108865`), "67108865 bytes"},
		{"no digest", change(claimed, `,"sha256":"`+zeroDigest+`"`, ``), "sha256"},
		{"short digest", change(claimed, zeroDigest, "AAAA"), "sha256"},
		{"no body", change(good, `,"text":"resize photo 7"`, ``), "0 of text"},
		{"two bodies", change(good, `,"text"`, `,"base64":"eA==","text"`), "2 of text"},
		{"not base64", change(packed, `"base64":"`, `"base64":"!`), "base64"},
		{"compressed text", change(good, `,"text"`, `,"zstd":true,"text"`), "text"},
		{"text is cut", change(good, `photo 7`, `photo`), "12 bytes, want 14"},
		{"text is changed", change(good, `photo 7`, `photo 8`), "digest"},
		{"invalid UTF-8", change(good, `photo 7`, "photo \xff"), "bytes"},
		{"not compressed", change(packed, `"zstd":true,`, ``), "want 5000"},
		{"not zstd", change(good, `,"text":"resize photo 7"`, `,"zstd":true,"base64":"AAAAAAAA"`), "decompress"},
		{"zstd is longer", change(packed, `"size":5000`, `"size":4999`), "decompress"},
		{"zstd is shorter", change(packed, `"size":5000`, `"size":5001`), "5000 bytes, want 5001"},
		{"claim nowhere", change(claimed, `"blob"`, `"file"`), "file"},
		{"claim of other length", change(claimed, `"bytes":70000`, `"bytes":70001`), "70001"},
		{"claim of nothing", change(change(claimed, `"bytes":70000`, `"bytes":0`), `"size":70000`, `"size":0`), "0 bytes"},
		{"claim that no table holds", change(change(change(claimed, `"blob"`, `"table"`), `"bytes":70000`, `"bytes":3000000`), `"size":70000`, `"size":3000000`), "cannot hold"},
		{"claim without a date", change(claimed, `2026-07-23`, `2026-13-23`), "key"},
		{"claim elsewhere", change(claimed, key26, `../secrets`), "key"},
		{"claim with a longer key", change(claimed, key26, key26+"A"), "key"},
	} {
		e, err := Parse(tt.text)
		if err == nil {
			_, err = e.body(e.inline, &testCoders)
		} else if !errors.Is(err, ErrMessage) {
			t.Errorf("%s: %v is not ErrMessage", tt.name, err)
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want an error with %q", tt.name, err, tt.want)
		}
	}
}

// TestBombs: a body that grows beyond its declared size is rejected, and no
// more memory is used than for that size.
func TestBombs(t *testing.T) {
	const whole = 8 << 20
	bomb := testCoders.compress(make([]byte, whole))
	if len(bomb) > maxInline {
		t.Fatalf("the bomb has %d bytes", len(bomb))
	}
	for _, size := range []int{0, 1, 5000, whole - 1} {
		if body, err := testCoders.decompress(bomb, size); err == nil {
			t.Errorf("%d bytes of %d: no error", len(body), size)
		}
	}
	twice := append(bytes.Clone(bomb), bomb...) // two frames
	if body, err := testCoders.decompress(twice, whole); err == nil {
		t.Errorf("two frames became %d bytes, want an error", len(body))
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, _ = testCoders.decompress(twice, 5000)
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 1<<20 {
		t.Errorf("%d bytes were allocated to reject a bomb of 5000", n)
	}
}

// FuzzParse: no text makes the decoder panic or use memory beyond its limits,
// and what it accepts, it writes again with the same meaning.
func FuzzParse(f *testing.F) {
	f.Add(inline(f, Envelope{Reason: "no"}, []byte("resize photo 7")))
	f.Add(inline(f, Envelope{Raw: true, Attempts: 3}, bytes.Repeat([]byte("x"), 5000)))
	f.Add(inline(f, Envelope{TraceParent: "00-0-0-01"}, noise(1000)))
	f.Add(claimed)
	f.Add(`{"v":2}`)
	f.Add(`{"V":1,"id":"a","ID":"b"}`)
	f.Fuzz(func(t *testing.T, text string) {
		e, err := Parse(text)
		if err != nil {
			if !errors.Is(err, ErrMessage) {
				t.Errorf("%v is not ErrMessage", err)
			}
			return
		}
		body, bodyErr := e.body(e.inline, &testCoders)
		if bodyErr == nil && len(body) != e.Size() {
			t.Errorf("body of %d bytes, declared %d", len(body), e.Size())
		}
		again, err := e.Text()
		if err != nil {
			if len(text) > maxInline {
				return // longer than Pack makes it
			}
			t.Fatalf("%v, of %s", err, text)
		}
		if err := checkBody(again); err != nil {
			t.Error(err)
		}
		same, err := Parse(again)
		if err != nil {
			t.Fatalf("%v, of %s", err, again)
		}
		if got, want := fmt.Sprintf("%+v", same), fmt.Sprintf("%+v", e); e.claim == nil && len(e.Reason) <= maxReason && got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	})
}

// TestMembers: a message has no member that it does not need, so that it stays
// readable and short.
func TestMembers(t *testing.T) {
	text := inline(t, Envelope{}, []byte("x"))
	var members map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &members); err != nil {
		t.Fatal(err)
	}
	for name := range maps.Keys(members) {
		if !strings.Contains(" v id time size sha256 text ", " "+name+" ") {
			t.Errorf("%s has the member %s", text, name)
		}
	}
}

// TestOtherMembers: members that this version does not know stay in every copy
// of the message, and leave room for its count and its reason.
func TestOtherMembers(t *testing.T) {
	good := inline(t, Envelope{}, []byte("hello"))
	with := strings.TrimSuffix(good, "}") + `,"headers":{"tenant":"ann"},"until":"2027-01-01T00:00:00Z"}`
	e, err := Parse(with)
	if err != nil {
		t.Fatal(err)
	}
	e.Attempts, e.Queue, e.Seen = 3, "emails", 4
	text, err := e.Text()
	if err != nil {
		t.Fatal(err)
	}
	again, err := Parse(text)
	if err != nil || again.Attempts != 3 || again.Queue != "emails" || again.Seen != 4 || string(again.others["headers"]) != `{"tenant":"ann"}` || len(again.others) != 2 {
		t.Errorf("%s is read as %+v, %v", text, again, err)
	}
	if second, err := again.Text(); second != text || err != nil {
		t.Errorf("a second copy is %s, %v", second, err)
	}

	full := inline(t, Envelope{}, bytes.Repeat([]byte("a"), maxInline))
	full = strings.TrimSuffix(full, "}") + `,"headers":"` + strings.Repeat("<", 900) + `"}`
	if e, err = Parse(full); err != nil {
		t.Fatal(err)
	}
	e.Reason = strings.Repeat("r", maxReason)
	if text, err = e.Text(); err != nil || len(text) > MaxText || !strings.Contains(text, e.Reason) || !strings.Contains(text, strings.Repeat("<", 900)) {
		t.Errorf("%d bytes, %v", len(text), err)
	}
	long := strings.TrimSuffix(good, "}") + `,"headers":"` + strings.Repeat("h", maxOthers) + `"}`
	if _, err := Parse(long); !errors.Is(err, ErrMessage) {
		t.Errorf("too many unknown members: %v", err)
	}
}
