package customhandler_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"

	"kennel/internal/customhandler"
)

// A handler with an HTTP and a queue function, and what the host makes of them.
func Example() {
	app := customhandler.New(&customhandler.Options{Log: slog.New(slog.DiscardHandler)})
	app.HTTP("Greet", "req", customhandler.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		_, err := fmt.Fprintf(w, "hello %s", r.PathValue("name"))
		return err
	}), "GET /api/greetings/{name}")
	app.Queue("Work", "msg", func(ctx context.Context, m customhandler.QueueMessage) error {
		if m.Text == "" {
			return errors.New("nothing to do")
		}
		return customhandler.Emit(ctx, "outq", "done: "+m.Text)
	})
	server := httptest.NewServer(app)
	defer server.Close()

	host := customhandler.NewClient(server.URL, nil)
	w := httptest.NewRecorder()
	status, err := host.Forward(context.Background(), w, httptest.NewRequest("GET", "/api/greetings/ann", nil), customhandler.NewInvocationID())
	fmt.Println(status, w.Body, err)

	work := customhandler.Trigger{Function: "Work", Binding: "msg"}
	for _, text := range []string{`{"id":7}`, ""} {
		answer, err := host.Invoke(context.Background(), "Work", work.Queue(customhandler.QueueMessage{Text: text}))
		if err != nil {
			fmt.Println("retried:", errors.Is(err, customhandler.ErrStatus))
			continue
		}
		messages, err := answer.Messages(customhandler.Output{Name: "outq", Type: "queue"})
		fmt.Printf("%s %v\n", messages, err)
	}
	// Output:
	// 200 hello ann <nil>
	// [done: {"id":7}] <nil>
	// retried: true
}
