package devstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"kennel/devstore"
	"kennel/internal/storetest"
)

// options has no retries, so that a test sees each answer.
func options(transport policy.Transporter) azcore.ClientOptions {
	return azcore.ClientOptions{Transport: transport, Retry: policy.RetryOptions{MaxRetries: -1}}
}

// clients are those of the SDKs.
type clients struct {
	blobs  *azblob.Client
	queues *azqueue.ServiceClient
	tables *aztables.ServiceClient
}

func connect(t testing.TB, connection string, transport policy.Transporter) clients {
	t.Helper()
	blobs, err1 := azblob.NewClientFromConnectionString(connection, &azblob.ClientOptions{ClientOptions: options(transport)})
	queues, err2 := azqueue.NewServiceClientFromConnectionString(connection, &azqueue.ClientOptions{ClientOptions: options(transport)})
	tables, err3 := aztables.NewServiceClientFromConnectionString(connection, &aztables.ClientOptions{ClientOptions: options(transport)})
	if err := errors.Join(err1, err2, err3); err != nil {
		t.Fatal(err)
	}
	return clients{blobs, queues, tables}
}

// use makes a container, a queue and a table and puts something into each.
func (c clients) use(ctx context.Context, name string) error {
	if _, err := c.blobs.CreateContainer(ctx, name, nil); err != nil {
		return err
	}
	if _, err := c.blobs.UploadBuffer(ctx, name, "a b/ü", []byte("blob"), nil); err != nil {
		return err
	}
	if _, err := c.queues.CreateQueue(ctx, name, nil); err != nil {
		return err
	}
	if _, err := c.queues.NewQueueClient(name).EnqueueMessage(ctx, "message", nil); err != nil {
		return err
	}
	if _, err := c.tables.CreateTable(ctx, name, nil); err != nil {
		return err
	}
	_, err := c.tables.NewClient(name).AddEntity(ctx, []byte(`{"PartitionKey":"p","RowKey":"r","Text":"row"}`), nil)
	return err
}

// check finds what use put.
func (c clients) check(ctx context.Context, name string) error {
	answer, err := c.blobs.DownloadStream(ctx, name, "a b/ü", nil)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if text, err := io.ReadAll(answer.Body); err != nil || string(text) != "blob" {
		return fmt.Errorf("the blob is %q: %w", text, err)
	}
	peeked, err := c.queues.NewQueueClient(name).PeekMessage(ctx, nil)
	if err != nil {
		return err
	}
	if len(peeked.Messages) != 1 || *peeked.Messages[0].MessageText != "message" {
		return fmt.Errorf("the messages are %v", peeked.Messages)
	}
	row, err := c.tables.NewClient(name).GetEntity(ctx, "p", "r", nil)
	if err != nil {
		return err
	}
	if !strings.Contains(string(row.Value), `"Text":"row"`) {
		return fmt.Errorf("the row is %s", row.Value)
	}
	return nil
}

