package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"kennel/client"
	"kennel/internal/version"
)

const (
	urlVariable = "KENNEL_URL" // the address of the app
	keyVariable = "KENNEL_KEY" // the function key that commands send to it
)

// urlFile holds the addresses of each "kennel up" that runs in the folder, one a
// line. Commands call the first, which started last.
var urlFile = filepath.Join(".kennel", "url")

// fromDefault is the source of the address if nothing names one.
const fromDefault = "the default"

// target holds the flags of all commands that call an app.
type target struct {
	url, key string
	asJSON   bool
	flags    *pflag.FlagSet
}

// addTo adds the flags. usage explains --json.
func (t *target) addTo(flags *pflag.FlagSet, usage string) {
	t.flags = flags
	flags.StringVar(&t.url, "url", "", "call the app at `URL`, without /api (default: KENNEL_URL, else\n.kennel/url, else "+defaultURL+")")
	flags.StringVar(&t.key, "key", "", "send the function key `K` (default: KENNEL_KEY, which is safer:\nother users can see command lines)")
	flags.BoolVar(&t.asJSON, "json", false, usage)
}

// An app is an app that a command calls.
type app struct {
	*client.Client
	from   string                           // the source of its address
	key    bool                             // it is called with a function key
	lookup string                           // how to find out whether an unclear change was made; "" for none
	say    func(format string, args ...any) // reports repeated requests
	notice func(client.Notice)              // is called for each of them, by several goroutines at once

	leftOut int  // rows that a list lacks
	partial bool // a list covers only the instance that answers

	outage error  // why a request is repeated without limit; nil: the app responds
	said   string // the reason that was reported last
}

// openApp finds and checks the address of the app. It sends no request.
func (con *console) openApp(t target) (*app, error) {
	address, from, err := con.findAddress(t)
	if err != nil {
		return nil, err
	}
	// The errors do not repeat the address, because it may contain a key.
	if _, err := client.New(address, nil); err != nil {
		return nil, usagef("%s: %v", from, err)
	}
	a := &app{from: from, say: con.say}
	a.notice = a.notify
	key, keyFrom := t.key, "--key"
	if key == "" {
		key, keyFrom = con.env[keyVariable], keyVariable
	}
	a.key = key != ""
	// The default transport keeps two connections to a host and would open one
	// for most lines of "kennel send --lines".
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = parallelLines
	a.Client, err = client.New(address, &client.Options{Key: key, HTTP: &http.Client{Transport: transport}, UserAgent: "kennel/" + version.Read().Version, Notify: func(n client.Notice) { a.notice(n) },
		LeftOut: func(_ string, rows int) { a.leftOut += rows }, Partial: func(string) { a.partial = true }})
	if err != nil { // only the key can be wrong now
		return nil, usagef("%s: %s", keyFrom, strings.Replace(err.Error(), "client.Options.Key, the function key, has", "the function key has", 1))
	}
	return a, nil
}

// findAddress returns the address of the app and its source.
func (con *console) findAddress(t target) (address, from string, err error) {
	if t.flags.Changed("url") {
		address, err = addScheme("--url", t.url)
		return address, "--url", err
	}
	if address = con.env[urlVariable]; address != "" {
		address, err = addScheme(urlVariable, address)
		return address, urlVariable, err
	}
	here, err := os.Getwd()
	if err != nil {
		return "", "", err
	}
	for dir := here; ; dir = filepath.Dir(dir) {
		path := filepath.Join(dir, urlFile)
		text, err := os.ReadFile(path)
		switch {
		case err == nil:
			return checkFile(path, string(text))
		case !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission):
			return "", "", err
		case dir == filepath.Dir(dir):
			return defaultURL, fromDefault, nil
		}
	}
}

// addScheme completes an address on this machine. For other machines a missing
// scheme is an error, because it decides whether the key is encrypted.
func addScheme(from, address string) (string, error) {
	if strings.Contains(address, "://") {
		return address, nil
	}
	u, err := url.Parse("http://" + address)
	switch {
	case err != nil || u.Hostname() == "":
		return address, nil // the client explains the error
	case isLocal(u.Hostname()):
		return u.String(), nil
	case u.User != nil || u.RawQuery != "":
		return "", usagef("%s has no scheme; write https:// before the host", from) // it may contain a key
	}
	return "", usagef("%s has no scheme; write https://%s", from, printable(address))
}

