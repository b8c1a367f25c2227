// Small is a program with one queue and one route, and none of the jobs of the
// Kennel app: what a program pays for internal/app alone.
package main

import (
	"context"
	"log/slog"
	"net/http"
	"os"
	"time"

	"kennel/internal/app"
	"kennel/internal/azure"
	"kennel/internal/config"
	"kennel/internal/customhandler"
	"kennel/internal/edge"
	"kennel/internal/instances"
	"kennel/internal/observe"
	"kennel/internal/worker"
	"kennel/queue"
)

const emailQueue = "emails"

func main() {
	os.Exit(app.Main(context.Background(), os.Args[1:], os.Environ(), os.Stdout, os.Stderr, program))
}

// program wires the program, behind a Functions host or as a worker.
func program(cfg config.Config, received func(error), log *slog.Logger) (*app.Program, error) {
	queues, err := azure.Account(cfg.Storage).OpenQueues(nil)
	if err != nil {
		return nil, err
	}
	kind := instances.Functions
	if received != nil {
		kind = instances.Worker
	}
	members := observe.NewMembers(nil, kind, time.Now(), log)
	e := &emails{letters: &observe.LetterCount{Queue: emailQueue}, log: log}
	if received != nil {
		l := worker.NewListening(cfg, nil, received, log)
		close(l.Ready) // there are no rules
		e.listener, err = worker.Listen(l, queues, []string{emailQueue}, worker.HostMessages{Letters: e.letters}, e.deliver, nil)
		if err != nil {
			return nil, err
		}
	}
	return app.New(cfg, members, &observe.Meter{}, []app.Part{{Serves: e, Runs: e}}, log)
}

// emails is a part: a queue, and a route beside it.
type emails struct {
	app.Idle
	letters  *observe.LetterCount
	listener *queue.Listener[string] // nil behind a host
	log      *slog.Logger
}

// Routes implements the server of [app.Part].
func (e *emails) Routes() []edge.Route {
	return []edge.Route{{Function: "Hello", Pattern: "GET /api/hello", Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		edge.WriteJSON(w, http.StatusOK, map[string]string{"hello": "world"})
	})}}
}

// Functions implements the server of [app.Part].
func (e *emails) Functions(host *customhandler.App) {
	host.Queue("Emails", "message", func(ctx context.Context, m customhandler.QueueMessage) error { return e.send(ctx, m.Text) })
}

// Work implements [app.Runner].
func (e *emails) Work(ctx context.Context) error { return e.listener.Run(ctx) }

func (e *emails) deliver(ctx context.Context, d queue.Delivery[string]) error {
	return e.send(ctx, d.Body)
}

func (e *emails) send(ctx context.Context, text string) error {
	e.log.InfoContext(ctx, "email sent", "text", text)
	return nil
}
