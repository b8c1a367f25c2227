package customhandler_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"

	"kennel/internal/customhandler"
)

// A handler with an HTTP function and a queue function, and a host that calls
// them.
func Example() {
	app, err := customhandler.New(&customhandler.Options{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		panic(err)
	}
	app.HTTP("Greet", "req", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "hello %s", r.PathValue("name"))
	}), "GET /api/greetings/{name}")
	app.Queue("Work", "msg", func(ctx context.Context, m customhandler.QueueMessage) error {
		fmt.Println("done:", m.Text)
		return nil
	})
	server := httptest.NewServer(app)
	defer server.Close()

	ctx := context.Background()
	host := customhandler.NewClient(server.URL)
	w := httptest.NewRecorder()
	status, err := host.Forward(ctx, w, httptest.NewRequest("GET", "/api/greetings/ann", nil), customhandler.NewInvocationID())
	fmt.Println(status, w.Body, err)

	work := customhandler.Trigger{Function: "Work", Binding: "msg"}
	_, err = host.Invoke(ctx, "Work", work.Queue(customhandler.QueueMessage{Text: `{"id":7}`}))
	fmt.Println(err)
	// Output:
	// 200 hello ann <nil>
	// done: {"id":7}
	// <nil>
}
