package channels_test

import (
	"context"
	"slices"
	"strconv"
	"time"

	"kennel/channels"
	"kennel/internal/memory"
	"kennel/internal/table"
)

// check checks that every row belongs to an existing channel.
func (s *simulation) check() {
	random := s.Chance("check", 0)
	p := s.world.start(nil, nil)
	live := make(map[string]bool)
	for _, ch := range pages(s.T, func(continuation string) (channels.List[channels.Channel], error) {
		return p.List(p.Context(), 1000, continuation)
	}) {
		live[ch.Name+"@"+ch.Incarnation] = true
		p.open(s.T, ch.Name)
		oldest := pages(s.T, func(continuation string) (channels.List[channels.Blog], error) {
			return p.Blogs(p.Context(), ch.Name, 1+random.Below(20), continuation)
		})
		newest := pages(s.T, func(continuation string) (channels.List[channels.Blog], error) {
			return p.NewestBlogs(p.Context(), ch.Name, "", 1+random.Below(20), continuation)
		})
		if slices.Reverse(newest); !slices.Equal(oldest, newest) {
			s.Errorf("%s: %d blogs from the oldest, %d from the newest", ch.Name, len(oldest), len(newest))
		}
	}
	blogs := s.rows(s.world.blogs)
	for _, row := range blogs {
		if !live[row.Partition] {
			s.Errorf("row %s of %s has no channel", row.Key, row.Partition)
		}
	}
	for _, row := range s.rows(s.world.channels) {
		switch state := row.Values["state"]; {
		case row.Key == "name" && !live[row.Partition+"@"+row.Values["incarnation"]]:
			s.Errorf("the name %s has no channel", row.Partition)
		case state == "live" && !live[row.Partition+"@"+row.Key]:
			s.Errorf("incarnation %s of %s has no name", row.Key, row.Partition)
		case state == "creating", state == "abandoned", state == "deleting":
			s.Errorf("incarnation %s of %s is still %s at the end", row.Key, row.Partition, state)
		}
	}
	s.checkBlogs(live, blogs)
}

// checkBlogs checks the results that calls returned. A posted blog exists if
// its incarnation does, and is otherwise in the count of the deletion. A
// removed blog does not exist.
func (s *simulation) checkBlogs(live map[string]bool, rows []table.Row) {
	there := make(map[string]table.Row)
	for _, row := range rows {
		there[row.Key] = row
	}
	kept := make(map[string]int) // blogs of a partition that only its deletion may have removed
	for id, blog := range s.blogs {
		partition := s.sent[id]
		row, ok := there[id]
		posted := blog.ID != ""
		if posted && !blog.removing {
			kept[partition]++
		}
		switch {
		case ok && row.Partition != partition:
			s.Errorf("blog %s of %s is in %s", id, partition, row.Partition)
		case blog.removed && ok:
			s.Errorf("blog %s was removed but exists", id)
		case live[partition] && posted && !blog.removing && !ok:
			s.Errorf("blog %s was posted into %s but does not exist", id, partition)
		case ok && posted && !blog.updated && (row.Values["text0"] != blog.Text || row.Version != blog.ETag):
			s.Errorf("blog %s is %+v, posted was %+v", id, row, blog)
		}
	}
	s.checkKeys(there)
	counted, inserts := make(map[string]string), make(map[string]int)
	for _, partition := range s.sent {
		inserts[partition]++
	}
	for _, row := range s.rows(s.world.channels) {
		if row.Values["state"] == "done" {
			counted[row.Partition+"@"+row.Key] = row.Values["counted"]
		}
	}
	for partition, n := range kept {
		got, err := strconv.Atoi(counted[partition])
		if limit := inserts[partition]; !live[partition] && (err != nil || got < n || got > limit) {
			s.Errorf("the deletion of %s counts %d blogs, %v, want %d to %d", partition, got, err, n, limit)
		}
	}
}

// checkKeys checks that two blogs of an incarnation with the same key are a day
// apart. It checks all blogs that exist or that a client has seen.
func (s *simulation) checkKeys(there map[string]table.Row) {
	byKey := make(map[string][]string)
	for id, key := range s.keys {
		if _, ok := there[id]; ok || s.blogs[id] != nil {
			byKey[s.sent[id]+key] = append(byKey[s.sent[id]+key], id)
		}
	}
	for key, ids := range byKey {
		slices.Sort(ids)
		for i := 1; i < len(ids); i++ {
			const at = "20060102T150405.000000000Z"
			before, err1 := time.Parse(at, ids[i-1][:len(at)])
			after, err2 := time.Parse(at, ids[i][:len(at)])
			if apart := after.Sub(before); err1 != nil || err2 != nil || apart < 24*time.Hour {
				s.Errorf("blogs %s and %s have the same key %s, want them a day apart", ids[i-1], ids[i], key)
			}
		}
	}
}

func (s *simulation) rows(store *memory.Table) (rows []table.Row) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	return pages(s.T, func(after string) (channels.List[table.Row], error) {
		page, err := store.Query(ctx, table.Query{Top: 1000, After: after})
		return channels.List[table.Row]{Items: page.Rows, Continuation: page.Next}, err
	})
}
