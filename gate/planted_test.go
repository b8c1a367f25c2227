package gate_test

import (
	"testing"

	"kennel/internal/plant"
)

// plantedBug is a classic bug of gates, put into the real source by
// replacements, and the tests that must then fail. A test that stays green over
// its bug proves nothing.
type plantedBug struct {
	bug, file string
	edits     []string // old, new, old, new, …
	caughtBy  string
}

// inWatching are bugs of those who wait.
var inWatching = []plantedBug{
	{
		"a look that began before listening is relied on", "watch.go",
		[]string{"w.covered = w.up && w.coverer", "w.covered = w.up"},
		"TestEveryOrder",
	},
	{
		"signals are relied on without any look", "watch.go",
		[]string{"w.up, w.covered, w.coverer = up, false, false", "w.up, w.covered, w.coverer = up, up, false"},
		"TestEveryOrder",
	},
	{
		"404 opens the gate", "watch.go",
		[]string{`w.seen, w.stored, w.nonsense = "", State{Gate: w.gate}, nil`, `w.seen, w.stored, w.nonsense = "", State{Gate: w.gate, Released: true, Generation: w.shown + 1}, nil`},
		"TestNoFalseStart",
	},
	{
		"404 leaves a gate as it was", "watch.go",
		[]string{
			"	case errors.Is(err, ErrNotFound):\n		w.seen, w.stored, w.nonsense = \"\", State{Gate: w.gate}, nil\n", "",
			`errors.Is(err, ErrUnchanged) && w.seen != ""`, `errors.Is(err, ErrNotFound) || errors.Is(err, ErrUnchanged) && w.seen != ""`,
		}, "TestDeletedWhileReleased",
	},
	{
		"403 opens the gate", "watch.go",
		[]string{
			"		w.trouble, w.failed = err, w.failed+1\n", "		w.trouble, w.failed = err, w.failed+1\n		if strings.Contains(err.Error(), \"403\") {\n			w.state.Generation++\n		}\n",
			"	\"slices\"\n", "	\"slices\"\n	\"strings\"\n",
		}, "TestNoFalseStart",
	},
	{
		"5xx opens the gate", "watch.go",
		[]string{
			"		w.trouble, w.failed = err, w.failed+1\n", "		w.trouble, w.failed = err, w.failed+1\n		if strings.Contains(err.Error(), \"500\") {\n			w.state.Generation++\n		}\n",
			"	\"slices\"\n", "	\"slices\"\n	\"strings\"\n",
		}, "TestNoFalseStart",
	},
	{
		"a timeout opens the gate", "watch.go",
		[]string{
			"		w.trouble, w.failed = err, w.failed+1\n", "		w.trouble, w.failed = err, w.failed+1\n		if errors.Is(err, context.DeadlineExceeded) {\n			w.state.Generation++\n		}\n",
			"	\"cmp\"\n", "	\"cmp\"\n	\"context\"\n",
		}, "TestNoFalseStart",
	},
	{
		"corrupt text opens the gate", "watch.go",
		[]string{"	if w.nonsense != nil {\n", "	if w.nonsense != nil {\n		w.state.Generation++\n"},
		"TestNoFalseStart",
	},
	{
		"304 to who has seen nothing is taken for a gate that is shut", "watch.go",
		[]string{`errors.Is(err, ErrUnchanged) && w.seen != ""`, "errors.Is(err, ErrUnchanged)"},
		"TestUnchangedSinceNever",
	},
	{
		"an error is taken for a gate that is shut", "watch.go",
		[]string{"w.trouble, w.failed = err, w.failed+1", "w.trouble, w.known = nil, true"},
		"TestNoFalseStart",
	},
	{
		"a closed stream opens the gate", "watch.go",
		[]string{"	w.up, w.covered, w.coverer = up, false, false\n", "	w.up, w.covered, w.coverer = up, false, false\n	if !up {\n		w.state.Generation++\n	}\n"},
		"TestEveryOrder",
	},
	{
		"a spurious wake-up opens the gate", "watch.go",
		[]string{"	w.hearsay, w.doubted = true, true\n", "	w.hearsay, w.doubted = true, true\n	if s.Generation == 0 {\n		w.state.Generation++\n	}\n"},
		"TestNoFalseStart",
	},
	{
		"a signal of no gate counts for all", "watch.go",
		[]string{"ours && s.Gate == w.gate && ", "ours && "},
		"TestNoFalseStart",
	},
	{
		"a signal that is not whole is believed", "watch.go",
		[]string{"&& s.whole() &&", "&&"},
		"TestSignalsThatAreNotWhole",
	},
	{
		"a signal that is not whole is dropped", "watch.go",
		[]string{"	if s.Gate != \"\" && s.Gate != w.gate {\n", "	if s.Gate != \"\" && s.Gate != w.gate || !s.whole() {\n"},
		"TestSignalsThatAreNotWhole",
	},
	{
		"an old signal turns a gate back", "watch.go",
		[]string{"&& told.age() > w.state.age()", ""},
		"TestSignalsThatAreNotWhole",
	},
	{
		"a signal of a gate that was deleted is believed", "watch.go",
		[]string{"ours := s.Life == \"\" || w.life == \"\" || s.Life == w.life", "ours := true"},
		"TestNoFalseStart",
	},
	{
		"a signal of closing is taken for a release", "watch.go",
		[]string{"Released: s.Released, Generation: s.Generation", "Released: true, Generation: s.Generation"},
		"TestSignalsThatAreNotWhole",
	},
	{
		"a signal is never confirmed", "watch.go",
		[]string{"	w.hearsay, w.doubted = true, true\n", ""},
		"TestSignalsThatAreNotWhole",
	},
	{
		"a look that a signal has overtaken undoes it", "watch.go",
		[]string{"} else if !w.doubted {", "} else {"},
		"TestOvertakenLook",
	},
	{
		"a release that was closed in between is missed", "watch.go",
		[]string{"p.after != Now && w.state.Generation", "p.after != Now && w.state.Released && w.state.Generation"},
		"TestWhoPasses",
	},
	{
		"who comes back passes for the same generation again", "watch.go",
		[]string{"w.state.Generation > max(p.after, w.stored.base)", "w.state.Generation >= max(p.after, w.stored.base)"},
		"TestWhoPasses",
	},
	{
		"the generation that was seen does not count", "watch.go",
		[]string{"w.state.Generation > max(p.after, w.stored.base)", "w.state.Released"},
		"TestWhoPasses",
	},
	{
		"who comes passes for what was known before", "watch.go",
		[]string{"	if p.after == Now || p.ahead {\n", "	if p.after == Now && w.state.Released {\n		return true\n	}\n	if p.after == Now || p.ahead {\n"},
		"TestLookBeforeTheWaiter",
	},
	{
		"a look that was under way counts for who has come since", "watch.go",
		[]string{"p.after != Now || !p.fresh:", "p.after != Now:"},
		"TestLookBeforeTheWaiter",
	},
	{
		"nobody looks for who comes during a look", "watch.go",
		[]string{
			"w.begun, w.looking, w.asked = true, true, false", "w.begun, w.looking = true, true",
			"	w.looking = false\n", "	w.looking, w.asked = false, false\n",
		}, "TestLateJoiners",
	},
	{
		"who comes late waits for the next look, whatever is known", "watch.go",
		[]string{"	if w.admits(p) {\n		return true\n	}\n", ""},
		"TestLateJoiners",
	},
	{
		"a gate begun anew is taken for the former one", "watch.go",
		[]string{`anew := w.life != "" && w.life != w.stored.life`, "anew := false"},
		"TestDeletedGate",
	},
	{
		"a gate that was put back has to catch up first", "watch.go",
		[]string{"!w.doubted && w.stored.Generation < w.peak", "false"},
		"TestGatePutBack",
	},
	{
		"a gate that was put back releases once more", "watch.go",
		[]string{"p.after = min(p.after, w.stored.Generation)", "p.after = w.stored.base"},
		"TestGatePutBack",
	},
	{
		"what a forced closing began with is taken for a release", "watch.go",
		[]string{"max(p.after, w.stored.base)", "p.after"},
		"TestForcedCloseOpensNothing",
	},
	{
		"polls are rare although no signals are heard", "watch.go",
		[]string{"	case w.covered:\n", "	case w.begun:\n"},
		"TestSimulations",
	},
	{
		"a signal that is not relied on slows polls down", "watch.go",
		[]string{"		return lookSooner\n", "		return lookSoon\n"},
		"TestPollsAfterOvertakenLooks",
	},
	{
		"polls stay rare when signals are cut off", "watch.go",
		[]string{"w.up, w.covered, w.coverer = up, false, false", "w.up, w.covered, w.coverer = up, w.covered, w.coverer"},
		"TestPollsWhenCutOff",
	},
	{
		"polls stay rare when listening has failed", "run.go",
		[]string{"		news := listener{g}.listens(false)\n", "		news := false\n"},
		"TestPollsWhenCutOff",
	},
	{
		"polls end when signals are heard", "pace.go",
		[]string{"return p.nextTurn(now, p.rarely)", "return time.Hour"},
		"TestSimulations",
	},
	{
		"all instances poll at the same time", "pace.go",
		[]string{"turn:   turn(instance, gate),", ""},
		"TestCrowd",
	},
	{
		"instances poll in intervals from their start", "pace.go",
		[]string{"within := time.Duration(now.UnixNano() % int64(interval))", "within := time.Duration(p.turn * float64(interval))"},
		"TestCrowdThatPolls",
	},
	{
		"who has heard a signal looks at once", "pace.go",
		[]string{"return p.upTo(min(confirmWithin, p.rarely))", "return 0"},
		"TestCrowdThatHearsSignals",
	},
	{
		"polls ask for the whole document each time", "watcher.go",
		[]string{"Load(call, w.gate, seen)", `Load(call, w.gate, seen[:0])`},
		"TestCrowdThatPolls",
	},
	{
		"each signal puts the next look off", "watcher.go",
		[]string{"anew := w.at.IsZero()", "anew := true"},
		"TestSignalsDoNotPutLooksOff",
	},
	{
		"those who come storm a store that fails", "watch.go",
		[]string{"case w.failed > 0:", "case w.failed > 0 && !w.asked:"},
		"TestFailingStoreIsSpared",
	},
	{
		"a stop leaves waiters behind", "run.go",
		[]string{"			w.sendAway(now, p)\n", "			_, _ = now, p\n"},
		"TestEndOfWaiting",
	},
	{
		"who has seen more waits for the next poll", "watch.go",
		[]string{"	p.ahead = p.after > w.state.Generation\n", ""},
		"TestComingFromElsewhere",
	},
	{
		"who has seen more is told of less while no look ends", "watcher.go",
		[]string{" || p.ahead && p.after > w.state.Generation", ""},
		"TestComingFromElsewhere",
	},
	{
		"a look that was under way counts for who comes", "watch.go",
		[]string{"p.ahead = p.ahead && !p.fresh", "p.ahead = false"},
		"TestLookUnderWay",
	},
	{
		"gates at which nobody waits are in the way of others", "wait.go",
		[]string{" && !g.forgetOne() {", " && (true || !g.forgetOne()) {"},
		"TestTooManyGates",
	},
	{
		"a gate at which somebody waits makes room for others", "wait.go",
		[]string{"len(w.waiting) == 0 && (idle == nil", "(idle == nil"},
		"TestTooManyGates",
	},
	{
		"a forgotten watcher goes on", "watcher.go",
		[]string{"return w.gates.watchers[w.gate] != w", "return false"},
		"TestTooManyGates",
	},
	{
		"who is sent away hears of what came afterwards", "wait.go",
		[]string{"waited, err = *p.waited, p.err\n", "g.mu.Lock()\n		waited, err = *p.waited, p.err\n		waited.State = w.state\n		g.mu.Unlock()\n"},
		"TestSentAwayDuringRelease",
	},
	{
		"who comes after the stop waits for nobody", "wait.go",
		[]string{"	if g.stopped {\n		return nil, ErrStopped\n	}\n", ""},
		"TestEndOfWaiting",
	},
	{
		"the watcher stays when nobody waits", "watcher.go",
		[]string{"len(w.waiting) == 0 && now.Sub(w.used)", "false && now.Sub(w.used)", "	if len(w.waiting) == 0 {\n", "	if false {\n"},
		"TestOneWatcher",
	},
	{
		"only the wait that ends first ends", "watcher.go",
		[]string{"			w.bound(now, p)\n", ""},
		"TestWaitsEnd",
	},
	{
		"a short wait ends with a longer one that began before", "watcher.go",
		[]string{"	if w.ends.IsZero() || p.until.Before(w.ends) {\n", "	if w.ends.IsZero() {\n"},
		"TestWaitsEnd",
	},
	{
		"all waits end with the one that has begun last", "watcher.go",
		[]string{"	if w.ends.IsZero() || p.until.Before(w.ends) {\n", "	{\n"},
		"TestWaitsEnd",
	},
}

