package azure

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"kennel/ids"
	"kennel/internal/azure/requests"
	"kennel/internal/instances"
	"kennel/internal/table"
)

// canned answers each request as answer does.
type canned struct {
	answer func(*http.Request) (*http.Response, error)
}

func (c *canned) RoundTrip(r *http.Request) (*http.Response, error) { return c.answer(r) }

func answerWith(status int, code string, body io.Reader, header ...string) func(*http.Request) (*http.Response, error) {
	return func(r *http.Request) (*http.Response, error) {
		h := http.Header{"X-Ms-Error-Code": {code}, "Date": {"Mon, 02 Jan 2006 15:04:05 GMT"}, "Etag": {`"0x1"`}, "X-Ms-Request-Id": {"4f2a"}}
		for i := 0; i < len(header); i += 2 {
			h.Set(header[i], header[i+1])
		}
		if code == "" {
			h.Del("X-Ms-Error-Code")
		}
		return &http.Response{StatusCode: status, Header: h, Body: io.NopCloser(body), Request: r, ContentLength: -1}, nil
	}
}

func fails(err error) func(*http.Request) (*http.Response, error) {
	return func(*http.Request) (*http.Response, error) { return nil, err }
}

// TestOutcomes checks what each answer to a read of a blob means, after a
// failure and a denial of the same.
func TestOutcomes(t *testing.T) {
	silent := func(r *http.Request) (*http.Response, error) {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	const before = "blobs_failing: Requests to read blobs fail: before. storage_denied: The blob operation \"get\" for numbers is denied: before."
	const denied = "storage_denied: The blob operation \"get\" for numbers is denied: before."
	failing := func(cause string) string {
		return "blobs_failing: Requests to read blobs fail: " + cause + ". " + denied
	}
	for _, tt := range []struct {
		name    string
		answer  func(*http.Request) (*http.Response, error)
		timeout time.Duration // of the caller; 0: none; below 0: it has given up
		want    string
	}{
		{"read", answerWith(200, "", strings.NewReader("1")), 0, ""},
		{"not found", answerWith(404, "BlobNotFound", strings.NewReader("")), 0, ""},
		{"not modified", answerWith(304, "", strings.NewReader("")), 0, ""},
		{"rejected", answerWith(400, "InvalidHeaderValue", strings.NewReader("")), 0, ""},
		{"conflict", answerWith(409, "ContainerBeingDeleted", strings.NewReader("")), 0, ""},
		{"busy", answerWith(503, "ServerBusy", strings.NewReader("")), 0, failing("storage answered 503 ServerBusy")},
		{"broken", answerWith(500, "", strings.NewReader("")), 0, failing("storage answered 500 Internal Server Error")},
		{"throttled", answerWith(429, "", strings.NewReader("")), 0, failing("storage answered 429 Too Many Requests")},
		{"forbidden", answerWith(403, "AuthorizationFailure", strings.NewReader("")), 0,
			`storage_denied: The blob operation "get" for numbers is denied: storage answered 403 AuthorizationFailure.`},
		{"unauthorized", answerWith(401, "NoAuthenticationInformation", strings.NewReader("")), 0,
			`storage_denied: The blob operation "get" for numbers is denied: storage answered 401 NoAuthenticationInformation.`},
		{"refused connection", fails(&net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{Port: 4711}, Err: syscall.ECONNREFUSED}), 0,
			failing("no connection to storage (dial: connection refused)")},
		{"closed connection", fails(io.ErrUnexpectedEOF), 0, failing("connect to storage: unexpected EOF")},
		{"body cut", answerWith(200, "", io.MultiReader(strings.NewReader("1"), &brokenReader{})), 0, failing("broken")},
		{"silent", silent, 0, failing("storage did not answer in time")},
		{"silent, and the caller's time is over", silent, 2 * time.Second, failing("storage did not answer in time")},
		{"the caller's time was nearly over", silent, 500 * time.Millisecond, before},
		{"the caller has given up", silent, -1, before},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				outcomes := &requests.Outcomes{}
				get := requests.Label{Service: requests.Blob, Operation: "get", Job: "numbers"}
				outcomes.Denied(get, false, "before")
				outcomes.Failed(get, false, "before")
				account := Account{ConnectionString: "AccountName=a;AccountKey=c2VjcmV0a2V5;BlobEndpoint=https://b.example/"}
				blobs := opened(t, account.OpenBlobs, &Options{HTTP: &http.Client{Transport: &canned{tt.answer}}, Outcomes: outcomes})
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if tt.timeout > 0 {
					ctx, cancel = context.WithTimeout(ctx, tt.timeout)
					defer cancel()
				} else if tt.timeout < 0 {
					time.AfterFunc(5*time.Second, cancel)
				}
				NewSequences(blobs, "uniqueids").Load(ctx, "orders", "")
				if got := sentences(outcomes.Problems()); got != tt.want {
					t.Errorf("problems %q, want %q", got, tt.want)
				}
			})
		})
	}
}

