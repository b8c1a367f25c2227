package main

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/spf13/pflag"

	"kennel/client"
	"kennel/internal/version"
)

// keyVariable holds the function key that commands send to the app.
const keyVariable = "KENNEL_KEY"

// target holds the flags of all commands that call an app.
type target struct {
	url, key string
	asJSON   bool
}

// addTo adds the flags. usage explains --json.
func (t *target) addTo(flags *pflag.FlagSet, usage string) {
	flags.StringVar(&t.url, "url", defaultURL, "call the app at `URL`, without /api")
	flags.StringVar(&t.key, "key", "", "send the function key `K` (default: KENNEL_KEY, which is safer:\nother users can see command lines)")
	flags.BoolVar(&t.asJSON, "json", false, usage)
}

// An app is an app that a command calls.
type app struct {
	*client.Client
	key    bool                             // it is called with a function key
	lookup string                           // how to find out whether an unclear change was made; "" for none
	say    func(format string, args ...any) // reports repeated requests

	outage error // why a request is repeated without limit; nil: the app responds
	said   string
}

// openApp checks the address of the app. It sends no request.
func (con *console) openApp(t target) (*app, error) {
	// The errors do not repeat the address, because it may contain a key.
	if _, err := client.New(t.url, nil); err != nil {
		return nil, usagef("--url: %v", err)
	}
	a := &app{say: con.say}
	key, keyFrom := t.key, "--key"
	if key == "" {
		key, keyFrom = con.env[keyVariable], keyVariable
	}
	a.key = key != ""
	var err error
	a.Client, err = client.New(t.url, &client.Options{Key: key, UserAgent: "kennel/" + version.Read().Version, Notify: a.notify})
	if err != nil {
		return nil, usagef("%s: %v", keyFrom, err)
	}
	return a, nil
}

// isLocal reports whether host is this machine.
func isLocal(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// notify reports why a request is repeated. It does not repeat a reason.
func (a *app) notify(n client.Notice) {
	if n.Err == nil {
		a.outage, a.said = nil, ""
		a.say("the app responds again")
		return
	}
	why := printable(clause(a.explain(n.Err)))
	if n.Attempt == 0 {
		a.outage = n.Err
		a.say("%s; still waiting", why)
		return
	}
	if why == a.said {
		why = "no change"
	} else {
		a.said = why
	}
	a.say("%s; retrying in %v (%d of %d)", why, n.Wait, n.Attempt, n.Attempts)
}

// clause makes a sentence a part of a longer one.
func clause(sentence string) string { return strings.TrimSuffix(sentence, ".") }

// failed makes an error of a request one for the command line.
func (a *app) failed(err error) error {
	if err == nil {
		return nil
	}
	return explained{a.explain(err), err}
}

// explained is an error with another text.
type explained struct {
	text string
	err  error
}

func (e explained) Error() string { return e.text }
func (e explained) Unwrap() error { return e.err }

// explain returns the text of an error of a request, with what to do about it
// on the command line.
func (a *app) explain(err error) string {
	text := err.Error()
	replace := func(part error, by string) { text = strings.Replace(text, part.Error(), by, 1) }
	if refused, ok := errors.AsType[*client.Error](err); ok {
		replace(refused, a.explainRefusal(refused))
	}
	if lost, ok := errors.AsType[*client.NoAnswerError](err); ok && !lost.Connected {
		replace(lost, explainNotReached(lost))
	}
	if a.lookup != "" && errors.Is(err, client.ErrUnclear) {
		text = clause(text) + "; see `" + a.lookup + "`"
	}
	return text
}

// explainRefusal explains an answer that is not a success. The host in front of
// the app often answers without a message.
func (a *app) explainRefusal(e *client.Error) string {
	switch {
	case e.Code != "" || e.Message != "":
		if e.RequestID != "" && e.Status >= 500 {
			return fmt.Sprintf("%v (request %s)", e, e.RequestID)
		}
	case e.Status == 401 && a.key:
		return fmt.Sprintf("the app at %s rejected this function key (401)", e.Address)
	case e.Status == 401:
		return fmt.Sprintf("the app at %s requires a function key (401); set KENNEL_KEY or use --key", e.Address)
	case e.Location != "":
		return fmt.Sprintf("%s redirects (%d) to %s; use that address with --url", e.Address, e.Status, e.Location)
	case e.Status == 404:
		return fmt.Sprintf("%s does not serve this request (404); %s, without /api", e.Address, checkAddress)
	}
	return e.Error()
}

// explainNotReached explains that there is no app at the address.
func explainNotReached(e *client.NoAnswerError) string {
	if dns, ok := errors.AsType[*net.DNSError](e.Err); ok && dns.IsNotFound {
		return fmt.Sprintf("host %q does not exist; %s", dns.Name, checkAddress)
	}
	why := e.Err
	if op, ok := errors.AsType[*net.OpError](why); ok {
		why = op.Err // the rest is the address again
	}
	u, err := url.Parse(e.Address)
	switch {
	case err != nil || !isLocal(u.Hostname()):
		return fmt.Sprintf("cannot connect to %s: %v; %s and that the app is running", e.Address, why, checkAddress)
	}
	return fmt.Sprintf("cannot connect to %s; start the app with `kennel up`, or check --url", e.Address)
}

const checkAddress = "check that --url is the app's address"

// hasCode reports whether the app returned this error code.
func hasCode(err error, code string) bool {
	refused, ok := errors.AsType[*client.Error](err)
	return ok && refused.Code == code
}
