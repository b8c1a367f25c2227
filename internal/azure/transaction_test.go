package azure

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"kennel/internal/table"
)

// openScripted returns a table of a server that sends the same answer to every
// request.
func openScripted(t *testing.T, handler http.HandlerFunc) *Table {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	account := Account{ConnectionString: "TableEndpoint=" + server.URL + "/;SharedAccessSignature=sv=2024-01-01&sig=s3cr3tsignature"}
	tables, err := account.OpenTables(nil)
	if err != nil {
		t.Fatal(err)
	}
	return openTable(t, tables, "blogs")
}

// crlf returns a multipart body with the line ends that it has on the wire.
func crlf(lines ...string) string { return strings.Join(lines, "\r\n") + "\r\n" }

const multipart202 = "multipart/mixed; boundary=batchresponse_b"

func created(etag string) string {
	return crlf("--changesetresponse_c", "Content-Type: application/http", "Content-Transfer-Encoding: binary", "",
		"HTTP/1.1 204 No Content", "DataServiceVersion: 1.0;", "ETag: "+etag, "", "")
}

func refusedPart(status, code, message string) string {
	return crlf("--changesetresponse_c", "Content-Type: application/http", "Content-Transfer-Encoding: binary", "",
		"HTTP/1.1 "+status, "Content-ID: 2", "Content-Type: application/json;odata=minimalmetadata;streaming=true;charset=utf-8", "",
		`{"odata.error":{"code":"`+code+`","message":{"lang":"en-US","value":"`+message+`"}}}`)
}

func changeset(parts ...string) string {
	return crlf("--batchresponse_b", "Content-Type: multipart/mixed; boundary=changesetresponse_c", "") +
		strings.Join(parts, "") + crlf("--changesetresponse_c--", "--batchresponse_b--")
}

var twoRows = []table.Write{
	{Verb: table.Merge, Row: table.Row{Partition: "p", Key: "!fence"}, If: table.AnyVersion},
	{Verb: table.Insert, Row: table.Row{Partition: "p", Key: "a"}},
}

func TestTransactionAnswers(t *testing.T) {
	good := changeset(created(`W/"1"`), created(`W/"2"`))
	for _, tt := range []struct {
		name, contentType, body string
		want                    error  // of the contract
		text                    string // part of the error
	}{
		{"success", multipart202, good, nil, ""},
		{"row exists", multipart202, changeset(refusedPart("409 Conflict", "EntityAlreadyExists", "1:The specified entity already exists.")), table.ErrExists, "row 1"},
		{"row does not exist", multipart202, changeset(refusedPart("404 Not Found", "ResourceNotFound", "0:The specified resource does not exist.")), table.ErrNotFound, "row 0"},
		{"row has changed", multipart202, changeset(refusedPart("412 Precondition Failed", "UpdateConditionNotSatisfied", "99:…")), table.ErrChanged, "row 99"},
		{"refused without a change set", multipart202, "--batchresponse_b\r\nContent-Type: application/http\r\n\r\nHTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\n\r\n" +
			`{"odata.error":{"code":"ResourceNotFound","message":{"value":"0:no"}}}` + "\r\n--batchresponse_b--\r\n", table.ErrNotFound, "row 0"},
		{"table is being deleted", multipart202, changeset(refusedPart("409 Conflict", "TableBeingDeleted", "0:…")), table.ErrRefused, "TableBeingDeleted"},
		{"invalid input", multipart202, changeset(refusedPart("400 Bad Request", "InvalidInput", "0:…")), table.ErrRefused, "400"},
		{"server is busy", multipart202, changeset(refusedPart("503 Service Unavailable", "ServerBusy", "…")), errOther, "ServerBusy"},
		{"refusal is not JSON", multipart202, changeset(strings.Replace(refusedPart("500 Internal Server Error", "x", "y"), "{", "<", 1)), errOther, "500"},
		{"one answer for two", multipart202, changeset(created(`W/"1"`)), errOther, "2 rows"},
		{"three answers for two", multipart202, changeset(created(`W/"1"`), created(`W/"2"`), created(`W/"3"`)), errOther, "2 rows"},
		{"no version", multipart202, changeset(created(`W/"1"`), strings.Replace(created("x"), "ETag: x\r\n", "", 1)), errOther, "row 1"},
		{"empty", multipart202, "", errOther, "answer"},
		{"one byte", multipart202, "-", errOther, "answer"},
		{"no line end", multipart202, "--batchresponse_b", errOther, "answer"},
		{"only the beginning", multipart202, good[:len(good)/2], errOther, "answer"},
		{"cut before its end", multipart202, good[:len(good)-40], errOther, "answer"},
		{"another boundary", "multipart/mixed; boundary=other", good, errOther, "answer"},
		{"no boundary", "multipart/mixed", good, errOther, "answer"},
		{"a web page", "text/html", "<html>\n<body>Sign in to this network</body></html>", errOther, "multipart"},
		{"an error without parts", "application/json", `{"odata.error":{"code":"InvalidInput"}}`, errOther, "multipart"},
		{"garbage in a part", multipart202, changeset(strings.Replace(created(`W/"1"`), "HTTP/1.1 204", "garbage", 1), created(`W/"2"`)), errOther, "answer"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			store := openScripted(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", tt.contentType)
				w.Header().Set("x-ms-request-id", "4f2a")
				w.WriteHeader(http.StatusAccepted)
				fmt.Fprint(w, tt.body)
			})
			versions, err := store.Submit(t.Context(), twoRows...)
			checkRefusal(t, err, tt.want)
			if tt.want == nil && (len(versions) != 2 || versions[0] != `W/"1"` || versions[1] != `W/"2"`) {
				t.Errorf("versions %q", versions)
			}
			if err != nil && !strings.Contains(err.Error(), tt.text) {
				t.Errorf("error %v, want %q in it", err, tt.text)
			}
		})
	}
}

