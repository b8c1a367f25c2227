package azuritetest

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"kennel/devstore"
	"kennel/internal/storetest"
)

func TestMain(m *testing.M) { os.Exit(storetest.Main(m)) }

// A call is a request to both storages. Its texts may contain ‹names› of what a
// storage returned before, such as ETags, which each storage has its own of.
type call struct {
	name    string // of the operation
	service string
	method  string
	path    string // below the account, escaped
	query   string // encoded
	header  map[string]string
	body    string

	// with says what else there is about the call, for rows of differences.
	with string
	// toSign is signed for the parameter sig, instead of a signature in a header.
	toSign string
	// rows are what the operations of a transaction are about.
	rows []string
}

func (c call) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s %s %s", c.name, c.service, c.method, c.path)
	if c.query != "" {
		b.WriteString("?" + c.query)
	}
	if c.toSign != "" {
		fmt.Fprintf(&b, "\n\tsigned: %q", c.toSign)
	}
	for _, name := range slices.Sorted(maps.Keys(c.header)) {
		fmt.Fprintf(&b, "\n\t%s: %s", name, c.header[name])
	}
	if c.body != "" {
		fmt.Fprintf(&b, "\n\t%.3000q", c.body)
	}
	return b.String()
}

// An answer is what a storage said.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// A side is one of the two storages.
type side struct {
	name   string
	roots  map[string]string // address of the account by service, without a slash at its end
	key    []byte
	client *http.Client
}

func newSide(t testing.TB, name, connection string) *side {
	t.Helper()
	s := &side{name: name, roots: make(map[string]string), client: &http.Client{
		// Node.js closes a connection that was idle for five seconds, perhaps just as
		// the next request comes, which nothing may repeat here.
		Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true},
		Timeout:   time.Minute,
	}}
	for part := range strings.SplitSeq(connection, ";") {
		name, value, _ := strings.Cut(part, "=")
		if service, found := strings.CutSuffix(name, "Endpoint"); found {
			s.roots[strings.ToLower(service)] = strings.TrimSuffix(value, "/")
		}
	}
	var err error
	if s.key, err = base64.StdEncoding.DecodeString(devstore.DefaultKey); err != nil {
		t.Fatal(err)
	}
	return s
}

// send signs and sends a call, whose ‹names› resolve replaces.
func (s *side) send(c call, resolve func(string) string) (answer, error) {
	request, err := http.NewRequest(c.method, s.roots[c.service]+resolve(c.path), strings.NewReader(resolve(c.body)))
	if err != nil {
		return answer{}, err
	}
	request.URL.RawQuery = escaping(resolve)(c.query)
	h := request.Header
	for name, value := range c.header {
		h[http.CanonicalHeaderKey(name)] = []string{resolve(value)}
	}
	if h.Get("x-ms-version") == "" {
		h.Set("x-ms-version", "2024-11-04")
	}
	if c.toSign != "" {
		request.URL.RawQuery += "&sig=" + url.QueryEscape(s.sign(resolve(c.toSign)))
	} else {
		h.Set("x-ms-date", time.Now().UTC().Format(http.TimeFormat))
		h.Set("Authorization", "SharedKey "+devstore.DefaultAccount+":"+s.signature(request, c.service))
	}
	got, err := s.client.Do(request)
	if err != nil {
		return answer{}, err
	}
	defer got.Body.Close()
	body, err := io.ReadAll(got.Body)
	return answer{got.StatusCode, got.Header, body}, err
}

func (s *side) signature(r *http.Request, service string) string {
	h := r.Header
	var text string
	if service == "table" {
		resource := "/" + devstore.DefaultAccount + r.URL.EscapedPath()
		if comp := r.URL.Query().Get("comp"); comp != "" {
			resource += "?comp=" + comp
		}
		text = strings.Join([]string{r.Method, h.Get("Content-MD5"), h.Get("Content-Type"), h.Get("x-ms-date"), resource}, "\n")
	} else {
		length := ""
		if r.ContentLength > 0 {
			length = fmt.Sprint(r.ContentLength)
		}
		text = strings.Join([]string{r.Method, h.Get("Content-Encoding"), h.Get("Content-Language"), length, h.Get("Content-MD5"), h.Get("Content-Type"), "",
			h.Get("If-Modified-Since"), h.Get("If-Match"), h.Get("If-None-Match"), h.Get("If-Unmodified-Since"), h.Get("Range")}, "\n") +
			"\n" + microsoftHeaders(h) + "/" + devstore.DefaultAccount + r.URL.EscapedPath() + queryLines(r.URL.Query())
	}
	return s.sign(text)
}

func (s *side) sign(text string) string {
	sum := hmac.New(sha256.New, s.key)
	sum.Write([]byte(text))
	return base64.StdEncoding.EncodeToString(sum.Sum(nil))
}

func microsoftHeaders(h http.Header) string {
	var b bytes.Buffer
	lines := make(map[string]string)
	for name, values := range h {
		if name = strings.ToLower(name); strings.HasPrefix(name, "x-ms-") {
			lines[name] = values[0]
		}
	}
	for _, name := range slices.Sorted(maps.Keys(lines)) {
		b.WriteString(name + ":" + strings.TrimSpace(lines[name]) + "\n")
	}
	return b.String()
}

func queryLines(query url.Values) string {
	var b strings.Builder
	lower := make(url.Values)
	for name, values := range query {
		lower[strings.ToLower(name)] = append(lower[strings.ToLower(name)], values...)
	}
	for _, name := range slices.Sorted(maps.Keys(lower)) {
		slices.Sort(lower[name])
		b.WriteString("\n" + name + ":" + strings.Join(lower[name], ","))
	}
	return b.String()
}
