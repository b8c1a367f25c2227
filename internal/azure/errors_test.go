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

	"kennel/gate"
	"kennel/ids"
	"kennel/internal/cas"
	"kennel/internal/table"
	"kennel/queue"
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

// scripted returns an account whose services return answers that no emulator
// returns.
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

func TestBlobRefusals(t *testing.T) {
	type call func(context.Context, *Blobs) error
	const held = `"0x1"`
	load := func(ctx context.Context, b *Blobs) error {
		_, err := NewSequences(b, "uniqueids").Load(ctx, "orders", "")
		return err
	}
	write := func(version string) call {
		return func(ctx context.Context, b *Blobs) error {
			_, err := NewSequences(b, "uniqueids").Replace(ctx, "orders", ids.Value{Version: version}, ids.Value{Text: "2"})
			return err
		}
	}
	loadGate := func(seen string) call {
		return func(ctx context.Context, b *Blobs) error {
			_, err := NewGates(b, "globalflags").Load(ctx, "start", seen)
			return err
		}
	}
	replaceGate := func(ctx context.Context, b *Blobs) error {
		_, err := NewGates(b, "globalflags").Replace(ctx, "start", gate.Value{Version: held}, gate.Value{Text: "{}"})
		return err
	}
	getClaim := func(ctx context.Context, b *Blobs) error {
		_, err := NewContainer(b, "claims").Get(ctx, "a", 1)
		return err
	}
	putClaim := func(ctx context.Context, b *Blobs) error { return NewContainer(b, "claims").Put(ctx, "a", nil) }
	for _, tt := range []struct {
		name   string
		status int
		code   string
		do     call
		want   error // nil: an Error with the status
	}{
		{"get a claim of a missing account", 404, "ResourceNotFound", getClaim, table.ErrRefused},
		{"get a claim without permission", 403, "AuthorizationFailure", getClaim, table.ErrRefused},
		{"get a claim that does not exist", 404, "BlobNotFound", getClaim, table.ErrNotFound},
		{"get a claim busy", 503, "ServerBusy", getClaim, nil},
		{"put a claim without permission", 403, "AuthorizationFailure", putClaim, table.ErrRefused},
		{"put a claim during deletion", 409, "ContainerBeingDeleted", putClaim, nil},
		{"load busy", 503, "ServerBusy", load, nil},
		{"load throttled", 429, "", load, nil},
		{"load forbidden", 403, "AuthorizationFailure", load, cas.ErrRefused},
		{"load of a missing account", 404, "ResourceNotFound", load, cas.ErrRefused},
		{"replace timed out in storage", 500, "OperationTimedOut", write(held), nil},
		{"replace changed", 412, "ConditionNotMet", write(held), ids.ErrChanged},
		{"replace leased", 412, "LeaseIdMissing", write(held), cas.ErrRefused},
		{"replace immutable", 409, "BlobImmutableDueToPolicy", write(held), nil},
		{"replace deleted", 404, "BlobNotFound", write(held), ids.ErrChanged},
		{"replace without container", 404, "ContainerNotFound", write(held), ids.ErrChanged},
		{"create existing", 409, "BlobAlreadyExists", write(""), ids.ErrChanged},
		{"create during deletion", 409, "ContainerBeingDeleted", write(""), nil},
		{"create where no container can be created", 404, "ContainerNotFound", write(""), cas.ErrRefused},
		{"load a gate of a missing account", 404, "ResourceNotFound", loadGate(""), cas.ErrRefused},
		{"load a gate unchanged", 304, "ConditionNotMet", loadGate(held), gate.ErrUnchanged},
		{"load a gate unchanged without a condition", 304, "ConditionNotMet", loadGate(""), nil},
		{"replace a gate that changed", 412, "ConditionNotMet", replaceGate, gate.ErrChanged},
		{"replace a gate that was deleted", 404, "BlobNotFound", replaceGate, gate.ErrChanged},
		{"replace a gate of a missing account", 404, "ResourceNotFound", replaceGate, cas.ErrRefused},
	} {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.do(t.Context(), opened(t, scripted(t, refuse(tt.status, tt.code)).OpenBlobs, nil))
			leakless(t, err)
			if tt.want != nil {
				if !errors.Is(err, tt.want) {
					t.Errorf("error %v, want %v", err, tt.want)
				}
				return
			}
			for _, sentinel := range []error{ids.ErrChanged, ids.ErrNotFound, gate.ErrChanged, gate.ErrUnchanged, table.ErrRefused, table.ErrNotFound} {
				if errors.Is(err, sentinel) {
					t.Errorf("error %v wraps an error of the contract, want none", err)
				}
			}
			refusal, ok := errors.AsType[*Error](err)
			if want := (Error{Status: tt.status, Code: tt.code, RequestID: "4f2a"}); !ok || *refusal != want {
				t.Fatalf("error %v, want %+v", err, want)
			}
			if !strings.Contains(err.Error(), fmt.Sprint(tt.status)) || !strings.Contains(err.Error(), "4f2a") {
				t.Errorf("error does not name status and request: %v", err)
			}
		})
	}
}

