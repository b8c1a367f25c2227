package instances

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"time"
)

// A Section is a fact that a process may report about itself. It is declared
// where the fact belongs: one package adds it to the report of its process, and
// readers of reports name the sections that they read. Reports, rows and the
// reporter know no section, and a process need not have all of them.
//
// A section is a list of items in a column of its own. The column holds a
// bounded number of items and of bytes; a list that is longer loses its end. So
// the most important items come first. The columns of about 25 long lists fit
// into a row.
type Section[T any] struct {
	name   string                         // of the column
	encode func(T) string                 // returns the column
	decode func(list []byte) (T, error)   // takes the list in the column
	join   func(a, b T) T                 // what two parts of a program report
	shift  func(T, time.Duration) T       // corrects all times
	within func(r *Report, now, before T) // adds what happened within the window; nil: nothing
	source string                         // of a digest: the name of the section with its list
	isLong bool                           // see Items.IsLong
}

// Items are the properties of the items of a section; nil and zero fields mean
// that there is nothing to do.
type Items[Item any] struct {
	Texts   func(*Item) []*string        // which a row shortens, such as the cause of an error
	Numbers func(*Item) []*float64       // of which a row has three decimals
	Shift   func(*Item, time.Duration)   // corrects the times by the error of the clock of the process
	Parse   func([]byte) ([]Item, error) // of the list in a column; default: by encoding/json
	IsLong  bool                         // a [Reader] does not keep it, because all lists together may have tens of MB
}

// List returns a section of items, the most important ones first.
func List[Item any](name string, o *Items[Item]) *Section[[]Item] {
	same := func(items []Item) []Item { return items }
	join := func(a, b []Item) []Item { return slices.Concat(a, b) }
	return newSection(name, o, same, same, join)
}

// One returns a section with a single value.
func One[Item any](name string, o *Items[Item]) *Section[Item] {
	items := func(value Item) []Item { return []Item{value} }
	value := func(items []Item) (value Item) {
		if len(items) > 0 {
			value = items[0]
		}
		return value
	}
	return newSection(name, o, items, value, func(_, b Item) Item { return b })
}

// named is an item of a section that has its items by their names.
type named[Item any] struct {
	Name string `json:"name"`
	Of   Item   `json:"of"`
}

// ByName returns a section of items by their names, such as those of queues.
func ByName[Item any](name string, o *Items[Item]) *Section[map[string]Item] {
	var of Items[named[Item]] // without Parse, which returns no names
	if o != nil && o.Texts != nil {
		of.Texts = func(n *named[Item]) []*string { return o.Texts(&n.Of) }
	}
	if o != nil && o.Numbers != nil {
		of.Numbers = func(n *named[Item]) []*float64 { return o.Numbers(&n.Of) }
	}
	if o != nil && o.Shift != nil {
		of.Shift = func(n *named[Item], d time.Duration) { o.Shift(&n.Of, d) }
	}
	items := func(all map[string]Item) (items []named[Item]) {
		for _, name := range slices.Sorted(maps.Keys(all)) {
			items = append(items, named[Item]{name, all[name]})
		}
		return items
	}
	value := func(items []named[Item]) map[string]Item {
		all := make(map[string]Item, len(items))
		for _, n := range items {
			all[n.Name] = n.Of
		}
		return all
	}
	join := func(a, b map[string]Item) map[string]Item {
		all := maps.Clone(a)
		maps.Copy(all, b)
		return all
	}
	return newSection(name, &of, items, value, join)
}

// newSection returns a section whose column is a list of items.
func newSection[T, Item any](name string, o *Items[Item], items func(T) []Item, value func([]Item) T, join func(a, b T) T) *Section[T] {
	var opt Items[Item]
	if o != nil {
		opt = *o
	}
	return &Section[T]{
		name:   name,
		join:   join,
		isLong: opt.IsLong,
		encode: func(v T) string { return pack(list(opt.short(items(v)))) },
		decode: func(list []byte) (v T, err error) {
			var all []Item
			if opt.Parse != nil {
				all, err = opt.Parse(list)
			} else {
				err = json.Unmarshal(list, &all)
			}
			if err != nil {
				return v, err
			}
			return value(all), nil
		},
		shift: func(v T, d time.Duration) T {
			if opt.Shift == nil {
				return v
			}
			all := slices.Clone(items(v)) // v may be shared
			for i := range all {
				opt.Shift(&all[i], d)
			}
			return value(all)
		},
	}
}

// digest returns a section with what some readers need of another one. No process
// adds it to its report.
func digest[T, D any](name string, of *Section[T], take func(T) D) *Section[D] {
	return &Section[D]{
		name:   name,
		source: of.name,
		decode: func(list []byte) (d D, err error) {
			value, err := of.decode(list)
			if err == nil {
				d = take(value)
			}
			return d, err
		},
		shift: func(d D, _ time.Duration) D { return d },
	}
}

// short returns as many items as a column may have, with short texts and
// numbers.
func (o *Items[Item]) short(all []Item) []Item {
	all = slices.Clone(all[:min(len(all), maxItems)])
	for i := range all {
		if o.Texts != nil {
			for _, text := range o.Texts(&all[i]) {
				*text = shorten(*text)
			}
		}
		if o.Numbers != nil {
			for _, x := range o.Numbers(&all[i]) {
				*x = rounded(*x)
			}
		}
	}
	return all
}

// Within has each report of a process also have what happened within its window.
// The function adds that, from the present value and the one when the window
// began.
func (s *Section[T]) Within(add func(r *Report, now, before T)) *Section[T] {
	s.within = add
	return s
}

// Add adds a fact to the report of this process, beside what other parts of the
// program have added to the same section.
func (s *Section[T]) Add(r *Report, value T) {
	if known, ok := r.facts[s.name].(factOf[T]); ok {
		value = s.join(known.value, value)
	}
	s.set(r, value)
}

// set does not change copies of the report.
func (s *Section[T]) set(r *Report, value T) {
	all := make(map[string]fact, len(r.facts)+1)
	maps.Copy(all, r.facts)
	all[s.name] = factOf[T]{s, value}
	r.facts = all
}

// Of returns the fact in a report. It is the zero value if the process does not
// report it, and if the reader of the report did not name the section.
func (s *Section[T]) Of(r Report) T {
	found, _ := r.facts[s.name].(factOf[T])
	return found.value
}

// column implements [Part].
func (s *Section[T]) column() string { return cmp.Or(s.source, s.name) }

// isKept implements [Part].
func (s *Section[T]) isKept() bool { return !s.isLong }

// parse implements [Part].
func (s *Section[T]) parse(list []byte) (fact, error) {
	value, err := s.decode(list)
	return factOf[T]{s, value}, err
}

// add implements [Part].
func (s *Section[T]) add(r *Report, f fact) { r.facts[s.name] = f }

type factOf[T any] struct {
	*Section[T]
	value T
}

func (f factOf[T]) encoded() string { return f.encode(f.value) }

func (f factOf[T]) shifted(d time.Duration) fact { return factOf[T]{f.Section, f.shift(f.value, d)} }

func (f factOf[T]) isCounted() bool { return f.within != nil }

func (f factOf[T]) addWithin(r *Report, before fact) {
	if f.within != nil {
		earlier, _ := before.(factOf[T])
		f.within(r, f.value, earlier.value)
	}
}
