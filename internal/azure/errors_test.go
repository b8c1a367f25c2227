package azure

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"kennel/ids"
)

// secrets must not appear in any error.
var secrets = []string{"c2VjcmV0a2V5", "sig=", "s3cr3tsignature", "popreceipt", "AgAAreceipt", "<Message>"}

func leakless(t *testing.T, err error) {
	t.Helper()
	for _, secret := range secrets {
		if err != nil && strings.Contains(err.Error(), secret) {
			t.Errorf("error contains %q: %v", secret, err)
		}
	}
}

// scripted serves refusals that Azurite never makes.
func scripted(t *testing.T, handler http.HandlerFunc) Account {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	signature := "sv=2024-01-01&sig=s3cr3tsignature"
	return Account{ConnectionString: "BlobEndpoint=" + server.URL + "/;QueueEndpoint=" + server.URL + "/;SharedAccessSignature=" + signature}
}

func refuse(status int, code string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("x-ms-error-code", code)
		w.Header().Set("x-ms-request-id", "4f2a")
		w.Header().Set("Content-Type", "application/xml")
		w.WriteHeader(status)
		fmt.Fprintf(w, `<Error><Code>%s</Code><Message>No, %s</Message></Error>`, code, r.URL)
	}
}

func TestRefusals(t *testing.T) {
	held := ids.Mark{Version: `"0x1"`}
	load := func(ctx context.Context, s *Sequences) error { _, err := s.Load(ctx, "orders"); return err }
	create := func(ctx context.Context, s *Sequences) error {
		_, err := s.Replace(ctx, "orders", ids.Mark{}, ids.Mark{Text: "1"})
		return err
	}
	replace := func(ctx context.Context, s *Sequences) error {
		_, err := s.Replace(ctx, "orders", held, ids.Mark{Text: "2"})
		return err
	}
	for _, test := range []struct {
		name   string
		status int
		code   string
		do     func(context.Context, *Sequences) error
		want   error // nil: an Error with the status
	}{
		{"load busy", 503, "ServerBusy", load, nil},
		{"load throttled", 429, "", load, nil},
		{"load broken", 500, "InternalError", load, nil},
		{"load forbidden", 403, "AuthorizationFailure", load, nil},
		{"load of a missing account", 404, "ResourceNotFound", load, nil},
		{"load during deletion", 409, "ContainerBeingDeleted", load, nil},
		{"replace busy", 503, "ServerBusy", replace, nil},
		{"replace timed out there", 500, "OperationTimedOut", replace, nil},
		{"replace changed", 412, "ConditionNotMet", replace, ids.ErrChanged},
		{"replace leased", 412, "LeaseIdMissing", replace, nil},
		{"replace immutable", 409, "BlobImmutableDueToPolicy", replace, nil},
		{"replace deleted", 404, "BlobNotFound", replace, ids.ErrChanged},
		{"replace without container", 404, "ContainerNotFound", replace, ids.ErrChanged},
		{"create existing", 409, "BlobAlreadyExists", create, ids.ErrChanged},
		{"create during deletion", 409, "ContainerBeingDeleted", create, nil},
		{"create forbidden", 403, "AuthorizationPermissionMismatch", create, nil},
		{"create where no container can be", 404, "ContainerNotFound", create, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			blobs, err := scripted(t, refuse(test.status, test.code)).OpenBlobs(nil)
			if err != nil {
				t.Fatal(err)
			}
			err = test.do(t.Context(), NewSequences(blobs, "uniqueids"))
			leakless(t, err)
			if test.want != nil {
				if !errors.Is(err, test.want) {
					t.Errorf("error %v, want %v", err, test.want)
				}
				return
			}
			if errors.Is(err, ids.ErrChanged) || errors.Is(err, ids.ErrNotFound) {
				t.Errorf("error %v says more than the service did", err)
			}
			refusal, ok := errors.AsType[*Error](err)
			if !ok {
				t.Fatalf("error %v is not an Error", err)
			}
			if want := (Error{Status: test.status, Code: test.code, RequestID: "4f2a"}); *refusal != want {
				t.Errorf("error %+v, want %+v", *refusal, want)
			}
			if !strings.Contains(err.Error(), fmt.Sprint(test.status)) || !strings.Contains(err.Error(), "4f2a") {
				t.Errorf("error does not name status and request: %v", err)
			}
		})
	}
}