type brokenReader struct{}

func (*brokenReader) Read([]byte) (int, error) { return 0, errors.New("broken") }

func sentences(problems []instances.Problem) string {
	var all []string
	for _, p := range problems {
		all = append(all, p.Code+": "+p.What)
	}
	return strings.Join(all, " ")
}

// TestOutcomesOfTransactions: the answer to a transaction has its outcome in
// the body.
func TestOutcomesOfTransactions(t *testing.T) {
	outcomes, transport := &requests.Outcomes{}, &canned{}
	account := Account{ConnectionString: "AccountName=a;AccountKey=c2VjcmV0a2V5;TableEndpoint=https://t.example/"}
	store := openTable(t, opened(t, account.OpenTables, &Options{HTTP: &http.Client{Transport: transport}, Outcomes: outcomes, Job: "channels"}), "Blogs")
	const begin, written = "\r\n--c\r\nContent-Type: application/http\r\n\r\n", "HTTP/1.1 204 No Content\r\nETag: W/\"datetime'1'\"\r\n\r\n"
	for _, tt := range []struct{ part, want string }{
		{written + begin + written, ""},
		{"HTTP/1.1 503 Busy\r\nContent-Type: application/json\r\n\r\n{\"odata.error\":{\"code\":\"ServerBusy\",\"message\":{\"value\":\"0:No\"}}}\r\n",
			"tables_failing: Requests to write tables fail: storage answered 503 ServerBusy."},
		{"HTTP/1.1 409 Conflict\r\nContent-Type: application/json\r\n\r\n{\"odata.error\":{\"code\":\"EntityAlreadyExists\",\"message\":{\"value\":\"0:No\"}}}\r\n", ""},
		{"", "tables_failing: Requests to write tables fail: read the answer to a transaction: unexpected EOF."},
	} {
		body := "--b\r\nContent-Type: multipart/mixed; boundary=c\r\n" + begin + tt.part + "\r\n--c--\r\n--b--\r\n"
		transport.answer = answerWith(http.StatusAccepted, "", strings.NewReader(body), "Content-Type", "multipart/mixed; boundary=b")
		store.Submit(t.Context(), table.Write{Verb: table.Insert, Row: table.Row{Partition: "p", Key: "a"}},
			table.Write{Verb: table.Insert, Row: table.Row{Partition: "p", Key: "b"}})
		if got := sentences(outcomes.Problems()); got != tt.want {
			t.Errorf("answer %q: problems %q, want %q", tt.part, got, tt.want)
		}
	}
}

// noToken is a credential without a token.
type noToken struct{}

func (noToken) GetToken(context.Context, policy.TokenRequestOptions) (azcore.AccessToken, error) {
	return azcore.AccessToken{}, errors.New("no managed identity\nis assigned")
}

// TestNotSignedIn: without a token each call is denied.
func TestNotSignedIn(t *testing.T) {
	outcomes := &requests.Outcomes{}
	blobs := opened(t, Account{BlobURL: "https://b.example/"}.OpenBlobs, &Options{Credential: noToken{}, Outcomes: outcomes})
	_, err := NewSequences(blobs, "uniqueids").Replace(t.Context(), "orders", ids.Value{}, ids.Value{Text: "1"})
	const want = "sign in to storage: no managed identity is assigned"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want %q", err, want)
	}
	if got := sentences(outcomes.Problems()); got != `storage_denied: The blob operation "put" for numbers is denied: `+want+"." {
		t.Errorf("problems %q, want the denial", got)
	}
}
