package channels

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"kennel/internal/table"
)

// Storage reads rows in ascending order only. So the newest blogs are searched
// in windows of time that go back from the newest: first only their keys, of
// which a request returns a thousand, then the rows of the page. A window that
// is read to its end determines the width of the next one, which is to hold
// windowRows. A window with more rows than a request returns is narrowed.
//
// A search makes at most maxSearches requests. If it finds nothing until then,
// the page is empty, and its continuation has the next window.
const (
	maxSearches = 6
	windowRows  = table.MaxPage / 2
	firstWindow = 24 * time.Hour
	maxGrowth   = 16 // from 24 hours to 11 years with three empty windows
	maxShrink   = 64
)

// NewestBlogs is Blogs with the newest blogs first: all of them, or those that
// follow the blog after. A page has no blogs that were added while the pages
// before it were read.
func (c *Channels) NewestBlogs(ctx context.Context, channel, after string, top int, continuation string) (List[Blog], error) {
	if err := checkTop(top); err != nil {
		return List[Blog]{}, err
	}
	floor := belowBlogs
	if after != "" {
		if err := checkAfter(after); err != nil {
			return List[Blog]{}, err
		}
		floor = after
	}
	ch, err := c.find(ctx, channel)
	if err != nil {
		return List[Blog]{}, err
	}
	scope := "newest blogs of " + ch.partition()
	next, err := openContinuation(scope, continuation)
	if err != nil {
		return List[Blog]{}, err
	}
	b := backwards{rows: c.blogs, partition: ch.partition(), floor: floor, oldest: ch.createdAt}
	if at, ok := keyTime(floor); ok {
		b.oldest = at
	}
	if err := b.begin(next); err != nil {
		return List[Blog]{}, err
	}
	list, err := b.page(ctx, top)
	if err != nil {
		return List[Blog]{}, fmt.Errorf("list %s: %w", scope, err)
	}
	if b.below != floor {
		list.Continuation = sealContinuation(scope, b.state())
	}
	return list, nil
}

// backwards reads the rows of a partition from the newest to the oldest.
//
// A window begins at from and ends before below. Both are keys of rows, or
// times, which sort directly below the blogs of that time.
type backwards struct {
	rows      *table.Table
	partition string
	floor     string    // the rows up to here are not read
	oldest    time.Time // probably no row is older

	below string // all rows from here on are read; "" at the beginning, floor at the end
	from  string
	full  string // between here and below are too many rows for one window; "" if unknown
}

// begin continues at the end of an earlier page; "" is the beginning.
func (b *backwards) begin(next string) error {
	if next == "" {
		b.from = b.bound(time.Now().Add(-firstWindow))
		return nil
	}
	state := strings.Split(next, "\n")
	if len(state) != 3 || state[1] == "" || table.CheckQuery(table.Query{Above: state[1], Below: state[0], Top: 1}) != nil {
		return &InputError{"continuation", "was not returned by this list"}
	}
	b.below, b.from, b.full = state[0], max(state[1], b.floor), max(state[2], b.floor) // the floor may be another one now
	if b.below != "" {
		b.below = max(b.below, b.floor)
	}
	return nil
}

// state is what begin reads.
func (b *backwards) state() string { return strings.Join([]string{b.below, b.from, b.full}, "\n") }

// page reads up to top rows.
func (b *backwards) page(ctx context.Context, top int) (List[Blog], error) {
	list := List[Blog]{Items: make([]Blog, 0)}
	below := b.below
	keys, err := b.search(ctx, top)
	if err != nil {
		return list, err
	}
	done, err := b.read(ctx, &list, below, keys[:min(top, len(keys))], append(keys, b.below))
	switch {
	case err != nil:
		return list, err
	case len(list.Items) > top: // some were added after the search
		list.Items = list.Items[:top]
		b.below = list.Items[top-1].ID
	case done < len(keys):
		if len(keys)-done >= top {
			b.from, b.full = b.below, "" // the next window is known to hold enough
		}
		if b.below = below; done > 0 {
			b.below = keys[done-1]
		}
	}
	return list, nil
}

