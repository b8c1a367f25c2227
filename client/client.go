package client

import (
	"cmp"
	"net/http"
	"net/url"
	"strings"
)

// Options configure a [Client]. Nil and zero fields mean the defaults.
type Options struct {
	// Key is the function key of the app. The default is none, for an app on
	// this machine.
	Key string

	// HTTP sends the requests. The default uses [http.DefaultTransport], which
	// keeps two idle connections to a host: programs that make many calls at
	// once should set a transport that keeps more. Its Timeout and CheckRedirect
	// are not used: each request has its own limit of time, and redirects are
	// not followed.
	HTTP *http.Client

	// UserAgent names the calling program. The default is "kennel-client".
	UserAgent string

	// Notify reports that a request is repeated, so that a person knows why a
	// call takes long. The default reports nothing. It may be called by several
	// goroutines at once.
	Notify func(Notice)

	// LeftOut reports that a page of a list lacks rows that the app cannot
	// read, most often because a newer version wrote them; the app's log names
	// them. list is the address of the list after /api, such as
	// "/channels/news/blogs". The default reports nothing. It may be called by
	// several goroutines at once.
	LeftOut func(list string, rows int)

	// Partial reports that a page of a list covers only the instance that
	// answers, because it cannot know the others: sums over the instances lack
	// their values. list and calls are as for LeftOut.
	Partial func(list string)
}

func (o *Options) withDefaults() (Options, error) {
	var opt Options
	if o != nil {
		opt = *o
	}
	if strings.ContainsFunc(opt.Key, func(r rune) bool { return r < ' ' || r > '~' }) {
		return opt, invalidf("client.Options.Key, the function key, has characters that no key has; check it for line breaks")
	}
	opt.HTTP = new(*cmp.Or(opt.HTTP, &http.Client{}))
	opt.HTTP.Timeout = 0
	opt.HTTP.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	opt.UserAgent = cmp.Or(opt.UserAgent, "kennel-client")
	if opt.Notify == nil {
		opt.Notify = func(Notice) {}
	}
	if opt.LeftOut == nil {
		opt.LeftOut = func(string, int) {}
	}
	if opt.Partial == nil {
		opt.Partial = func(string) {}
	}
	return opt, nil
}

// Client calls one app. It may be used by several goroutines at once.
type Client struct {
	address string // without a slash at the end
	opt     Options
}

// New returns a client for the app at an address without /api, such as
// https://my-app.azurewebsites.net. It sends no request. Its error wraps
// [ErrInvalid] and does not repeat the address, which may contain a key.
func New(address string, options *Options) (*Client, error) {
	u, err := url.Parse(address)
	switch {
	case err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https":
		return nil, invalidf("the address is not a valid URL; use the app's address, for example http://127.0.0.1:7071")
	case u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return nil, invalidf("the address must be only that of the app, for example http://127.0.0.1:7071, without a key")
	}
	opt, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Client{address: strings.TrimRight(u.String(), "/"), opt: opt}, nil
}

// Address returns the address of the app.
func (c *Client) Address() string { return c.address }
