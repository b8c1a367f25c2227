// Emails is a program with one queue: a mail is sent again until the mail server
// takes it, and one that it refuses for good is a dead letter.
//
//	go run kennel/cmd/kennel up
package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/smtp"
	"net/textproto"

	"kennel"
)

// Mail is the message.
type Mail struct {
	To   string `json:"to"`
	Text string `json:"text"`
}

// mailer has what is outside, so that a test can replace it.
type mailer struct {
	server *kennel.Setting
	send   func(server string, m Mail, id string) error
}

func main() { kennel.Main("emails", (&mailer{send: overSMTP}).program) }

func (s *mailer) program(a *kennel.App) error {
	s.server = a.Setting("SMTP_SERVER", &kennel.SettingOptions{Default: "localhost:25", Description: "host and port of the mail server"})
	mails := kennel.NewQueue[Mail](a, "mails", &kennel.QueueOptions[Mail]{Validate: func(m Mail) error {
		if m.To == "" {
			return errors.New("to is missing")
		}
		return nil
	}})
	mails.Handle(s.handle, &kennel.HandleOptions[Mail]{Concurrency: 8})
	return nil
}

// handle sends a mail. Its id is the same in all attempts, so that the server can
// drop a second one.
func (s *mailer) handle(ctx context.Context, m Mail) error {
	attempt, _ := kennel.Current(ctx)
	err := s.send(s.server.Value(), m, attempt.ID)
	if refused, ok := errors.AsType[*textproto.Error](err); ok && refused.Code >= 500 {
		return kennel.Reject(err)
	}
	if err == nil {
		slog.InfoContext(ctx, "mail sent", "attempt", attempt)
	}
	return err
}

func overSMTP(server string, m Mail, id string) error {
	text := fmt.Sprintf("To: %s\r\nMessage-ID: <%s@example.com>\r\n\r\n%s\r\n", m.To, id, m.Text)
	return smtp.SendMail(server, nil, "shop@example.com", []string{m.To}, []byte(text))
}