// Each way to reach a store reaches the same data.
func TestWaysIn(t *testing.T) {
	store := devstore.New(t, nil)
	if err := connect(t, store.InProcess(), store).use(t.Context(), "shared"); err != nil {
		t.Fatal("in this process:", err)
	}
	one, err := store.Listen(0)
	if err != nil {
		t.Fatal(err)
	}
	for name, connection := range map[string]string{
		"in this process":     store.InProcess(),
		"on its port":         store.ConnectionString(),
		"on one port":         one.ConnectionString(),
		"on Azure's own host": strings.ReplaceAll(store.InProcess(), ".localhost", ".core.windows.net"),
	} {
		var transport policy.Transporter
		if !strings.Contains(connection, "127.0.0.1") {
			transport = store
		}
		if err := connect(t, connection, transport).check(t.Context(), "shared"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if first, second := store.ConnectionString(), store.ConnectionString(); first != second {
		t.Errorf("each call opens a port: %s, %s", first, second)
	}
}

// Each service can have a port of its own, as UseDevelopmentStorage=true wants.
func TestPortsOfTheirOwn(t *testing.T) {
	store := devstore.New(t, nil)
	l, err := store.ListenEach(0)
	if err != nil {
		t.Fatal(err)
	}
	if err := connect(t, l.ConnectionString(), nil).use(t.Context(), "shared"); err != nil {
		t.Fatal(err)
	}
	port, err := url.Parse(l.Endpoint("blob", devstore.DefaultAccount))
	if err != nil {
		t.Fatal(err)
	}
	taken, err := strconv.Atoi(port.Port())
	if err != nil {
		t.Fatal(err)
	}
	if again, err := devstore.New(t, nil).ListenEach(taken); err == nil {
		t.Errorf("port %d serves two stores: %s", taken, again.ConnectionString())
	}
}

// A store accepts the keys of its accounts, and no other.
func TestAccounts(t *testing.T) {
	key := devstore.NewKey()
	store := devstore.New(t, &devstore.Options{Accounts: map[string][]string{
		devstore.DefaultAccount: {key, devstore.DefaultKey}, "second": {devstore.NewKey()},
	}})
	connection := store.InProcess()
	if !strings.Contains(connection, key) {
		t.Errorf("the first key is not in %s", connection)
	}
	if err := connect(t, connection, store).use(t.Context(), "shared"); err != nil {
		t.Fatal(err)
	}
	if err := connect(t, strings.ReplaceAll(connection, key, devstore.DefaultKey), store).check(t.Context(), "shared"); err != nil {
		t.Errorf("with the second key: %v", err)
	}
	for name, change := range map[string][2]string{
		"another key":          {key, devstore.NewKey()},
		"the key of another":   {devstore.DefaultAccount, "second"},
		"an account not there": {devstore.DefaultAccount, "third"},
	} {
		err := connect(t, strings.ReplaceAll(connection, change[0], change[1]), store).check(t.Context(), "shared")
		if answer, ok := errors.AsType[*azcore.ResponseError](err); !ok || answer.StatusCode != 403 && answer.StatusCode != 404 && answer.StatusCode != 400 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for _, accounts := range []map[string][]string{
		{"ab": {devstore.DefaultKey}}, {"Upper": {devstore.DefaultKey}}, {"faults": {devstore.DefaultKey}}, {"reset": {devstore.DefaultKey}},
		{"account": nil}, {"account": {"no base64!"}},
	} {
		if _, err := devstore.Open("", &devstore.Options{Accounts: accounts}); err == nil || !strings.Contains(err.Error(), "devstore.Options.Accounts") {
			t.Errorf("%v: %v", accounts, err)
		}
	}
}

// code returns the status and the code of an error of the SDKs.
func code(err error) string {
	answer, ok := errors.AsType[*azcore.ResponseError](err)
	if !ok {
		return fmt.Sprint(err)
	}
	return fmt.Sprintf("%d %s", answer.StatusCode, answer.ErrorCode)
}

func TestFaults(t *testing.T) {
	for _, tt := range []struct {
		kind devstore.Kind
		want string
		done bool
	}{
		{devstore.Refuse, "500 InternalError", false},
		{devstore.Fail, "500 InternalError", true},
		{devstore.Busy, "503 ServerBusy", false},
		{devstore.Cut, "", true},
		{devstore.Late, "<nil>", true},
		{devstore.Slow, "<nil>", true},
	} {
		for _, way := range []string{"in this process", "over a port"} {
			store := devstore.New(t, nil)
			c := connect(t, store.InProcess(), store)
			if way == "over a port" {
				c = connect(t, store.ConnectionString(), nil)
			}
			if err := c.use(t.Context(), "shared"); err != nil {
				t.Fatal(err)
			}
			store.Fail(devstore.Fault{Kind: tt.kind, Service: "table", Container: "shared", Method: "POST", Operation: "Insert Entity", Skip: 1, Times: 1, Delay: time.Millisecond})
			if err := c.check(t.Context(), "shared"); err != nil {
				t.Errorf("%v, %s: another operation: %v", tt.kind, way, err)
			}
			add := func(row string) error {
				_, err := c.tables.NewClient("shared").AddEntity(t.Context(), []byte(`{"PartitionKey":"p","RowKey":"`+row+`"}`), nil)
				return err
			}
			if err := add("skipped"); err != nil {
				t.Errorf("%v, %s: the first one: %v", tt.kind, way, err)
			}
			err := add("hit")
			if tt.want != "" && code(err) != tt.want || tt.want == "" && err == nil {
				t.Errorf("%v, %s: %v, want %s", tt.kind, way, err, tt.want)
			}
			if err := add("after"); err != nil {
				t.Errorf("%v, %s: the one after it: %v", tt.kind, way, err)
			}
			_, err = c.tables.NewClient("shared").GetEntity(t.Context(), "p", "hit", nil)
			if done := err == nil; done != tt.done {
				t.Errorf("%v, %s: done is %t: %v", tt.kind, way, done, err)
			}
		}
	}
}

// What a fault does late is done at that time: a message that is received then is
// invisible from then on.
func TestLateIsItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := devstore.New(t, nil)
		c := connect(t, store.InProcess(), store)
		q := c.queues.NewQueueClient("late")
		if _, err := q.Create(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		if _, err := q.EnqueueMessage(t.Context(), "once", nil); err != nil {
			t.Fatal(err)
		}
		store.Fail(devstore.Fault{Kind: devstore.Late, Operation: "Get Messages", Times: 1, Delay: 3 * time.Second})
		visible := int32(2)
		for i, want := range []int{1, 0} {
			got, err := q.DequeueMessages(t.Context(), &azqueue.DequeueMessagesOptions{VisibilityTimeout: &visible})
			if err != nil || len(got.Messages) != want {
				t.Errorf("call %d: %d messages, %v, want %d", i+1, len(got.Messages), err, want)
			}
		}
	})
}

// TestFaultsInBatches cuts the connection of one of the requests of a batch.
func TestFaultsInBatches(t *testing.T) {
	store := devstore.New(t, nil)
	c := connect(t, store.InProcess(), store)
	if err := c.use(t.Context(), "shared"); err != nil {
		t.Fatal(err)
	}
	box := c.blobs.ServiceClient().NewContainerClient("shared")
	batch, err := box.NewBatchBuilder()
	if err != nil {
		t.Fatal(err)
	}
	if err := batch.Delete("a b/ü", nil); err != nil {
		t.Fatal(err)
	}
	store.Fail(devstore.Fault{Kind: devstore.Cut, Operation: "Delete Blob", Times: 1})
	if _, err := box.SubmitBatch(t.Context(), batch, nil); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("the batch: %v, want a connection that was cut", err)
	}
	if _, err := box.NewBlobClient("a b/ü").GetProperties(t.Context(), nil); code(err) == "<nil>" {
		t.Error("the blob was not deleted")
	}
}

