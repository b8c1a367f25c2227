package ids

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

const (
	// maxChain bounds the writers in a history.
	maxChain = 16

	// raiseStep is how far a raise moves the serial. Writes that a restore has
	// undone have serials above the restored one; all of them are below that of
	// the raise that repairs it.
	raiseStep = 1 << 20

	// maxForks bounds the forks in a history.
	maxForks = 4

	// idLen is the length of a writer's name in a history: 60 random bits.
	idLen = 12
)

// history is the part of a mark that shows which writes led to it. Each write
// has a serial, one more than that of the mark it replaces, whether it moves
// the number forward or back. A copy that is restored has the history of the
// copy, so it lacks the writes after it, however far other writers have moved
// the number since.
type history struct {
	chain []entry // the last write of each of the last maxChain writers, the newest first; never modified
	cut   cut
	forks []fork // the newest maxForks forks, the newest first; never modified
}

// entry is the last write of a writer.
type entry struct {
	writer string
	serial int64
}

// fork is a mark that looked like a restored copy, by its serial, and the writer
// that moved it on. A write that the restore has undone has a higher serial, and
// its writer had not seen the fork. There is no such write in a history: those
// before a fork have the serial of the copy at most, and the writers of those
// after it have seen it.
type fork entry

// cut is where a history begins: all numbers that were reserved since are at
// least number. It is the first write of a sequence, a raise, or a number that
// another program stored without a history.
type cut struct{ serial, number int64 }

// place is a write that a node knows was applied: an own one, one that it read,
// or one that another process reported.
type place struct {
	writer string
	serial int64 // 0: none
	from   int64 // the lower one of the numbers before and after the write; 0: unknown
	end    int64 // one past the highest number at stake
	used   int64 // one past the highest number that is never returned; 0: unknown
}

// standing is whether a write is part of a history.
type standing int

const (
	included standing = iota // or nothing that it reserved can be reserved again
	undone                   // the history is one without it: an older copy was restored
	unknown                  // more writers than the history holds have written since
)

// parseHistory returns the history of a mark whose number is next.
func parseHistory(m Mark, next int64) (history, error) {
	h := history{cut: cut{number: next}}
	for _, item := range strings.Fields(m.Forks) {
		serial, writer, ok := strings.Cut(item, ":")
		n, err := strconv.ParseInt(serial, 10, 64)
		if !ok || err != nil || n < 0 || len(h.forks) == maxForks {
			return h, fmt.Errorf("%w: its forks %s are none", ErrCorrupt, quote(m.Forks))
		}
		h.forks = append(h.forks, fork{writer, n})
	}
	if m.History == "" {
		return h, nil
	}
	for i, item := range strings.Fields(m.History) {
		writer, number, ok := strings.Cut(item, ":")
		n, err := strconv.ParseInt(number, 10, 64)
		switch {
		case !ok || err != nil || n < 0 || i > maxChain:
			return h, fmt.Errorf("%w: its history %s is not one", ErrCorrupt, quote(m.History))
		case i > 0:
			h.chain = append(h.chain, entry{writer, n})
			continue
		}
		h.cut.number = n
		if h.cut.serial, err = strconv.ParseInt(writer, 10, 64); err != nil || h.cut.serial < 0 {
			return h, fmt.Errorf("%w: its history %s is not one", ErrCorrupt, quote(m.History))
		}
	}
	return h, nil
}

func (h history) String() string {
	b := fmt.Appendf(nil, "%d:%d", h.cut.serial, h.cut.number)
	for _, e := range h.chain {
		b = fmt.Appendf(b, " %s:%d", e.writer, e.serial)
	}
	return string(b)
}

// describe sets the history of a mark.
func (h history) describe(m *Mark) {
	m.History = h.String()
	forks := make([]string, len(h.forks))
	for i, f := range h.forks {
		forks[i] = fmt.Sprintf("%d:%s", f.serial, f.writer)
	}
	m.Forks = strings.Join(forks, " ")
}

// serial returns the serial of the last write.
func (h history) serial() int64 {
	if len(h.chain) == 0 {
		return h.cut.serial
	}
	return max(h.cut.serial, h.chain[0].serial)
}

// last returns the last write of the chain; end is the number in the mark.
func (h history) last(end int64) place {
	if len(h.chain) == 0 {
		return place{}
	}
	return place{writer: h.chain[0].writer, serial: h.chain[0].serial, from: end, end: end}
}

// of returns the serial of a writer's last write, 0 if the chain has none.
func (h history) of(writer string) int64 {
	for _, e := range h.chain {
		if e.writer == writer {
			return e.serial
		}
	}
	return 0
}

// add returns the history after a write.
func (h history) add(writer string, serial int64) history {
	chain := make([]entry, 1, maxChain)
	chain[0] = entry{writer, serial}
	for _, e := range h.chain {
		if e.writer != writer && len(chain) < maxChain {
			chain = append(chain, e)
		}
	}
	h.chain = chain
	return h
}

// raised returns the history after a raise to a number.
func (h history) raised(number int64) history {
	h.cut = cut{h.serial() + raiseStep, number}
	return h
}

// forked returns the history of a copy that a writer moves on.
func (h history) forked(writer string) history {
	all := append([]fork{{writer, h.serial()}}, h.forks...)
	h.forks = all[:min(len(all), maxForks)]
	return h
}

// undoes reports whether a write is not part of the history because of a fork
// behind it that its writer had not seen.
func (h history) undoes(p place, seen []fork) bool {
	return slices.ContainsFunc(h.forks, func(f fork) bool { return f.serial < p.serial && !slices.Contains(seen, f) })
}

// standing returns whether a write is part of the history.
func (h history) standing(p place) standing {
	serial := h.of(p.writer)
	switch {
	case p.serial == 0, serial >= p.serial, p.end <= h.cut.number:
		return included
	case serial > 0, len(h.chain) < maxChain, p.serial >= h.chain[maxChain-1].serial:
		return undone
	}
	return unknown
}

// contradicted reports whether no history holds the write of the mark, whose
// number is next, and all of these writes. A number that is never returned is
// below each number that was stored later, and no two writes have one serial.
// Whatever writers have returned since they reported, this holds.
func (h history) contradicted(next int64, all []place) bool {
	all = append(slices.Clone(all), place{serial: h.serial(), from: next})
	if len(h.chain) > 0 && h.chain[0].serial == h.serial() {
		all[len(all)-1].writer = h.chain[0].writer
	}
	slices.SortStableFunc(all, func(a, b place) int { return cmp.Compare(a.serial, b.serial) })
	used, before := int64(0), int64(0) // by those with a lower serial, and by all
	for i, p := range all {
		switch {
		case i == 0 || all[i-1].serial < p.serial:
			used = before
		case all[i-1].writer != p.writer:
			return true
		}
		if p.from > 0 && p.from < used {
			return true
		}
		before = max(before, p.used)
	}
	return false
}
