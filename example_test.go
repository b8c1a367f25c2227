package kennel_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"time"

	"kennel"
)

// Email is a message of the examples.
type Email struct {
	To   string `json:"to"`
	Text string `json:"text"`
}

// Shop is a program with a queue, a timer and a route.
type Shop struct {
	emails *kennel.Queue[Email]
	smtp   *kennel.Setting
}

func (s *Shop) program(a *kennel.App) error {
	s.smtp = a.Setting("SMTP_URL", &kennel.SettingOptions{Secret: true, Description: "the mail server"})
	s.emails = kennel.NewQueue[Email](a, "emails", nil)
	s.emails.Handle(s.send, &kennel.HandleOptions[Email]{Concurrency: 8})
	a.Timer("digest", "0 6 * * *", s.digest, nil)
	a.HandleFunc("POST /orders", s.order, nil)
	return nil
}

func (s *Shop) send(ctx context.Context, m Email) error {
	if m.To == "" {
		return kennel.Reject(errors.New("the mail has no receiver"))
	}
	return deliver(ctx, s.smtp.Value(), m)
}

func (s *Shop) digest(ctx context.Context) error {
	_, err := s.emails.Send(ctx, Email{To: "ann@example.com", Text: "orders of yesterday"}, nil)
	return err
}

func (s *Shop) order(w http.ResponseWriter, r *http.Request) {
	if _, err := s.emails.Send(r.Context(), Email{To: r.FormValue("to"), Text: "thank you"}, nil); err != nil {
		kennel.Error(w, err)
		return
	}
	w.WriteHeader(http.StatusAccepted)
}

func deliver(context.Context, string, Email) error { return nil }

func ExampleMain() {
	kennel.Main("shop", new(Shop).program)
}

func ExampleRun() {
	if err := kennel.Run(context.Background(), "shop", new(Shop).program, os.Args[1:]); err != nil {
		fmt.Println(err)
	}
}

func ExampleNewQueue() {
	_ = func(a *kennel.App) error {
		emails := kennel.NewQueue[Email](a, "emails", &kennel.QueueOptions[Email]{
			Validate: func(m Email) error {
				if m.To == "" {
					return errors.New("to is missing")
				}
				return nil
			},
		})
		emails.Handle(func(ctx context.Context, m Email) error {
			attempt, _ := kennel.Current(ctx)
			slog.InfoContext(ctx, "sending", "attempt", attempt)
			return deliver(ctx, "smtp://localhost", m)
		}, &kennel.HandleOptions[Email]{Concurrency: 8, Timeout: time.Minute})
		return nil
	}
}

func ExampleQueue_SendAll() {
	_ = func(ctx context.Context, emails *kennel.Queue[Email]) error {
		sent, err := emails.SendAll(ctx, slices.Values([]kennel.Message[Email]{
			{Body: Email{To: "ann@example.com"}},
			{Body: Email{To: "bob@example.com"}, SendOptions: kennel.SendOptions{Delay: time.Hour}},
		}))
		for i, one := range sent {
			if one.ID == "" {
				fmt.Println(i, "is not confirmed")
			}
		}
		return err
	}
}

// Image is an item of the examples.
type Image struct {
	ID  string `json:"id"`
	URL string `json:"url"`
}

func ExampleNewProcessor() {
	_ = func(a *kennel.App) error {
		thumbnails := kennel.NewProcessor(a, "thumbnails", func(ctx context.Context, image Image) (string, error) {
			return image.URL + "?small", nil
		}, nil)
		a.HandleFunc("POST /albums", func(w http.ResponseWriter, r *http.Request) {
			batch, err := thumbnails.Submit(r.Context(), slices.Values([]Image{{ID: "1", URL: "https://images.example.com/1"}}), nil)
			if err != nil {
				kennel.Error(w, err)
				return
			}
			fmt.Fprintln(w, batch.ID)
		}, nil)
		return nil
	}
}

func ExampleProcessor_OnEnd() {
	_ = func(a *kennel.App) error {
		emails := kennel.NewQueue[Email](a, "emails", &kennel.QueueOptions[Email]{SendOnly: true})
		thumbnails := kennel.NewProcessor(a, "thumbnails", func(ctx context.Context, image Image) (string, error) {
			return image.URL + "?small", nil
		}, nil)
		thumbnails.OnEnd(func(ctx context.Context, b kennel.Batch) error {
			text := fmt.Sprintf("%d of %d images are ready", b.Done, b.Items)
			for result, err := range thumbnails.Results(ctx, b.ID) {
				if err != nil {
					return err // it is called again
				}
				if result.State != kennel.Done {
					text += fmt.Sprintf("; image %s: %s", result.ID, result.Error)
				}
			}
			_, err := emails.Send(ctx, Email{To: "ann@example.com", Text: text}, nil) // perhaps twice, with the same text
			return err
		})
		return nil
	}
}

func ExampleApp_Setting() {
	_ = func(a *kennel.App) error {
		smtp := a.Setting("SMTP_URL", &kennel.SettingOptions{Secret: true, Description: "the mail server"})
		a.OnStart(func(ctx context.Context) (func(context.Context) error, error) {
			slog.Info("connecting", "server", smtp) // prints [secret]
			return nil, nil
		})
		return nil
	}
}

func ExampleApp_Timer() {
	_ = func(a *kennel.App) error {
		a.Timer("digest", "0 6 * * MON-FRI", func(ctx context.Context) error {
			attempt, _ := kennel.Current(ctx)
			fmt.Println("the digest of", attempt.Slot)
			return nil
		}, &kennel.TimerOptions{Zone: "Europe/Berlin"})
		return nil
	}
}

func ExampleApp_Handle() {
	_ = func(a *kennel.App) error {
		a.Handle("GET /albums/{album}", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprintln(w, r.PathValue("album"))
		}), &kennel.RouteOptions{Level: kennel.LevelAnonymous})
		return nil
	}
}

func ExampleApp_UseWork() {
	_ = func(a *kennel.App) error {
		a.UseWork(func(next kennel.Work) kennel.Work {
			return func(ctx context.Context) error {
				err := next(ctx)
				if outcome := kennel.OutcomeOf(err); outcome == kennel.Failed {
					slog.WarnContext(ctx, "attempt failed", "error", err)
				}
				return err
			}
		})
		return nil
	}
}

func ExampleApp_Numbers() {
	_ = func(a *kennel.App) error {
		orders := a.Numbers("orders", nil)
		a.HandleFunc("POST /orders", func(w http.ResponseWriter, r *http.Request) {
			number, err := orders.Next(r.Context())
			if err != nil {
				kennel.Error(w, err)
				return
			}
			fmt.Fprintln(w, number)
		}, nil)
		return nil
	}
}

func ExampleApp_Gate() {
	_ = func(a *kennel.App) error {
		start := a.Gate("start", nil)
		a.OnStart(func(ctx context.Context) (func(context.Context) error, error) {
			return nil, start.Wait(ctx) // until an operator releases it
		})
		return nil
	}
}

func ExampleApp_Messages() {
	_ = func(a *kennel.App) error {
		bus := a.Messages(nil)
		a.HandleFunc("POST /events", func(w http.ResponseWriter, r *http.Request) {
			receipt, err := bus.Send(r.Context(), "orders", kennel.BusMessage{Body: []byte(`{"order":1}`), ContentType: "application/json"})
			if err != nil {
				kennel.Error(w, err)
				return
			}
			fmt.Fprintln(w, receipt.ID)
		}, nil)
		return nil
	}
}