// control sends a request to the control of a store.
func control(t *testing.T, store *devstore.Store, method, path, body string, headers ...string) (int, string) {
	t.Helper()
	_, rest, _ := strings.Cut(store.ConnectionString(), "BlobEndpoint=http://")
	host, _, _ := strings.Cut(rest, "/")
	r, err := http.NewRequestWithContext(t.Context(), method, "http://"+host+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		if r.Header.Set(headers[i], headers[i+1]); headers[i] == "Host" {
			r.Host = headers[i+1]
		}
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, strings.TrimSpace(string(text))
}

func TestControl(t *testing.T) {
	store := devstore.New(t, nil)
	c := connect(t, store.ConnectionString(), nil)
	if err := c.use(t.Context(), "shared"); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		method, path, body string
		status             int
		text               string
	}{
		{"POST", "/faults", `{"kind":"busy","service":"queue","method":"get","times":2,"delay":"5s"}`, 201, `{"id":1}`},
		{"GET", "/faults", "", 200, `[{"id":1,"kind":"busy","service":"queue","method":"GET","times":2,"delay":"5s","happened":0}]`},
		{"DELETE", "/faults/2", "", 404, "There is no such fault. It may have ended."},
		{"DELETE", "/faults/x", "", 400, "The id of a fault is a number."},
		{"DELETE", "/faults/1", "", 204, ""},
		{"POST", "/faults", `{"kind":"cut"}`, 201, `{"id":2}`},
		{"DELETE", "/faults", "", 204, ""},
		{"GET", "/faults", "", 200, "[]"},
		{"POST", "/faults", `{"kind":"burn"}`, 400, `The fault is invalid: unknown kind "burn"; the kinds are busy, cut, fail, late, refuse, slow`},
		{"POST", "/faults", `{"kind":"cut","service":"file"}`, 400, `The fault is invalid: unknown service "file"; the services are blob, queue, table`},
		{"POST", "/faults", `{"kind":"cut","times":-1}`, 400, "The fault is invalid: skip and times are not negative"},
		{"POST", "/faults", `{"kind":"late","delay":"soon"}`, 400, `The fault is invalid: time: invalid duration "soon"`},
		{"POST", "/faults", `{"kind":"cut","entity":"x"}`, 400, `The fault is invalid: json: unknown field "entity"`},
	} {
		if status, text := control(t, store, tt.method, tt.path, tt.body); status != tt.status || text != tt.text {
			t.Errorf("%s %s %s: %d %q, want %d %q", tt.method, tt.path, tt.body, status, text, tt.status, tt.text)
		}
	}
	if status, text := control(t, store, "POST", "/reset", ""); status != 204 {
		t.Errorf("reset: %d %s", status, text)
	}
	if err := c.check(t.Context(), "shared"); err == nil {
		t.Error("the data is there after a reset")
	}
	if err := c.use(t.Context(), "shared"); err != nil {
		t.Errorf("after a reset: %v", err)
	}
}