// search returns the keys of at least top rows below b.below, the newest first,
// or of fewer at the end or for lack of requests. It moves b.below accordingly.
func (b *backwards) search(ctx context.Context, top int) (keys []string, err error) {
	var found []string // in the window
	after := ""
	for range maxSearches {
		if len(keys) >= top || b.below == b.floor {
			break
		}
		page, err := b.rows.Query(ctx, table.Query{Partition: b.partition, Above: b.from, Below: b.below, KeysOnly: true, Top: table.MaxPage, After: after})
		if err != nil {
			return nil, err
		}
		for _, row := range page.Rows {
			found = append(found, row.Key)
		}
		after = page.Next
		switch {
		case after == "":
			slices.Reverse(found)
			keys = append(keys, found...)
			b.older(len(found))
			found = nil
		case len(found) >= table.MaxPage:
			if err := b.narrow(found); err != nil {
				return nil, err
			}
			found, after = nil, ""
		}
	}
	if len(found) > 0 { // the store's pages were short
		err = b.narrow(found)
	}
	return keys, err
}

// older moves the window back, after all its n rows were read.
func (b *backwards) older(n int) {
	begin, ok := keyTime(b.from)
	width := b.end(begin).Sub(begin)
	b.below = b.from
	if b.from = b.floor; !ok {
		return
	}
	b.from = b.bound(begin.Add(-max(width/time.Duration(max(n, windowRows/maxGrowth))*windowRows, time.Microsecond)))
	if full, ok := keyTime(b.full); ok {
		if n == 0 { // the rows are far from here
			b.from = full.Add(begin.Sub(full) / maxGrowth).Format(blogTime)
		}
		if b.from <= b.full {
			b.from, b.full = b.full, ""
		}
	}
}

// narrow moves the beginning of the window up, because these are only the
// oldest of its rows.
func (b *backwards) narrow(found []string) error {
	valid := slices.DeleteFunc(slices.Clone(found), func(key string) bool { _, ok := keyTime(key); return !ok })
	switch {
	case len(valid) == 0 && len(found) < table.MaxPage:
		return nil
	case len(valid) == 0:
		return fmt.Errorf("%d rows from %.80q on are not blogs: %w", len(found), found[0], ErrCorrupt)
	}
	first, _ := keyTime(valid[0])
	last, _ := keyTime(valid[len(valid)-1])
	end := b.end(last)
	rest := end.Sub(last)
	width := min(max(last.Sub(first)/2, rest/maxShrink), rest/2)
	b.full, b.from = last.Format(blogTime), end.Add(-width).Format(blogTime)
	if b.below != "" && b.from >= b.below {
		b.from, b.full = b.full, ""
	}
	return nil
}

// end returns about when the window ends. It begins at begin.
func (b *backwards) end(begin time.Time) time.Time {
	end, ok := keyTime(b.below)
	if b.below == "" {
		end, ok = time.Now().UTC(), true
	}
	if !ok || !end.After(begin) { // a row that is not a blog, or the clock of another instance is ahead
		end = begin.Add(firstWindow)
	}
	return end
}

// bound returns where a window from this time on begins.
func (b *backwards) bound(begin time.Time) string {
	if !begin.After(b.oldest) {
		return b.floor
	}
	return max(b.floor, begin.UTC().Format(blogTime))
}

// keyTime returns the time of a blog, or of another boundary of a window.
func keyTime(key string) (time.Time, bool) {
	at, err := time.Parse(blogTime, key[:min(len(key), len(blogTime))])
	return at, err == nil
}

// read adds the rows of these keys to the list, until it has enoughBytes. It
// returns how many. All rows from below on are read; ends has the keys and the
// end of the search.
func (b *backwards) read(ctx context.Context, list *List[Blog], below string, keys, ends []string) (done int, err error) {
	size, next := 0, len(keys)
	var rows []table.Row
	q := table.Query{Partition: b.partition, Below: below, Top: table.MaxPage}
	for range maxPages {
		if done == len(keys) || size >= enoughBytes {
			break
		}
		n := min(next, len(keys)-done)
		if q.MaxBytes = maxAnswer; n == 1 {
			q.MaxBytes = 0 // the list could not continue without this row
		}
		q.Above = ends[done+n]
		page, err := b.rows.Query(ctx, q)
		switch {
		case errors.Is(err, table.ErrLarge), err == nil && page.Next != "" && n > 1:
			if next = fewRows; n <= fewRows {
				next = 1
			}
			continue
		case err != nil:
			return done, err
		}
		rows = append(rows, page.Rows...)
		if q.After = page.Next; q.After != "" {
			continue
		}
		slices.Reverse(rows)
		for _, row := range rows {
			if done+n < len(ends)-1 && row.Key < keys[done+n-1] {
				break // added after the search; the next read returns it
			}
			size += list.add(row, readBlog)
		}
		rows = nil
		done += n
		q.Below = keys[done-1]
		next = (enoughBytes-size)/max(size/done, 1) + 1
	}
	return done, nil
}
