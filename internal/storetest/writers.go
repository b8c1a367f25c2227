package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"kennel/channels"
)

// TestWriters lets 16 processes, each created by start, update one blog
// concurrently. Each process repeatedly reads the text, adds a word and updates
// it conditionally. No word may be lost or added twice. Requests may fail with
// the error lost, if it is not nil. The channel is "news", and the text of its
// first blog contains no <. where is printed with the figure.
func TestWriters(t *testing.T, where string, start func() *channels.Channels, lost error) {
	t.Helper()
	const writers = 16
	words := Scale(2, 5)
	list, err := start().Blogs(t.Context(), "news", 1, "")
	if err != nil || len(list.Items) != 1 {
		t.Fatalf("no blog to write: %v", err)
	}
	id := list.Items[0].ID
	var together sync.WaitGroup
	for i := range writers {
		together.Go(func() {
			c := start()
			for j := 0; j < words; {
				done, err := addWord(t, c, id, fmt.Sprintf("<%d.%d>", i, j))
				switch {
				case done:
					j++
				case !errors.Is(err, channels.ErrChanged) && (lost == nil || !errors.Is(err, lost)):
					t.Errorf("add a word: %v", err)
					return
				}
			}
		})
	}
	together.Wait()

	var blog channels.Blog
	for blog, err = start().Blog(t.Context(), "news", id); lost != nil && errors.Is(err, lost); {
		blog, err = start().Blog(t.Context(), "news", id)
	}
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Count(blog.Text, "<")
	parts := strings.SplitAfter(strings.TrimPrefix(blog.Text, list.Items[0].Text), ">")
	slices.Sort(parts)
	different := len(slices.Compact(parts)) - 1 // the last part is the rest after the last >
	want := writers * words
	if got != want || different != want {
		t.Errorf("%d words, %d different, want %d", got, different, want)
	}
	t.Logf("figure: updates lost by %d writers of one blog, %s (%d updates) | %d | 0", writers, where, want, want-different)
}

func addWord(t *testing.T, c *channels.Channels, id, word string) (done bool, err error) {
	blog, err := c.Blog(t.Context(), "news", id)
	if err != nil {
		return false, err
	}
	if strings.Contains(blog.Text, word) {
		return true, nil // stored before the error; another writer has read and extended it
	}
	_, err = c.Update(t.Context(), "news", id, blog.ETag, channels.Draft{Title: "t", Text: blog.Text + word, UserID: "bob"})
	return err == nil, err
}
