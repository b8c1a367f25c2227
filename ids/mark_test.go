package ids

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"
)

// parseNext returns a canonical number or ErrCorrupt, whatever the text.
func FuzzParseNext(f *testing.F) {
	for _, s := range []string{"1", "0", "12x", "", "-1", "\ufeff7\n", "9223372036854775807", "9223372036854775808", "007", "+1", "1_0"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		n, err := parseNext(text)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Errorf("parseNext(%q): %v, want ErrCorrupt", text, err)
			}
			return
		}
		rest := strings.TrimRight(strings.TrimPrefix(text, byteOrderMark), " \t\r\n")
		if n < 0 || strconv.FormatInt(n, 10) != rest {
			t.Errorf("parseNext(%q) = %d", text, n)
		}
	})
}

// A number that a store may have cut is corrupt, however much of it is left.
func TestLongNumber(t *testing.T) {
	for _, text := range []string{strings.Repeat("1", 65), "1001" + strings.Repeat("\n", 100) + "2", strings.Repeat("\x00", 1<<20)} {
		m := MarkOf(Value{Text: text})
		if next, err := m.Next(); !errors.Is(err, ErrCorrupt) || len(m.Text) > 65 {
			t.Errorf("the number of %d bytes, %.20q, is %d, %v with a text of %d bytes", len(text), text, next, err, len(m.Text))
		}
	}
	if next, err := MarkOf(Value{Text: "1001" + strings.Repeat("\n", 60)}).Next(); next != 1001 || err != nil {
		t.Errorf("%d, %v, want 1001", next, err)
	}
}

// A mark is read back as it was stored.
func TestMarkOf(t *testing.T) {
	for _, m := range []Mark{
		{Text: "1"}, {Text: "2", Writer: "node-7/0198f1", Known: true},
		{Text: "3", Peak: "9", History: "1048577:1 ABCDEFGHIJKL:7", Forks: "5:ABCDEFGHIJKL", Version: "v"},
	} {
		if got := MarkOf(m.Value()); got != m {
			t.Errorf("read back %+v, want %+v", got, m)
		}
	}
	now := time.Now()
	for age, want := range map[time.Duration]bool{0: false, CopyAge - 1: false, CopyAge: true} {
		if m := MarkOf(Value{WrittenAt: now, StoredAt: now.Add(age)}); m.Copied != want {
			t.Errorf("stored %v after it was written: %+v, want a copy: %t", age, m, want)
		}
	}
	if m := MarkOf(Value{StoredAt: now}); m.Copied {
		t.Error("a mark of another program counts as a copy")
	}
}

// A window issues exactly its numbers. When it is used up or shut, it issues
// none for as many calls as memory can hold callers.
func FuzzWindow(f *testing.F) {
	f.Add(int64(1), int64(1), uint16(3))
	f.Add(int64(windowTop-10), int64(5), uint16(2))
	f.Add(int64(1000), int64(maxWindow), uint16(64))
	f.Fuzz(func(t *testing.T, first, count int64, piece uint16) {
		if first < 0 || first > 1<<62 || count < 0 || count > 1<<30 {
			return
		}
		r := Range{First: first, Last: first + count - 1}
		word := pack(r)
		if fits := first > 0 && count > 0 && count <= maxWindow && r.Last < windowTop; fits == (word == windowShut) {
			t.Fatalf("pack(%v) is %#x", r, word)
		} else if !fits {
			return
		}
		if got := unpack(word); got != r {
			t.Fatalf("unpack(pack(%v)) = %v", r, got)
		}
		var g Generator
		g.word.Store(word)
		if n := g.word.Add(windowStep) & windowMask; n != first {
			t.Fatalf("issued %d, want %d", n, first)
		}
		r.take(1)
		if n := int64(piece); n > 0 {
			got, ok := g.takeOpen(n)
			if ok != (r.Count() >= n) || ok && got != r.take(n) {
				t.Fatalf("takeOpen(%d) = %v, %v", n, got, ok)
			}
		}
		for _, end := range []int64{word + count*windowStep, windowShut} {
			for _, late := range []int64{1, 1000, 1<<23 - 1} {
				if n := (end + late*windowStep) & windowMask; n >= 0 {
					t.Errorf("issued %d after %d calls beyond its end", n, late)
				}
			}
		}
	})
}

// Calls to a closed generator must not make its window overflow, however many
// they are.
func TestClosedStaysClosed(t *testing.T) {
	g, err := New(struct{ Store }{}, "orders", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	g.word.Store(windowShut + (1<<23-3)*windowStep) // as after so many calls
	for range 10 {
		if n, err := g.Next(t.Context()); !errors.Is(err, ErrClosed) {
			t.Fatalf("Next of a closed generator = %d, %v, want ErrClosed", n, err)
		}
	}
}
