package servicebus

import (
	"testing"

	"kennel/internal/plant"
)

// planted are bugs of whoever relies on these SDKs, each put into
// the real source by replacements, and the tests that must then fail.
var planted = []struct {
	bug, file string
	edits     []string // old, new, old, new, …
	caughtBy  string
}{
	{
		"nobody makes a new subscription", "listen.go",
		[]string{"		e.subscribed = false\n", ""},
		"TestListeningRecovers",
	},
	{
		"a vanished subscription is missed only after a long pause", "listen.go",
		[]string{"case time.Since(began) > steady || errors.Is(err, errGone) && !e.fresh:", "case time.Since(began) > steady && false:"},
		"TestListeningRecovers",
	},
	{
		"silence is taken for peace", "listen.go",
		[]string{"	return e.knock(ctx, r)\n}\n\n// knock", "	return nil\n}\n\n// knock"},
		"TestSubscriptionOutlivesSilence|TestListeningRecovers",
	},
	{
		"nothing received means nothing sent", "listen.go",
		[]string{"		return false, errCut\n", "		return false, nil\n"},
		"TestListeningRecovers",
	},
	{
		"the SDK's patience is trusted", "listen.go",
		[]string{"	defer context.AfterFunc(ctx, func() { watchdog.Reset(closeWithin) })()\n", "", "longest = heartbeat + 2*busTimeout", "longest = time.Hour"},
		"TestStopAmidSilence",
	},
	{
		"a client that is closed is waited for", "client.go",
		[]string{"time.AfterFunc(closeWithin, c.cut)", "time.AfterFunc(time.Hour, c.cut)"},
		"TestStopWithoutTheBus|TestStopAmidSilence",
	},
	{
		"tokens are renewed without a pause", "listen.go",
		[]string{"MaxRetries: 5, RetryDelay: 500 * time.Millisecond", "MaxRetries: 1, RetryDelay: 50 * time.Millisecond"},
		"TestOutageIsNoStorm",
	},
	{
		"a connection to publish by is kept for ever", "signals.go",
		[]string{"	outletLives = time.Minute\n", "	outletLives = 1000 * time.Hour\n"},
		"TestOutageIsNoStorm",
	},
	{
		"a sender that has failed is used again", "signals.go",
		[]string{"	s.dropOutlet(out)\n	return err\n", "	return err\n"},
		"TestPublishingRecovers",
	},
	{
		"what an old connection says of rights is believed", "signals.go",
		[]string{"fresh && errors.Is(err, ErrDenied)", "errors.Is(err, ErrDenied)"},
		"TestStaleRefusals",
	},
	{
		"a listener whose link lost its rights gives up", "listen.go",
		[]string{"if err = busFailed(err); up && errors.Is(err, ErrDenied) {", "if err = busFailed(err); up && false {"},
		"TestStaleRefusals",
	},
	{
		"a far namespace gets as little time as a dead one", "signals.go",
		[]string{"	if !fresh {\n		var", "	{\n		var"},
		"TestFromAfar",
	},
	{
		"poison ends listening", "listen.go",
		[]string{"		if p := recover(); p != nil {\n", "		if p := any(nil); p != nil {\n"},
		"TestStrangeMessages",
	},
	{
		"poison goes unnoticed", "listen.go",
		[]string{"		e.to.Heard(gate.Signal{}) // it was one of ours, perhaps\n", ""},
		"TestStrangeMessages",
	},
	{
		"a deaf receiver is believed", "listen.go",
		[]string{"		return errDeaf\n", "		return nil\n"},
		"TestDeafReceiver",
	},
	{
		"signals of others are heard", "signaltext.go",
		[]string{"	if lines[1] != store {\n", "	if false {\n"},
		"TestOthersSignals",
	},
	{
		"texts of later versions are read like ours", "signaltext.go",
		[]string{" || lines[0] != signalVersion", ""},
		"TestStrangeMessages",
	},
	{
		"the subscription is left behind", "listen.go",
		[]string{"	defer func() { e.unsubscribe(context.WithoutCancel(ctx)) }()\n", "	defer func() { e.unsubscribe(ctx) }()\n"},
		"TestSignalsReachEverybody",
	},
	{
		"it says that it hears before it does", "listen.go",
		[]string{"	up := err == nil\n", "	up := true\n"},
		"TestListeningIsDenied|TestOutageIsNoStorm",
	},
	{
		"nobody is told that nothing is heard", "listen.go",
		[]string{"		e.to.Down(why)\n", ""},
		"TestListeningRecovers",
	},
	{
		"what went wrong within storage counts as not done", "errors.go",
		[]string{"e.Status >= 400 && e.Status < 500 &&", "e.Status >= 400 &&"},
		"TestRefused",
	},
	{
		"haste counts as a refusal", "errors.go",
		[]string{" && e.Status != http.StatusTooManyRequests\n}\n\n// answered", "\n}\n\n// answered"},
		"TestRefused",
	},
	{
		"keys of an emulator's address go out in the open", "namespace.go",
		[]string{"emulated = strings.EqualFold(value, \"true\")", "emulated = value != \"\""},
		"TestTidy",
	},
}

func TestPlantedBugs(t *testing.T) {
	for _, p := range planted {
		t.Run(p.bug, func(t *testing.T) { plant.Bug(t, p.file, p.edits, p.caughtBy) })
	}
}