func TestQueueRefusals(t *testing.T) {
	for _, test := range []struct {
		name   string
		status int
		code   string
		lost   bool
	}{
		{"gone", 404, "MessageNotFound", true},
		{"queue gone", 404, "QueueNotFound", true},
		{"another's", 400, "PopReceiptMismatch", true},
		{"malformed", 400, "InvalidQueryParameterValue", false},
		{"busy", 503, "ServerBusy", false},
		{"being deleted", 409, "QueueBeingDeleted", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			q, err := scripted(t, refuse(test.status, test.code)).OpenQueues(nil)
			if err != nil {
				t.Fatal(err)
			}
			m := QueueMessage{ID: "m1", Receipt: "AgAAreceipt", Body: "a"}
			_, updated := q.Update(t.Context(), "work", m, 0)
			for op, err := range map[string]error{"delete": q.Delete(t.Context(), "work", m), "update": updated} {
				leakless(t, err)
				if got := errors.Is(err, ErrLeaseLost); err == nil || got != test.lost {
					t.Errorf("%s: %v; the lease is lost: %v, want %v", op, err, got, test.lost)
				}
			}
			if err := q.Put(t.Context(), "work", "a", 0); err == nil || errors.Is(err, ErrLeaseLost) {
				t.Errorf("put: %v, want a refusal", err)
			}
		})
	}
}

// A try without an answer ends by itself, and is not taken for the end of the
// caller's own time.
func TestSilence(t *testing.T) {
	for _, test := range []struct {
		name    string
		handler http.HandlerFunc
	}{
		{"no answer", func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }},
		{"half an answer", func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("ETag", `"0x1"`)
			w.Header().Set("Content-Length", "4")
			fmt.Fprint(w, "10")
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			account := scripted(t, test.handler)
			blobs, err := account.OpenBlobs(&Options{TryTimeout: 50 * time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			mark, err := NewSequences(blobs, "uniqueids").Load(t.Context(), "orders")
			if !errors.Is(err, ErrTimeout) || errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("load: %+v, %v, want %v and nothing about deadlines", mark, err, ErrTimeout)
			}
			leakless(t, err)

			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			if blobs, err = account.OpenBlobs(nil); err != nil {
				t.Fatal(err)
			}
			if _, err = NewSequences(blobs, "uniqueids").Load(ctx, "orders"); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("load in a caller's short time: %v, want %v", err, context.DeadlineExceeded)
			}
		})
	}
}

// A number whose end got lost is another number.
func TestTruncatedAnswer(t *testing.T) {
	account := scripted(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("ETag", `"0x1"`)
		w.Header().Set("Content-Length", "4")
		fmt.Fprint(w, "10")
	})
	blobs, err := account.OpenBlobs(nil)
	if err != nil {
		t.Fatal(err)
	}
	if mark, err := NewSequences(blobs, "uniqueids").Load(t.Context(), "orders"); err == nil {
		t.Errorf("loaded %+v from half an answer", mark)
	}
}

func TestUnreachable(t *testing.T) {
	server := httptest.NewServer(nil)
	server.Close()
	account := Account{ConnectionString: "BlobEndpoint=" + server.URL + ";QueueEndpoint=" + server.URL + ";SharedAccessSignature=sig=s3cr3tsignature"}
	blobs, err := account.OpenBlobs(nil)
	if err != nil {
		t.Fatal(err)
	}
	queues, err := account.OpenQueues(nil)
	if err != nil {
		t.Fatal(err)
	}
	_, loaded := NewSequences(blobs, "uniqueids").Load(t.Context(), "orders")
	deleted := queues.Delete(t.Context(), "work", QueueMessage{ID: "m1", Receipt: "AgAAreceipt"})
	for _, err := range []error{loaded, deleted} {
		if err == nil || !strings.Contains(err.Error(), "refused") {
			t.Errorf("error does not say that the connection was refused: %v", err)
		}
		leakless(t, err)
	}
}