// inChanging are bugs of those who release and close.
var inChanging = []plantedBug{
	{
		"a life of two lines is told", "signal.go",
		[]string{" && !strings.ContainsFunc(s.Life, unicode.IsControl)", "", "	\"strings\"\n", "", "	\"unicode\"\n", ""},
		"TestSignalOfLifeByHand",
	},
	{
		"a forged signal uses up all generations", "admin.go",
		[]string{"min(w.state.Generation, w.stored.Generation+plausible)", "w.state.Generation"},
		"TestForceAfterForgedSignal",
	},
	{
		"the write is conditional on a version fetched at write time", "admin.go",
		[]string{
			"f, said = g.replace(ctx, c.gate, old, next)", "live, _ := g.load(ctx, c.gate)\nold.Version = live.Version\nf, said = g.replace(ctx, c.gate, old, next)",
		}, "TestAdministratorsRace",
	},
	{
		"the signal is sent before the store has confirmed", "admin.go",
		[]string{
			"			f, said = g.replace(", "			if s, ok := c.signal(changed); ok {\n				g.signal(ctx, s)\n			}\n			f, said = g.replace(",
		}, "TestSignalsComeAfterTheStore",
	},
	{
		"the signal is sent although the change is unclear", "admin.go",
		[]string{
			"			if c.pending != nil {\n", "			if c.pending != nil {\n				c.state.life = c.op\n				s, _ := c.signal(changed)\n				g.signal(ctx, s)\n",
		}, "TestSignalsComeAfterTheStore",
	},
	{
		"the signal is not sent when the caller has gone away", "admin.go",
		[]string{"context.WithTimeout(context.WithoutCancel(ctx), g.opt.CallTimeout)", "context.WithTimeout(ctx, g.opt.CallTimeout)"},
		"TestSignalAfterTheCallerHasGone",
	},
	{
		"the own process waits for the signal's way round", "admin.go",
		[]string{"	listener{g}.Heard(s)\n", ""},
		"TestOwnWaitersPassAtOnce",
	},
	{
		"a second release does not signal again", "change.go",
		[]string{"	case c.to == released:\n		// Whoever", "	case false:\n		// Whoever"},
		"TestReleaseAgainSignalsAgain",
	},
	{
		"after an unclear answer the change begins again", "change.go",
		[]string{"	default:\n		c.known = false\n		return unclear\n", "	default:\n		c.known, c.pending = false, nil\n		return unclear\n"},
		"TestEveryOrder",
	},
	{
		"the own operation is not looked for", "change.go",
		[]string{"return t.Operation == c.op }); i >= 0", "return t.Operation == c.op }); i >= 0 && false"},
		"TestReleaseThroughLostReplies",
	},
	{
		"a lost reply is taken for a lost race", "change.go",
		[]string{"		c.known = false\n		return lostRace\n", "		c.known, c.pending = false, nil\n		return lostRace\n"},
		"TestEveryOrder",
	},
	{
		"an error is taken for a change that was made", "change.go",
		[]string{"	default:\n		c.known = false\n		return unclear\n", "	default:\n		c.state.Released = c.to == released\n		return changed\n"},
		"TestReleaseThroughLostReplies",
	},
	{
		"a history that no longer tells is taken for a no", "change.go",
		[]string{"		case c.forgotten():\n", "		case false:\n"},
		"TestForgottenOperation",
	},
	{
		"releasing what is released makes a generation", "change.go",
		[]string{"if c.corrupt == nil && c.state.Released == (c.to == released) {", "if c.corrupt == nil && c.to == closed && !c.state.Released {"},
		"TestReleaseAndClose",
	},
	{
		"corrupt text is replaced without force", "change.go",
		[]string{"		c.state, c.corrupt = parse(c.gate, f.Text)\n	}\n", "		c.state, c.corrupt = parse(c.gate, f.Text)\n		c.corrupt = nil\n	}\n"},
		"TestNothingIsRepairedSilently",
	},
	{
		"corrupt text is taken for a gate that is shut", "admin.go",
		[]string{"			if err != nil {\n				return State{}, fmt.Errorf(\"read gate %q: %w\", gate, err)\n			}\n", "			if err != nil {\n				return State{Gate: gate}, nil\n			}\n"},
		"TestNothingIsRepairedSilently",
	},
	{
		"force loses the history", "document.go",
		[]string{"			s.History = append(s.History, Transition(t))\n		}\n	}\n	for _, match", "			_ = t\n		}\n	}\n	for _, match"},
		"TestForce",
	},
	{
		"force begins to count again", "change.go",
		[]string{
			"		from, replaced = salvage(c.gate, c.held.Text), quote(c.held.Text)\n", "		from, replaced = salvage(c.gate, c.held.Text), quote(c.held.Text)\n		from.Generation = 0\n",
		}, "TestForce",
	},
	{
		"force replaces what a newer program has written", "change.go",
		[]string{"case newer(c.held.Text):", "case false:"},
		"TestForceSparesNewerFormats",
	},
	{
		"generations count beyond the last", "change.go",
		[]string{"	if generation > MaxGeneration {\n", "	if false {\n"},
		"TestLastGeneration",
	},
	{
		"members that are unknown or misspelt are passed over", "document.go",
		[]string{"!bytes.Equal(stored.Bytes(), d.compact())", "false"},
		"TestNonsense",
	},
	{
		"a released gate may have begun with its release", "document.go",
		[]string{" || d.Released && d.Base == d.Generation", ""},
		"TestNonsense",
	},
	{
		"a document may contradict its history", "document.go",
		[]string{"	if d.Generation != last.Generation || d.Released != (last.Change == released) {\n", "	if false {\n"},
		"TestNonsense",
	},
	{
		"the history grows for ever", "document.go",
		[]string{"	d.History = d.History[max(0, len(d.History)-maxHistory):]\n", ""},
		"TestLongestDocument",
	},
}

func TestPlantedBugs(t *testing.T) {
	for _, p := range append(inWatching, inChanging...) {
		t.Run(p.bug, func(t *testing.T) { plant.Bug(t, p.file, p.edits, p.caughtBy, "-simulations=1000") })
	}
}
