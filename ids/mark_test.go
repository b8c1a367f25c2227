package ids

import (
	"errors"
	"strconv"
	"strings"
	"testing"
)

// Whatever the text, it is the canonical number, or an error that says so.
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

// A window issues exactly its numbers, one by one or in pieces, and nothing
// after them for as many calls as there may be.
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
		if word == windowShut {
			if first > 0 && count > 0 && count <= maxWindow && r.Last < windowTop {
				t.Fatalf("pack(%v) is shut", r)
			}
			return
		}
		if got := unpack(word); got != r {
			t.Fatalf("unpack(pack(%v)) = %v", r, got)
		}
		var g Generator
		g.word.Store(word)
		for range 3 {
			n := g.word.Add(windowStep) & windowMask
			if r.Count() == 0 {
				if n >= 0 {
					t.Fatalf("an empty window issued %d", n)
				}
				continue
			}
			if n != r.First {
				t.Fatalf("issued %d, want %d", n, r.First)
			}
			r.First++
		}
		if want := int64(piece); want > 0 {
			got, ok := g.takeOpen(want)
			if ok != (r.Count() >= want) || ok && (got.First != r.First || got.Count() != want) {
				t.Fatalf("takeOpen(%d) of %v = %v, %v", want, r, got, ok)
			}
		}
	})
}

// A shut window stays shut for more callers than memory holds, wherever it
// stood.
func TestWindowStaysShut(t *testing.T) {
	for _, r := range []Range{{1, 1}, {1, 1000}, {windowTop - 5, windowTop - 1}} {
		word := pack(r) + r.Count()*windowStep
		for _, late := range []int64{1, 2, 1000, 1 << 20, 1<<23 - 1} {
			if n := (word + late*windowStep) & windowMask; n >= 0 {
				t.Errorf("window %v issued %d after %d calls too many", r, n, late)
			}
			if n := (windowShut + late*windowStep) & windowMask; n >= 0 {
				t.Errorf("a shut window issued %d after %d calls", n, late)
			}
		}
	}
}

// A closed generator is asked again and again by callers who do not give up:
// that must not count its window round.
func TestClosedStaysClosed(t *testing.T) {
	g, err := New(nil, "orders", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		g.word.Store(windowShut + (1<<23-3)*windowStep) // as after so many calls
		for range 10 {
			if n, err := g.Next(t.Context()); !errors.Is(err, ErrClosed) {
				t.Fatalf("Next of a closed generator = %d, %v, want ErrClosed", n, err)
			}
		}
	}
}
