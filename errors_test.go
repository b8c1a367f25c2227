package kennel_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"kennel"
	"kennel/kenneltest"
)

type secret struct {
	Text string `json:"text"`
}

// vault is a program with a private queue, whose messages become dead letters,
// and a route that answers with an error.
func vault(a *kennel.App) error {
	secrets := kennel.NewQueue(a, "secrets", &kennel.QueueOptions[secret]{Private: true, Validate: func(s secret) error {
		if s.Text == "" {
			return errors.New("text is missing")
		}
		return nil
	}})
	sums := kennel.NewProcessor(a, "sums", func(_ context.Context, s secret) (int, error) { return len(s.Text), nil }, &kennel.ProcessorOptions[secret]{Validate: func(s secret) error {
		if s.Text == "" {
			return errors.New("text is missing")
		}
		return nil
	}})
	numbers := a.Numbers("orders", nil)
	secrets.Handle(func(context.Context, secret) error { return kennel.Reject(errors.New("it cannot be kept")) }, nil)
	a.UseHTTP(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { next.ServeHTTP(wrapped{w}, r) })
	})
	a.HandleFunc("POST /failures/{kind}", func(w http.ResponseWriter, r *http.Request) {
		switch r.PathValue("kind") {
		case "invalid":
			_, err := secrets.Send(r.Context(), secret{}, nil)
			kennel.Error(w, err)
		case "second":
			_, err := secrets.SendAll(r.Context(), slices.Values([]kennel.Message[secret]{{Body: secret{"x"}}, {}}))
			kennel.Error(w, err)
		case "early", "never":
			delay := map[string]time.Duration{"early": -time.Second, "never": 8 * 24 * time.Hour}[r.PathValue("kind")]
			_, err := secrets.Send(r.Context(), secret{"x"}, &kennel.SendOptions{Delay: delay})
			if !errors.Is(err, kennel.ErrInvalid) {
				err = fmt.Errorf("not ErrInvalid: %v", err)
			}
			kennel.Error(w, err)
		case "nothing", "everything":
			count := map[string]int{"nothing": 0, "everything": 1 << 40}[r.PathValue("kind")]
			_, err := numbers.NextRange(r.Context(), count)
			kennel.Error(w, err)
		case "item":
			_, err := sums.Submit(r.Context(), slices.Values([]secret{{"x"}, {}}), nil)
			if !errors.Is(err, kennel.ErrInvalid) {
				err = fmt.Errorf("not ErrInvalid: %v", err)
			}
			kennel.Error(w, err)
		case "large":
			_, err := secrets.Send(r.Context(), secret{strings.Repeat("x", 70<<20)}, nil)
			kennel.Error(w, err)
		case "stopping":
			kennel.Error(w, fmt.Errorf("wait: %w", kennel.ErrStopping))
		case "late":
			kennel.Error(w, fmt.Errorf("call: %w", context.DeadlineExceeded))
		case "begun":
			io.WriteString(w, "half of an ")
			kennel.Error(w, errors.New("password hunter2"))
		default:
			kennel.Error(w, errors.New("password hunter2"))
		}
	}, nil)
	return nil
}

// wrapped is a writer as middleware has one.
type wrapped struct{ http.ResponseWriter }

func (w wrapped) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func runVault(t *testing.T, f func(*kenneltest.Kit)) {
	kenneltest.Run(t, func(*kenneltest.Kit) kennel.Program { return vault }, f, nil)
}

// TestError: errors of the jobs are answered as by the built-in routes, and those
// of others without their text.
func TestError(t *testing.T) {
	runVault(t, func(k *kenneltest.Kit) {
		for _, tt := range []struct {
			kind   string
			status int
			body   string
		}{
			{"invalid", 400, `{"error":{"code":"bad_message","message":"A message was not sent: text is missing."}}`},
			{"second", 400, `"message":"A message was not sent: text is missing."`}, // the first one was
			{"early", 400, `{"error":{"code":"bad_delay","message":"A message was not sent: its delay is negative, or not less than 7 days."}}`},
			{"never", 400, `"code":"bad_delay"`},
			{"nothing", 400, `"code":"bad_count"`},
			{"everything", 400, `"code":"bad_count"`},
			{"item", 400, `"code":"bad_items","message":"Nothing was queued, because of an invalid item.","items":[{"line":2,"message":"text is missing"}]`},
			{"large", 413, `"code":"message_too_large"`},
			{"stopping", 503, `"code":"stopping"`},
			{"late", 504, `"code":"timeout"`},
			{"other", 500, `{"error":{"code":"internal","message":"The function failed. The cause is in its log."}}`},
		} {
			answer, err := k.Client().Post("/api/failures/"+tt.kind, "", nil)
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(answer.Body)
			answer.Body.Close()
			if err != nil || answer.StatusCode != tt.status || !strings.Contains(string(text), tt.body) {
				t.Errorf("%s: %d %s, %v, want %d %s", tt.kind, answer.StatusCode, text, err, tt.status, tt.body)
			}
			if again := answer.Header.Get("Retry-After"); (again != "") != (tt.kind == "stopping") {
				t.Errorf("%s: Retry-After %q", tt.kind, again)
			}
		}
		if answer, err := k.Client().Post("/api/failures/begun", "", nil); err == nil {
			text, err := io.ReadAll(answer.Body)
			answer.Body.Close()
			if err == nil && answer.StatusCode == http.StatusOK {
				t.Errorf("half of an answer came as a whole one: %s", text)
			}
		}
	})
	w := httptest.NewRecorder() // as in a plain test of a handler
	if kennel.Error(w, errors.New("anything")); w.Code != 500 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestPrivate: the body of a dead letter of a private queue is not shown, and its
// redrive works.
func TestPrivate(t *testing.T) {
	runVault(t, func(k *kenneltest.Kit) {
		k.Send("secrets", secret{"hunter2"}, nil)
		k.Send("secrets", secret{"hunter2" + strings.Repeat("x", 100<<10)}, nil) // with a claim
		k.Settle()
		read := func(answer *http.Response, err error) string {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			text, err := io.ReadAll(answer.Body)
			if err != nil || answer.StatusCode != http.StatusOK {
				t.Fatalf("%d %s, %v", answer.StatusCode, text, err)
			}
			return string(text)
		}
		text := read(k.Client().Get("/api/deadletters/secrets-poison"))
		if strings.Contains(text, "hunter2") || strings.Contains(text, "aHVudGVyMg") || strings.Count(text, `"sha256":"`) != 2 || !strings.Contains(text, `"size":18`) {
			t.Errorf("%s", text)
		}
		if text := read(k.Client().Post("/api/deadletters/secrets-poison/redrive", "application/json", strings.NewReader(`{"all":true}`))); !strings.Contains(text, `"moved":2`) {
			t.Errorf("%s", text)
		}
		k.Settle()
		if letters := k.DeadLetters("secrets"); len(letters) != 2 {
			t.Errorf("%d dead letters after the redrive", len(letters))
		}
	})
}
