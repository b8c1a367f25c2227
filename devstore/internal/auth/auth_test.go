package auth

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"kennel/devstore/internal/rest"
)

var (
	key = []byte("the key of the account")
	now = time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
)

// sign signs a text as a client does.
func sign(text string) string {
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(text))
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// caller returns one that wants to read a blob.
func caller(t testing.TB, address string) Caller {
	r := httptest.NewRequest("GET", address, nil)
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		t.Fatal(err)
	}
	request := &rest.Request{HTTP: r, Account: "acc", Query: query, Now: now}
	_, request.Path, _ = strings.Cut(strings.TrimPrefix(r.URL.EscapedPath(), "/"), "/")
	return Caller{
		Request: request, Service: Blob, Key: key,
		Operation: rest.Operation{Name: "Get Blob", Container: "box", Level: 'o', Permission: "r"},
		Policy: func(id string) (rest.Policy, bool) {
			return rest.Policy{ID: id, Expiry: "2026-11-28", Permission: "r"}, id == "known"
		},
	}
}

// code returns that of an error, "" for none.
func code(err error) string {
	var failed *rest.Error
	switch {
	case err == nil:
		return ""
	case errors.As(err, &failed):
		return failed.Code
	default:
		return "no *rest.Error"
	}
}

func TestSharedKey(t *testing.T) {
	const address = "http://127.0.0.1/acc/box/a%20b?comp=metadata&Timeout=5"
	text := "GET\n\n\n\n\n\n\n\n\n\n\n\nx-ms-date:Fri, 27 Nov 2026 12:00:00 GMT\nx-ms-meta-a:1\nx-ms-version:2026-06-06\n/acc/acc/box/a%20b\ncomp:metadata\ntimeout:5"
	for _, tt := range []struct {
		name   string
		change func(h http.Header)
		want   string
	}{
		{"as signed", func(http.Header) {}, ""},
		{"lite", func(h http.Header) {
			lite := "GET\n\n\n\nx-ms-date:Fri, 27 Nov 2026 12:00:00 GMT\nx-ms-meta-a:1\nx-ms-version:2026-06-06\n/acc/acc/box/a%20b?comp=metadata"
			h.Set("Authorization", "SharedKeyLite acc:"+sign(lite))
		}, ""},
		{"another header", func(h http.Header) { h.Set("x-ms-meta-a", "2") }, "AuthenticationFailed"},
		{"one header more", func(h http.Header) { h.Set("x-ms-meta-b", "2") }, "AuthenticationFailed"},
		{"another range", func(h http.Header) { h.Set("Range", "bytes=0-1") }, "AuthenticationFailed"},
		{"another account", func(h http.Header) { h.Set("Authorization", "SharedKey other:"+sign(text)) }, "AuthenticationFailed"},
		{"no base64", func(h http.Header) { h.Set("Authorization", "SharedKey acc:%%%") }, "AuthenticationFailed"},
		{"no signature", func(h http.Header) { h.Set("Authorization", "SharedKey acc") }, "AuthenticationFailed"},
		{"another kind", func(h http.Header) { h.Set("Authorization", "Basic YTpi") }, "AuthenticationFailed"},
		{"no date", func(h http.Header) { h.Del("x-ms-date") }, "AuthenticationFailed"},
		{"nothing", func(h http.Header) { h.Del("Authorization") }, "NoAuthenticationInformation"},
	} {
		c := caller(t, address)
		h := c.Request.HTTP.Header
		h.Set("x-ms-date", "Fri, 27 Nov 2026 12:00:00 GMT")
		h.Set("x-ms-version", "2026-06-06")
		h.Set("x-ms-meta-a", "1")
		h.Set("Authorization", "SharedKey acc:"+sign(text))
		tt.change(h)
		if got := code(Authorize(c)); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// A clock may be wrong by a quarter of an hour.
func TestSkew(t *testing.T) {
	for skew, want := range map[time.Duration]string{
		0: "", 15 * time.Minute: "", -15 * time.Minute: "",
		15*time.Minute + time.Second: "AuthenticationFailed", -15*time.Minute - time.Second: "AuthenticationFailed",
	} {
		c := caller(t, "http://127.0.0.1/acc/box/b")
		date := now.Add(skew).Format(http.TimeFormat)
		c.Request.HTTP.Header.Set("x-ms-date", date)
		c.Request.HTTP.Header.Set("Authorization", "SharedKey acc:"+sign("GET\n\n\n\n\n\n\n\n\n\n\n\nx-ms-date:"+date+"\n/acc/acc/box/b"))
		if got := code(Authorize(c)); got != want {
			t.Errorf("a clock that is %s ahead: %q, want %q", skew, got, want)
		}
	}
}

func TestAccountSignature(t *testing.T) {
	for _, tt := range []struct {
		name                     string
		permissions, on, levels  string
		start, end, protocol, ip string
		want                     string
	}{
		{"allowed", "r", "b", "o", "", "2026-11-27T12:00:01Z", "", "", ""},
		{"more than needed", "rwdl", "bqt", "sco", "2026-11-27", "2026-11-27T12:01Z", "https,http", "192.0.2.1", ""},
		{"of several addresses", "r", "b", "o", "", "2026-11-28", "", "192.0.2.0-192.0.2.9", ""},
		{"ended", "r", "b", "o", "", "2026-11-27T12:00:00Z", "", "", "AuthenticationFailed"},
		{"not begun", "r", "b", "o", "2026-11-27T12:00:01Z", "2026-11-28", "", "", "AuthenticationFailed"},
		{"no end", "r", "b", "o", "", "", "", "", "AuthenticationFailed"},
		{"to write", "w", "b", "o", "", "2026-11-28", "", "", "AuthorizationPermissionMismatch"},
		{"for queues", "r", "q", "o", "", "2026-11-28", "", "", "AuthorizationServiceMismatch"},
		{"for containers", "r", "b", "c", "", "2026-11-28", "", "", "AuthorizationResourceTypeMismatch"},
		{"by https alone", "r", "b", "o", "", "2026-11-28", "https", "", "AuthorizationProtocolMismatch"},
		{"from elsewhere", "r", "b", "o", "", "2026-11-28", "", "192.0.2.2", "AuthorizationSourceIPMismatch"},
		{"from nowhere", "r", "b", "o", "", "2026-11-28", "", "x", "AuthorizationSourceIPMismatch"},
	} {
		text := strings.Join([]string{"acc", tt.permissions, tt.on, tt.levels, tt.start, tt.end, tt.ip, tt.protocol, "2026-06-06", "", ""}, "\n")
		q := url.Values{"sp": {tt.permissions}, "ss": {tt.on}, "srt": {tt.levels}, "se": {tt.end}, "sv": {"2026-06-06"}, "sig": {sign(text)}}
		for name, value := range map[string]string{"st": tt.start, "spr": tt.protocol, "sip": tt.ip} {
			if value != "" {
				q.Set(name, value)
			}
		}
		c := caller(t, "http://127.0.0.1/acc/box/b?"+q.Encode())
		if got := code(Authorize(c)); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
		q.Set("sp", tt.permissions+"d")
		if got := code(Authorize(caller(t, "http://127.0.0.1/acc/box/b?"+q.Encode()))); got != "AuthenticationFailed" {
			t.Errorf("%s, with a letter that was not signed: %q", tt.name, got)
		}
	}
}

// Versions from 2020-12-06 on have a line for the encryption scope, and only they.
func TestAccountSignatureOfVersions(t *testing.T) {
	for _, tt := range []struct{ version, end, want string }{
		{"2020-10-02", "", ""},
		{"2020-10-02", "\n", "AuthenticationFailed"},
		{"2020-12-06", "", "AuthenticationFailed"},
		{"2020-12-06", "\n", ""},
	} {
		text := strings.Join([]string{"acc", "r", "b", "o", "", "2026-11-28", "", "", tt.version}, "\n") + "\n" + tt.end
		q := url.Values{"sp": {"r"}, "ss": {"b"}, "srt": {"o"}, "se": {"2026-11-28"}, "sv": {tt.version}, "sig": {sign(text)}}
		if got := code(Authorize(caller(t, "http://127.0.0.1/acc/box/b?"+q.Encode()))); got != tt.want {
			t.Errorf("%s with %q at its end: %q, want %q", tt.version, tt.end, got, tt.want)
		}
	}
}

func TestBlobSignature(t *testing.T) {
	make := func(blob, resource, identity, permission, end string) string {
		name := "/blob/acc/box"
		if resource == "b" {
			name += "/" + blob
		}
		text := strings.Join([]string{permission, "", end, name, identity, "", "", "2026-06-06", resource, "", "", "", "", "", "", "text/plain"}, "\n")
		q := url.Values{"sr": {resource}, "sv": {"2026-06-06"}, "rsct": {"text/plain"}, "sig": {sign(text)}}
		for name, value := range map[string]string{"sp": permission, "se": end, "si": identity} {
			if value != "" {
				q.Set(name, value)
			}
		}
		return q.Encode()
	}
	for _, tt := range []struct{ name, query, want string }{
		{"for the blob", make("a b", "b", "", "r", "2026-11-28"), ""},
		{"for the container", make("", "c", "", "r", "2026-11-28"), ""},
		{"for another blob", make("a", "b", "", "r", "2026-11-28"), "AuthenticationFailed"},
		{"by a policy", make("", "c", "known", "", ""), ""},
		{"by a policy and a permission beside it", make("", "c", "known", "r", ""), "AuthenticationFailed"},
		{"by a policy and an end beside it", make("", "c", "known", "", "2026-11-29"), "AuthenticationFailed"},
		{"by no policy", make("", "c", "unknown", "", ""), "AuthenticationFailed"},
		{"for a folder", make("", "d", "", "r", "2026-11-28"), "NotImplemented"},
	} {
		c := caller(t, "http://127.0.0.1/acc/box/a%20b?"+tt.query)
		if got := code(Authorize(c)); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		} else if got == "" && c.Request.Grant.Override["rsct"] != "text/plain" {
			t.Errorf("%s: the grant is %+v", tt.name, c.Request.Grant)
		}
	}
}

// A signature for a container does not reach the container itself, but for a list.
func TestSignatureOnContainers(t *testing.T) {
	text := strings.Join([]string{"rl", "", "2026-11-28", "/blob/acc/box", "", "", "", "2026-06-06", "c", "", "", "", "", "", "", ""}, "\n")
	query := url.Values{"sr": {"c"}, "sp": {"rl"}, "se": {"2026-11-28"}, "sv": {"2026-06-06"}, "sig": {sign(text)}}.Encode()
	for name, want := range map[string]string{"List Blobs": "", "Get Container Properties": "AuthorizationFailure", "Delete Container": "AuthorizationFailure"} {
		c := caller(t, "http://127.0.0.1/acc/box?"+query)
		c.Operation.Name, c.Operation.Level, c.Operation.ForAccount = name, 'c', want != ""
		if got := code(Authorize(c)); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

func TestTableSignature(t *testing.T) {
	text := strings.Join([]string{"r", "", "2026-11-28", "/table/acc/people", "", "", "", "2019-02-02", "a", "", "b", "9"}, "\n")
	query := url.Values{"tn": {"People"}, "sp": {"r"}, "se": {"2026-11-28"}, "sv": {"2019-02-02"}, "spk": {"a"}, "epk": {"b"}, "erk": {"9"}, "sig": {sign(text)}}
	c := caller(t, "http://127.0.0.1/acc/People()?"+query.Encode())
	c.Service, c.Operation.Container = Table, "people"
	if err := Authorize(c); err != nil {
		t.Fatal(err)
	}
	if g := c.Request.Grant; g.FromPartition != "a" || g.ToPartition != "b" || g.ToRow != "9" {
		t.Errorf("the grant is %+v", g)
	}
	c.Operation.Container = "places"
	if got := code(Authorize(c)); got != "AuthenticationFailed" {
		t.Errorf("for another table: %q", got)
	}
}

func TestBearer(t *testing.T) {
	token := func(claims string) string {
		return "Bearer e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + "."
	}
	for _, tt := range []struct{ header, want string }{
		{token(`{"aud":"https://storage.azure.com"}`), ""},
		{token(`{"aud":"https://storage.azure.com/"}`), ""},
		{token(`{"aud":["x","https://acc.blob.core.windows.net"]}`), ""},
		{token(`{"aud":"https://other.blob.core.windows.net"}`), "InvalidAuthenticationInfo"},
		{token(`{"aud":"https://management.azure.com"}`), "InvalidAuthenticationInfo"},
		{token(`{}`), "InvalidAuthenticationInfo"},
		{token(`[`), "InvalidAuthenticationInfo"},
		{"Bearer x", "InvalidAuthenticationInfo"},
		{"Bearer a.%.c", "InvalidAuthenticationInfo"},
	} {
		c := caller(t, "http://127.0.0.1/acc/box/b")
		c.Request.HTTP.Header.Set("Authorization", tt.header)
		if got := code(Authorize(c)); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.header, got, tt.want)
		}
	}
}

// What is public needs no signature, but a wrong one is wrong.
func TestPublic(t *testing.T) {
	c := caller(t, "http://127.0.0.1/acc/box/b")
	c.Operation.Public = true
	if err := Authorize(c); err != nil {
		t.Error(err)
	}
	c.Request.HTTP.Header.Set("Authorization", "SharedKey acc:"+sign("nothing"))
	if got := code(Authorize(c)); got != "AuthenticationFailed" {
		t.Errorf("with a wrong signature: %q", got)
	}
}

// No error shows the key or the right signature.
func TestErrorsKeepSecrets(t *testing.T) {
	c := caller(t, "http://127.0.0.1/acc/box/b")
	c.Request.HTTP.Header.Set("x-ms-date", now.Format(http.TimeFormat))
	c.Request.HTTP.Header.Set("Authorization", "SharedKey acc:AAAA")
	err := Authorize(c)
	var failed *rest.Error
	if !errors.As(err, &failed) {
		t.Fatal(err)
	}
	text := fmt.Sprint(failed, failed.Details)
	if strings.Contains(text, base64.StdEncoding.EncodeToString(key)) || strings.Contains(text, sign(c.textsToSign(false)[0])) {
		t.Error(text)
	}
}

func FuzzAuthorize(f *testing.F) {
	f.Add("SharedKey acc:AAAA", "sv=2026-06-06&sig=AAAA&sr=b&se=2026-11-28&sp=r", "Fri, 27 Nov 2026 12:00:00 GMT")
	f.Add("Bearer e30.eyJhdWQiOlsieCJdfQ.", "ss=b&srt=o&sig=AAAA", "")
	f.Add("", "ss=b&srt=o&sig=AAAA&sip=1-2", "")
	f.Fuzz(func(t *testing.T, header, query, date string) {
		values, err := url.ParseQuery(query)
		if err != nil {
			return
		}
		for _, service := range []byte{Blob, Queue, Table} {
			c := caller(t, "http://127.0.0.1/acc/box/b")
			c.Service, c.Request.Query = service, values
			c.Request.HTTP.Header.Set("Authorization", header)
			c.Request.HTTP.Header.Set("x-ms-date", date)
			if err := Authorize(c); err != nil && code(err) == "no *rest.Error" {
				t.Error(err)
			}
		}
	})
}