// Pages of other sites reach neither the data nor the control.
func TestForeignCallers(t *testing.T) {
	store := devstore.New(t, nil)
	for _, headers := range [][]string{
		{"Host", "evil.example"}, {"Host", "devstoreaccount1.blob.core.windows.net"}, {"Host", "localhost.evil.example"},
		{"Origin", "http://evil.example"}, {"Origin", "null"}, {"Sec-Fetch-Site", "cross-site"},
	} {
		for _, path := range []string{"/faults", "/reset", "/devstoreaccount1.blob/x?comp=list"} {
			if status, text := control(t, store, "POST", path, `{"kind":"cut"}`, headers...); status != 403 {
				t.Errorf("%v %s: %d %s", headers, path, status, text)
			}
		}
	}
	if status, text := control(t, store, "GET", "/faults", "", "Host", "devstoreaccount1.blob.localhost"); status != 200 {
		t.Errorf("a host that is this machine: %d %s", status, text)
	}
}

// The secondary location shows what the primary has, and takes nothing.
func TestSecondary(t *testing.T) {
	store := devstore.New(t, nil)
	if err := connect(t, store.InProcess(), store).use(t.Context(), "shared"); err != nil {
		t.Fatal(err)
	}
	for name, connection := range map[string]string{
		"by its host": strings.ReplaceAll(store.InProcess(), "http://"+devstore.DefaultAccount, "http://"+devstore.DefaultAccount+"-secondary"),
		"by its path": strings.ReplaceAll(store.ConnectionString(), "/"+devstore.DefaultAccount, "/"+devstore.DefaultAccount+"-secondary"),
	} {
		var transport policy.Transporter
		if name == "by its host" {
			transport = store
		}
		c := connect(t, connection, transport)
		if err := c.check(t.Context(), "shared"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := c.use(t.Context(), "more"); code(err) != "403 InsufficientAccountPermissions" {
			t.Errorf("%s: a write: %v", name, err)
		}
	}
}

// A batch ends although all is forgotten meanwhile: its requests do not wait for
// what waits for the batch.
func TestBatchesDuringResets(t *testing.T) {
	store := devstore.New(t, nil)
	c := connect(t, store.InProcess(), store)
	done, resets := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(resets)
		for {
			select {
			case <-done:
				return
			default:
			}
			if err := store.Reset(); err != nil {
				t.Error(err)
			}
		}
	}()
	service := c.blobs.ServiceClient()
	for range storetest.Scale(20, 100) {
		batch, err := service.NewBatchBuilder()
		if err != nil {
			t.Fatal(err)
		}
		for i := range 50 {
			if err := batch.Delete("box", fmt.Sprint(i), nil); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := service.SubmitBatch(t.Context(), batch, nil); err != nil {
			t.Fatal(err)
		}
	}
	close(done)
	<-resets
}

func TestSemicolonInTheQuery(t *testing.T) {
	store := devstore.New(t, nil)
	if status, text := control(t, store, "GET", "/devstoreaccount1.table/Tables?$format=application/json;odata=nometadata", ""); status != 401 {
		t.Errorf("%d %s, want 401: it can be read, and is not signed", status, text)
	}
}

func TestBadAddresses(t *testing.T) {
	store := devstore.New(t, nil)
	for path, want := range map[string]int{
		"/":                                 400,
		"/devstoreaccount1":                 400, // of which service?
		"/devstoreaccount1.files/x":         400,
		"/nobody.blob/x":                    404,
		"/devstoreaccount1.blob/x":          401,
		"/devstoreaccount1.blob/x?comp=%zz": 400,
		"/devstoreaccount1.queue/%2e%2e":    401,
	} {
		if status, text := control(t, store, "GET", path, ""); status != want {
			t.Errorf("%s: %d %s, want %d", path, status, text, want)
		}
	}
}

// A newer version than we know is answered, and mentioned once.
func TestNewerVersion(t *testing.T) {
	var log bytes.Buffer
	store := devstore.New(t, &devstore.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	c := connect(t, store.InProcess(), newer{store})
	for i := range 2 {
		if _, err := c.queues.CreateQueue(t.Context(), fmt.Sprintf("queue%d", i), nil); err != nil {
			t.Fatal(err)
		}
	}
	if n := strings.Count(log.String(), "newer version"); n != 1 {
		t.Errorf("%d warnings: %s", n, log.String())
	}
}

// A version that cannot be is refused.
func TestImpossibleVersions(t *testing.T) {
	store := devstore.New(t, nil)
	for _, version := range []string{"banana", "1999-01-01", "2026-13-45", "2026-06-06 "} {
		c := connect(t, store.InProcess(), versioned{store, version})
		var refused *azcore.ResponseError
		if _, err := c.queues.CreateQueue(t.Context(), "queue", nil); !errors.As(err, &refused) || refused.StatusCode != 400 || refused.ErrorCode != "InvalidHeaderValue" {
			t.Errorf("%q: %v", version, err)
		}
	}
}

// versioned sends another version.
type versioned struct {
	store   *devstore.Store
	version string
}

func (v versioned) Do(r *http.Request) (*http.Response, error) {
	r.Header["x-ms-version"] = []string{v.version} // as the SDK writes it
	return v.store.Do(r)
}

// A browser asks without a key whether a page may call, and no page may.
func TestPreflight(t *testing.T) {
	store := devstore.New(t, nil)
	for _, service := range []string{"blob", "queue", "table"} {
		want := "Preflight " + strings.ToUpper(service[:1]) + service[1:] + " Request"
		if status, text := control(t, store, "OPTIONS", "/devstoreaccount1."+service+"/x", ""); status != 501 || !strings.Contains(text, want) {
			t.Errorf("%s: %d %s, want 501 with %q", service, status, text, want)
		}
	}
}

// newer sends a version that nobody has documented yet, signed by the key of
// all: the SDK has signed the older one.
type newer struct{ store *devstore.Store }

func (n newer) Do(r *http.Request) (*http.Response, error) {
	sas := "sv=2026-06-06&ss=q&srt=sco&sp=rwdlacup&se=2099-01-01"
	r.Header.Del("Authorization")
	r.Header["x-ms-version"] = []string{"2099-12-31"} // as the SDK writes it
	r.Header.Del("x-ms-version")
	r.URL.RawQuery = strings.TrimPrefix(r.URL.RawQuery+"&"+sas+"&sig="+accountSignature(sas), "&")
	return n.store.Do(r)
}

// A client in this process sees the length of a blob, which the SDK's download
// in parts needs, and no body where HTTP has none.
func TestAnswersInProcess(t *testing.T) {
	store := devstore.New(t, nil)
	blobs := connect(t, store.InProcess(), store).blobs
	if _, err := blobs.CreateContainer(t.Context(), "parts", nil); err != nil {
		t.Fatal(err)
	}
	want := bytes.Repeat([]byte("kennel"), 1<<20)
	stored, err := blobs.UploadBuffer(t.Context(), "parts", "one", want, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len(want))
	if _, err := blobs.DownloadBuffer(t.Context(), "parts", "one", got, nil); err != nil || !bytes.Equal(got, want) {
		t.Fatalf("downloaded in parts: %v", err)
	}
	unchanged, err := blobs.DownloadStream(t.Context(), "parts", "one", &azblob.DownloadStreamOptions{
		AccessConditions: &blob.AccessConditions{ModifiedAccessConditions: &blob.ModifiedAccessConditions{IfNoneMatch: stored.ETag}},
	})
	if err != nil || unchanged.ErrorCode == nil || *unchanged.ErrorCode != "ConditionNotMet" {
		t.Fatalf("got %v, %v, want 304 ConditionNotMet", unchanged.ErrorCode, err)
	}
	if body, err := io.ReadAll(unchanged.Body); err != nil || len(body) > 0 {
		t.Errorf("304 has a body of %d bytes, %v", len(body), err)
	}
}