func TestQueueRefusals(t *testing.T) {
	for _, tt := range []struct {
		status int
		code   string
		lost   bool
	}{
		{404, "MessageNotFound", true},
		{404, "QueueNotFound", true},
		{400, "PopReceiptMismatch", true},
		{400, "InvalidQueryParameterValue", false},
		{503, "ServerBusy", false},
		{409, "QueueBeingDeleted", false},
	} {
		t.Run(tt.code, func(t *testing.T) {
			q := opened(t, scripted(t, refuse(tt.status, tt.code)).OpenQueues, nil)
			m := queue.Message{ID: "m1", Receipt: "AgAAreceipt", Body: "a"}
			_, updated := q.Update(t.Context(), "work", m, 0)
			for op, err := range map[string]error{"delete": q.Delete(t.Context(), "work", m), "update": updated} {
				leakless(t, err)
				if got := errors.Is(err, queue.ErrLeaseLost); err == nil || got != tt.lost {
					t.Errorf("%s: %v; lease lost: %v, want %v", op, err, got, tt.lost)
				}
			}
			if _, err := q.Put(t.Context(), "work", "a", 0); err == nil || errors.Is(err, queue.ErrLeaseLost) {
				t.Errorf("put: %v, want a refusal", err)
			}
		})
	}
}

// A try without an answer returns ErrTimeout before the caller's deadline, and
// the error of the caller's context at that deadline.
func TestSilence(t *testing.T) {
	const short = 50 * time.Millisecond
	for _, sent := range []string{"", "10"} { // nothing, or half an answer
		account := scripted(t, func(w http.ResponseWriter, r *http.Request) {
			if sent != "" {
				w.Header().Set("ETag", `"0x1"`)
				w.Header().Set("Content-Length", "4")
				fmt.Fprint(w, sent)
				w.(http.Flusher).Flush()
			}
			<-r.Context().Done()
		})
		blobs := opened(t, account.OpenBlobs, &Options{TryTimeout: short})
		mark, err := NewSequences(blobs, "uniqueids").Load(t.Context(), "orders", "")
		if !errors.Is(err, ErrTimeout) || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("load after %q: %+v, %v, want %v and no error of a context", sent, mark, err, ErrTimeout)
		}
		leakless(t, err)

		ctx, cancel := context.WithTimeout(t.Context(), short)
		defer cancel()
		blobs = opened(t, account.OpenBlobs, nil)
		if _, err = NewSequences(blobs, "uniqueids").Load(ctx, "orders", ""); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("load after %q with a short deadline: %v, want %v", sent, err, context.DeadlineExceeded)
		}
	}
}

// Half an answer is an error: a number without its last digits would be another
// number.
func TestTruncatedAnswer(t *testing.T) {
	account := scripted(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("ETag", `"0x1"`)
		w.Header().Set("Content-Length", "4")
		fmt.Fprint(w, "10")
	})
	blobs := opened(t, account.OpenBlobs, nil)
	if mark, err := NewSequences(blobs, "uniqueids").Load(t.Context(), "orders", ""); err == nil {
		t.Errorf("loaded %+v from half an answer", mark)
	}
}

func TestUnreachable(t *testing.T) {
	server := httptest.NewServer(nil)
	server.Close()
	account := Account{ConnectionString: "BlobEndpoint=" + server.URL + ";QueueEndpoint=" + server.URL + ";SharedAccessSignature=sig=s3cr3tsignature"}
	_, loaded := NewSequences(opened(t, account.OpenBlobs, nil), "uniqueids").Load(t.Context(), "orders", "")
	deleted := opened(t, account.OpenQueues, nil).Delete(t.Context(), "work", queue.Message{ID: "m1", Receipt: "AgAAreceipt"})
	for _, err := range []error{loaded, deleted} {
		if err == nil || !strings.Contains(err.Error(), "refused") {
			t.Errorf("error %v, want a refused connection", err)
		}
		leakless(t, err)
	}
}