// errOther represents any error that the contract does not define.
var errOther = errors.New("other")

func checkRefusal(t *testing.T, err, want error) {
	t.Helper()
	leakless(t, err)
	if want == nil || want != errOther {
		if !errors.Is(err, want) {
			t.Errorf("error %v, want %v", err, want)
		}
		return
	}
	if err == nil {
		t.Error("no error")
	}
	for _, sentinel := range []error{table.ErrExists, table.ErrNotFound, table.ErrChanged, table.ErrLimit, table.ErrToken, table.ErrRefused} {
		if errors.Is(err, sentinel) {
			t.Errorf("error %v wraps an error of the contract, want none", err)
		}
	}
}

// A row that is too large is told apart from other permanent refusals.
func TestRowSizeRefused(t *testing.T) {
	insert := []table.Write{{Verb: table.Insert, Row: table.Row{Partition: "p", Key: "a"}}}
	for _, tt := range []struct {
		status int
		code   string
		is     bool
	}{
		{413, "RequestBodyTooLarge", true},
		{400, "EntityTooLarge", true},
		{400, "PropertyValueTooLarge", true},
		{400, "InvalidInput", false},
		{403, "AuthorizationPermissionMismatch", false},
	} {
		for _, writes := range [][]table.Write{insert, twoRows} {
			_, err := openScripted(t, refuse(tt.status, tt.code)).Submit(t.Context(), writes...)
			if checkRefusal(t, err, table.ErrRefused); errors.Is(err, table.ErrRowSize) != tt.is {
				t.Errorf("%d %s: %v", tt.status, tt.code, err)
			}
		}
	}
}

// An answer about the state of a row returns the error of the contract for it.
// Any other permanent refusal returns ErrRefused. An error that may be
// transient, or an internal error of the service, returns neither.
func TestTableRefusals(t *testing.T) {
	row := table.Row{Partition: "p", Key: "a"}
	insert := []table.Write{{Verb: table.Insert, Row: row}}
	change := []table.Write{{Verb: table.Replace, Row: row, If: oldETag}}
	for _, tt := range []struct {
		status int
		code   string
		writes []table.Write
		want   error
	}{
		{409, "EntityAlreadyExists", insert, table.ErrExists},
		{404, "ResourceNotFound", change, table.ErrNotFound},
		{404, "EntityNotFound", change, table.ErrNotFound},
		{412, "UpdateConditionNotSatisfied", change, table.ErrChanged},
		{404, "AccountNotFound", change, table.ErrRefused},
		{400, "InvalidInput", insert, table.ErrRefused},
		{403, "AuthorizationPermissionMismatch", insert, table.ErrRefused},
		{403, "AccountIsDisabled", twoRows, table.ErrRefused},
		{409, "TableBeingDeleted", insert, table.ErrRefused},
		{413, "RequestBodyTooLarge", twoRows, table.ErrRefused},
		{408, "RequestTimeout", insert, errOther},
		{429, "TooManyRequests", twoRows, errOther},
		{500, "OperationTimedOut", insert, errOther},
		{503, "ServerBusy", twoRows, errOther},
		{204, "", twoRows, errOther}, // the answer to a transaction is 202
	} {
		account := scripted(t, refuse(tt.status, tt.code))
		queues, err := account.OpenQueues(nil)
		if err != nil {
			t.Fatal(err)
		}
		store := openScripted(t, refuse(tt.status, tt.code))
		_, err = store.Submit(t.Context(), tt.writes...)
		checkRefusal(t, err, tt.want)
		if tt.want != table.ErrRefused && tt.want != errOther || tt.status == 404 || tt.status == 204 {
			continue
		}
		// The same in the answers to transactions, reads and puts.
		inside := openScripted(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", multipart202)
			w.WriteHeader(http.StatusAccepted)
			fmt.Fprint(w, changeset(refusedPart(fmt.Sprint(tt.status, " ", http.StatusText(tt.status)), tt.code, "1:No")))
		})
		_, submitted := inside.Submit(t.Context(), twoRows...)
		_, got := store.Get(t.Context(), "p", "a")
		_, queried := store.Query(t.Context(), table.Query{Top: 1})
		_, put := openOutbox(t, queues, "cleanup").Put(t.Context(), "x", 0)
		for _, err := range []error{submitted, got, queried, put} {
			checkRefusal(t, err, tt.want)
		}
	}
}

const oldETag = `W/"datetime'2020-01-01T00%3A00%3A00.0000000Z'"`

// Invalid answers to reads are errors.
func TestInvalidTableAnswers(t *testing.T) {
	for _, body := range []string{"", "{}", "[]", "null", `{"value":[{}]}`, `{"value":[{"PartitionKey":"p"}]}`, `{"value":[1]}`, `{"PartitionKey":"p","RowKey":"a"}`} {
		store := openScripted(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, body)
		})
		if row, err := store.Get(t.Context(), "p", "a"); err == nil {
			t.Errorf("got %+v from the answer %q", row, body)
		}
		for _, keysOnly := range []bool{false, true} {
			page, err := store.Query(t.Context(), table.Query{Partition: "p", Top: 1, KeysOnly: keysOnly})
			if err == nil && len(page.Rows) > 0 {
				t.Errorf("got %+v from the answer %q", page, body)
			}
			if err != nil {
				checkRefusal(t, err, errOther)
			}
		}
	}
}
