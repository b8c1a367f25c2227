package ids_test

import (
	"testing"

	"kennel/internal/plant"
)

// planted are the classic bugs of such generators, each put into the real
// source by a replacement, and the test that must then fail. A test that stays
// green over its bug proves nothing.
var planted = []struct {
	bug, file string
	edits     []string // old, new, old, new, …
	caughtBy  string
}{
	{
		"the write is conditional on a version fetched at write time", "fill.go",
		[]string{
			"m, err = g.store.Replace(ctx, g.sequence, req.write.old, req.write.next)",
			"live, _ := g.store.Load(ctx, g.sequence)\nm, err = g.store.Replace(ctx, g.sequence, live, req.write.next)",
		}, "TestParallel|TestSimulations",
	},
	{
		"numbers are issued before the write is known to have succeeded", "claim.go",
		[]string{
			"	default:\n		return unclear, Range{}, nil\n	}\n}\n\n// applied",
			"	default:\n		return c.applied(c.pending.next, c.pending.reserves.Last+1)\n	}\n}\n\n// applied",
		}, "TestClaim",
	},
	{
		"a corrupt text sets the counter to zero", "claim.go",
		[]string{
			"	next, err := parseNext(m.Text)\n	if err != nil {\n",
			"	next, err := parseNext(m.Text)\n	if err != nil {\n		c.known, c.fresh, c.held = true, true, m\n",
		}, "TestStoredTexts",
	},
	{
		"lost races are retried at once, and 25 times only", "fill.go",
		[]string{
			"err = g.pause(ctx, race.next(raceFactor*time.Since(sent)))",
			"if racesLost > 25 {\nerr = errors.New(\"too many tries\")\n}\n_, _ = race, sent",
		}, "TestColdStart",
	},
	{
		"the stored number is taken for the last one issued", "claim.go",
		[]string{
			"reserves: Range{First: c.next, Last: c.next + size - 1}",
			"reserves: Range{First: c.next + 1, Last: c.next + size}",
		}, "TestClaim|TestExhausted|TestStoredTexts",
	},
	{
		"a range reaches one too far", "claim.go",
		[]string{
			"reserves: Range{First: c.next, Last: c.next + size - 1}",
			"reserves: Range{First: c.next, Last: c.next + size}",
		}, "TestClaim",
	},
	{
		"the lock is held over a request", "fill.go",
		[]string{
			"outcome, r, err := g.send(ctx, req)",
			"g.mu.Lock()\noutcome, r, err := g.send(ctx, req)\ng.mu.Unlock()",
		}, "TestNumbersFlow",
	},
	{
		"the constructor does I/O", "ids.go",
		[]string{
			"	return newGenerator(store, sequence, opt), nil",
			"	store.Load(context.Background(), sequence)\n	return newGenerator(store, sequence, opt), nil",
		}, "TestNewMakesNoRequest",
	},
	{
		"an empty buffer is an error while it is being filled", "ids.go",
		[]string{
			"		if err := g.await(ctx); err != nil {\n			return 0, err",
			"		if g.filling {\n			return 0, errors.New(\"both buffers are empty\")\n		}\n		if err := g.await(ctx); err != nil {\n			return 0, err",
		}, "TestSteady|TestParallel",
	},
	{
		"a second filling overtakes the first", "fill.go",
		[]string{"	if g.filling || g.closed {", "	if g.closed {"},
		"TestSimulations|TestParallel",
	},
	{
		"the last range is cut at its end and counted back from there", "claim.go",
		[]string{
			"reserves: Range{First: c.next, Last: c.next + size - 1}",
			"reserves: Range{First: c.next + size - want, Last: c.next + size - 1}",
		}, "TestExhausted",
	},
	{
		"ranges grow without bound", "pace.go",
		[]string{"return min(size*int64(1+racesLost), p.most)", "return size * int64(1+racesLost)"},
		"TestPace",
	},
	{
		"generators are kept by name only", "set.go",
		[]string{
			"	generators sync.Map //", "	generators *sync.Map //", // of all sets
			"var ErrTooMany", "var cache sync.Map\nvar ErrTooMany",
			"return &Set{", "return &Set{generators: &cache, ",
		},
		"TestStoresWithTheSameSequence",
	},
	{
		"a sequence that somebody else created meanwhile is taken for ours", "claim.go",
		[]string{
			"	case errors.Is(err, ErrChanged):\n",
			"	case errors.Is(err, ErrChanged) && c.pending.old.Version == \"\":\n		return c.applied(c.pending.next, c.pending.reserves.Last+1)\n	case errors.Is(err, ErrChanged):\n",
		}, "TestClaim",
	},
	{
		"a byte order mark makes the text unreadable", "mark.go",
		[]string{"strings.TrimPrefix(text, byteOrderMark)", "text"},
		"TestStoredTexts",
	},
	{
		"a lost reply is taken for a lost race", "claim.go",
		[]string{"p != nil && m.Writer == p.next.Writer", "p != nil && false"},
		"TestLostReply",
	},
	{
		"a number moved on under our name is taken for the one we wrote", "claim.go",
		[]string{"return c.applied(m, next)\n	}\n	if next < c.end", "return c.applied(m, p.reserves.Last+1)\n	}\n	if next < c.end"},
		"TestClaim",
	},
	{
		"a closed generator counts on with every call", "ids.go",
		[]string{"g.word.Store(windowShut) // or else calls enough would count it round\n", ""},
		"TestClosed",
	},
	{
		"a raised floor leaves the numbers in hand as they are", "fill.go",
		[]string{"	g.dropBelowFloor()\n	for len(g.leases)", "	for len(g.leases)"},
		"TestRaiseWhileNodesRun",
	},
	{
		"unused numbers are given back though others have reserved since", "close.go",
		[]string{
			"g.store.Replace(ctx, g.sequence, give.old, give.next)",
			"g.store.Replace(ctx, g.sequence, func() Mark { m, _ := g.store.Load(ctx, g.sequence); return m }(), give.next)",
		}, "TestSimulations",
	},
}

func TestPlantedBugs(t *testing.T) {
	for _, p := range planted {
		t.Run(p.bug, func(t *testing.T) { plant.Bug(t, p.file, p.edits, p.caughtBy, "-simulations=1000") })
	}
}