// checkFile checks the address in a file. Only an app on this machine may be
// named there: anything else would send the key to wherever an unpacked archive
// wants it.
func checkFile(path, text string) (address, from string, err error) {
	address, _, _ = strings.Cut(strings.TrimSpace(text), "\n")
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" || !isLocal(u.Hostname()) {
		return "", "", fmt.Errorf("%s is not the address of an app on this machine; delete the file, or use --url or KENNEL_URL", path)
	}
	return address, path, nil
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
	why, reason := printable(clause(a.explain(n.Err))), reasonOf(n.Err)
	if n.Attempt == 0 {
		a.outage = n.Err
		a.say("%s; still waiting", why)
		return
	}
	if reason == a.said {
		why = "no change"
	} else {
		a.said = reason
	}
	a.say("%s; retrying in %v (%d of %d)", why, n.Wait, n.Attempt, n.Attempts)
}

// reasonOf returns the part that errors with the same reason have in common:
// all but the identity of the request.
func reasonOf(err error) string {
	if refused, ok := errors.AsType[*client.Error](err); ok && refused.Code != "" {
		return refused.Code + " " + refused.Message
	}
	return err.Error()
}

// listed reports, after a list, how much of it is missing.
func (a *app) listed() {
	switch {
	case a.leftOut == 1:
		a.say("the list lacks 1 row that the app cannot read; see the app's log")
	case a.leftOut > 1:
		a.say("the list lacks %d rows that the app cannot read; see the app's log", a.leftOut)
	}
	if a.partial {
		a.say("only the instance that answered is known; the values of others are missing")
	}
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

// explain returns the text of an error of a request, with a remedy on the
// command line.
func (a *app) explain(err error) string {
	text := err.Error()
	replace := func(part error, by string) { text = strings.Replace(text, part.Error(), by, 1) }
	if refused, ok := errors.AsType[*client.Error](err); ok {
		replace(refused, a.explainRefusal(refused))
	}
	if lost, ok := errors.AsType[*client.NoAnswerError](err); ok && !lost.Connected {
		replace(lost, a.explainNotReached(lost))
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
	case e.Code == "entity_not_found" && isLocalAddress(e.Address):
		return e.Error() + " `kennel up --entity NAME` starts an app with the queue NAME."
	case e.Code != "" || e.Message != "":
		if e.RequestID != "" && e.Status >= 500 {
			return fmt.Sprintf("%s (request %s)", inFlags.Replace(e.Error()), e.RequestID)
		}
	case e.Status == 401 && a.key:
		return fmt.Sprintf("the app at %s rejected this function key (401)", e.Address)
	case e.Status == 401:
		return fmt.Sprintf("the app at %s requires a function key (401); set KENNEL_KEY or use --key", e.Address)
	case e.Location != "":
		return fmt.Sprintf("%s redirects (%d) to %s; use that address with --url", e.Address, e.Status, e.Location)
	case e.Status == 404:
		return fmt.Sprintf("%s does not serve this request (404); %s, without /api", e.Address, a.checkAddress())
	}
	return inFlags.Replace(e.Error())
}

// inFlags puts the flags of this program in place of the members and headers of
// the API.
var inFlags = strings.NewReplacer(
	`send "force":true`, "use --force",
	`"force":true`, "--force",
	"atLeast must be", "--at-least must be",
	"this Idempotency-Key", "this --idempotency-key",
	"the same Idempotency-Key", "the same --idempotency-key",
	"Idempotency-Key must be", "--idempotency-key must be",
)

// explainNotReached explains that there is no app at the address.
func (a *app) explainNotReached(e *client.NoAnswerError) string {
	if dns, ok := errors.AsType[*net.DNSError](e.Err); ok && dns.IsNotFound {
		return fmt.Sprintf("host %q does not exist; %s", dns.Name, a.checkAddress())
	}
	why := e.Err
	if op, ok := errors.AsType[*net.OpError](why); ok {
		why = op.Err // the rest is the address again
	}
	switch {
	case !isLocalAddress(e.Address):
		return fmt.Sprintf("cannot connect to %s: %v; %s and that the app is running", e.Address, why, a.checkAddress())
	case strings.HasSuffix(a.from, urlFile):
		return fmt.Sprintf("cannot connect to %s, the address in %s: `kennel up` does not run there any longer; start it again, or delete the file", e.Address, a.from)
	}
	return fmt.Sprintf("cannot connect to %s; start the app with `kennel up`, or %s", e.Address, a.checkAddress())
}

// isLocalAddress reports whether an app runs on this machine.
func isLocalAddress(address string) bool {
	u, err := url.Parse(address)
	return err == nil && isLocal(u.Hostname())
}

// checkAddress returns the remedy if the app is not at this address.
func (a *app) checkAddress() string {
	if a.from == fromDefault {
		return "name the app's address with --url"
	}
	return "check that " + a.from + " is the app's address"
}

// hasCode reports whether the app returned this error code.
func hasCode(err error, code string) bool {
	refused, ok := errors.AsType[*client.Error](err)
	return ok && refused.Code == code
}
