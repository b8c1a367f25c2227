package processors

import (
	"net/netip"
	"net/url"
	"strings"
	"testing"
)

func TestAllowList(t *testing.T) {
	for _, entry := range []string{
		"", "example.com", "ftp://example.com", "https://", "https:example.com", "https://user@example.com/", "https://:secret@example.com",
		"https://example.com/?a", "https://example.com/?", "https://example.com/#", "https://example.com/a%20b", "https://example.com/a/../b",
		"https://example.com:99999", "https://example.com:0443", "https://example.com:", "https://exa mple.com", "https://exämple.com",
		`https://example.com\a`, "https://[fe80::1%25eth0]/", "private+", "private+private+https://example.com",
		"http://169.254.169.254", "private+http://169.254.169.254", "http://[::ffff:169.254.169.254]", "http://168.63.129.16",
		"http://0.0.0.0", "http://[::]", "http://224.0.0.1", "http://[ff02::1]", "http://[fe80::1]", "http://[64:ff9b::a00:1]",
	} {
		if _, err := NewWebhook([]string{"https://example.com", entry}, nil); err == nil || !strings.HasPrefix(err.Error(), "entry 2 of ") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v, want an error", entry, err)
		}
	}
	w, err := NewWebhook([]string{
		"https://example.com/hooks", " HTTPS://Example.com:8443/ ", "http://10.0.0.5:8080/a/b/", "http://[::1]", "private+https://inner.example.com",
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{ // what its error contains
		"https://example.com/hooks":                  "",
		"https://example.com/hooks/":                 "",
		"https://example.com/hooks?a=/../b":          "",
		"https://example.com/hooks/a%20b;c/.d/e..":   "",
		"https://example.com/hooks/100%25":           "",
		"https://example.com/hooks/%C3%A4/%e2%82%ac": "",
		"https://EXAMPLE.com:443/hooks/a":            "",
		"https://example.com:8443":                   "",
		"https://example.com:8443/any":               "",
		"http://10.0.0.5:8080/a/b":                   "",
		"http://[::ffff:10.0.0.5]:8080/a/b":          "",
		"http://[0:0:0:0:0:0:0:1]/":                  "",
		"https://inner.example.com/":                 "",

		"https://example.com":                                      "in its setting KENNEL_WEBHOOK_ALLOW",
		"https://example.com/hooksandmore":                         "not under",
		"https://example.com/Hooks":                                "not under",
		"https://example.com/h%6Foks":                              "not under",
		"http://example.com/hooks":                                 "not under",
		"https://example.com:8444/":                                "not under",
		"https://example.com./hooks":                               "not under",
		"https://example.com.evil.com/hooks":                       "not under",
		"https://evil.com/https://example.com/hooks":               "not under",
		"http://10.0.0.5/a/b":                                      "not under",
		"http://169.254.169.254/metadata":                          "not under",
		"https://example.com@evil.com/hooks":                       "user name",
		"https://example.com:443@evil.com/hooks":                   "user name",
		"https://example.com/hooks/../x":                           "with . or ..",
		"https://example.com/hooks/./x":                            "with . or ..",
		"https://example.com/hooks/..;a/x":                         "with . or ..",
		"https://example.com/hooks/%2e%2e/x":                       "with . or ..",
		"https://example.com/hooks/.%2E/x":                         "with . or ..",
		"https://example.com/hooks/%252e%252e/x":                   "with . or ..",
		"https://example.com/hooks/%25252e./x":                     "with . or ..",
		"https://example.com/hooks/%252e%252e/100%25":              "with . or ..",
		"https://example.com/hooks/%252e%252e/%25zz/x":             "two hexadecimal digits",
		"https://example.com/hooks/%25u002e./x":                    "two hexadecimal digits",
		"https://example.com/hooks/100%25/x":                       "two hexadecimal digits",
		"https://example.com/hooks/.%00./x":                        "control character",
		"https://example.com/hooks/.%2509./x":                      "control character",
		"https://example.com/hooks/.%7f./x":                        "control character",
		"https://example.com/hooks/%c0%ae%c0%ae/x":                 "not UTF-8",
		"https://example.com/hooks/%25c0%25ae/x":                   "not UTF-8",
		"https://example.com/hooks/..%2fx":                         "encoded slash",
		"https://example.com/hooks/a%2Fb":                          "encoded slash",
		"https://example.com/hooks/a%252fb":                        "encoded slash",
		"https://example.com/hooks/..%5cx":                         "backslash",
		"https://example.com/hooks/..%255cx":                       "backslash",
		`https://example.com\@evil.com/hooks`:                      "backslash",
		"https://example.com/hooks#a":                              "fragment",
		"https://example.com/hooks#":                               "fragment",
		"https://example.com/ho oks":                               "a space",
		"https://example.com/hooks\n":                              "a space",
		"https://ｅxample.com/hooks":                                "beyond ASCII",
		"https://example.com:/hooks":                               "host or port",
		"https://example.com:0/hooks":                              "host or port",
		"https://exam%70le.com/hooks":                              "not an absolute URL",
		"https://[fe80::1%25eth0]/hooks":                           "host or port",
		"/hooks":                                                   "not an absolute URL",
		"//example.com/hooks":                                      "not an absolute URL",
		"file:///hooks":                                            "not an absolute URL",
		"":                                                         "not an absolute URL",
		"https://example.com/hooks/%zz":                            "not an absolute URL",
		"https://example.com/hooks/" + strings.Repeat("a", maxURL): "longer than 2048 bytes",
	} {
		err := w.Validate(hook(text).Data)
		if want == "" && err != nil || want != "" && (err == nil || !strings.HasPrefix(err.Error(), "url ") || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	none, err := NewWebhook(nil, nil)
	if err != nil || none.Validate(hook("https://example.com/").Data) == nil {
		t.Errorf("an empty list allows something: %v", err)
	}
}

func TestWebhookItems(t *testing.T) {
	w, err := NewWebhook([]string{"https://example.com"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for item, want := range map[string]string{
		`{"id":"1","url":"https://example.com/","body":null}`:                "",
		`{"id":"1","body":{"a":[{}," ]}\""]},"url":"https:\/\/example.com"}`: "",
		`{"id":"1","url":"https://example.com/"}`:                            "body is missing",
		`{"id":"1","body":1}`:         "url is missing",
		`{"id":"1","url":7,"body":1}`: "url is not a string",
		`{"id":"1","url":"https://example.com/","body":1,"headers":{}}`:        `member "headers" is unknown`,
		`{"id":"1","url":"https://example.com/","url":"http://a.b/","body":1}`: `member "url" is repeated`,
		`{"id":"1","url":"https://example.com/","body":{"a":1]}`:               "not valid JSON",
		"{\"id\":\"1\",\"url\":\"https://example.com/\",\"body\":[\"a\xff\"]}": "not valid Unicode",
	} {
		if err := w.Validate([]byte(item)); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", item, err, want)
		}
	}
}

func TestAddresses(t *testing.T) {
	ten, err := newAllowed("http://10.0.0.5", false)
	if err != nil {
		t.Fatal(err)
	}
	exemptions := map[string]exemption{"plain": {}, "private": {private: true}, "localhost": {loopback: true}, "literal": ten.exemption}
	for text, want := range map[string]string{
		"8.8.8.8": "plain private localhost literal", "2606:4700::1111": "plain private localhost literal", "172.32.0.1": "plain private localhost literal",
		"100.128.0.1": "plain private localhost literal",
		"10.0.0.5":    "private literal", "10.0.0.6": "private", "172.31.255.255": "private", "192.168.1.1": "private", "100.64.0.1": "private", "fd00::1": "private",
		"::ffff:10.0.0.5": "private literal",
		"127.0.0.1":       "localhost", "127.8.9.10": "localhost", "::1": "localhost", "::ffff:127.0.0.1": "localhost",
		"169.254.169.254": "", "::ffff:169.254.169.254": "", "fe80::1": "", "168.63.129.16": "", "0.0.0.0": "", "::": "", "0.1.2.3": "",
		"224.0.0.1": "", "ff02::1": "", "255.255.255.255": "", "240.0.0.1": "", "192.0.2.1": "", "198.18.0.1": "", "203.0.113.9": "",
		"64:ff9b::a00:5": "", "64:ff9b:1::a00:5": "", "2002:a00:5::1": "", "2001::1": "", "2001:db8::1": "", "::10.0.0.5": "", "fec0::1": "", "3fff::1": "",
	} {
		for name, r := range exemptions {
			if got := r.allows(netip.MustParseAddr(text).Unmap()); got != strings.Contains(want, name) {
				t.Errorf("%s with %s: %t", text, name, got)
			}
		}
	}
}

func FuzzAllowedURL(f *testing.F) {
	for _, text := range []string{
		"https://example.com/hooks/a", "https://example.com:443/hooks?x", "https://example.com/hooks/%252e./b", "https://EXAMPLE.com/hooks/..;/b",
		"https://example.com/hooks//../a", `https://example.com/hooks\..`, "https://a@example.com/hooks", "https://[::ffff:1.2.3.4]/hooks",
	} {
		f.Add(text)
	}
	list, err := newAllowList([]string{"https://example.com/hooks"})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, text string) {
		u, err := list.find(text)
		if err != nil {
			return
		}
		// Whatever a receiver does to the path, it stays below the base.
		path := u.EscapedPath()
		for {
			if clean := (&url.URL{Path: "/"}).JoinPath(strings.ReplaceAll(path, `\`, "/")).Path; clean != "/hooks" && !strings.HasPrefix(clean, "/hooks/") {
				t.Fatalf("%q is %q after decoding", text, clean)
			}
			decoded, err := url.PathUnescape(path)
			if err != nil || decoded == path {
				break
			}
			path = decoded
		}
		again, err := url.Parse(u.String())
		if err != nil || !strings.EqualFold(again.Hostname(), "example.com") || again.User != nil || again.Scheme != "https" || again.Port() != "" && again.Port() != "443" {
			t.Fatalf("%q is %+v, %v", text, again, err)
		}
	})
}
