package main

import (
	"errors"
	"net/textproto"
	"testing"

	"kennel"
	"kennel/kenneltest"
)

// TestMails: a mail is sent once, also after the server was down, and one that
// the server refuses for good is a dead letter.
func TestMails(t *testing.T) {
	build := func(k *kenneltest.Kit) kennel.Program {
		s := &mailer{send: func(_ string, m Mail, id string) error {
			if m.To == "nobody@example.com" {
				return &textproto.Error{Code: 550, Msg: "no such mailbox"}
			}
			return k.Effect("mail", m.To+" "+id, nil)
		}}
		return s.program
	}
	kenneltest.Run(t, build, func(k *kenneltest.Kit) {
		k.FailEffect("mail", false)
		k.FailEffect("mail", false)
		ann := k.Send("mails", Mail{To: "ann@example.com"}, nil)
		nobody := k.Send("mails", Mail{To: "nobody@example.com"}, nil)
		k.Settle()
		if mails := k.Effects("mail"); len(mails) != 1 || mails[0].Key != "ann@example.com "+ann.ID {
			t.Errorf("mails %v", mails)
		}
		if letters := k.DeadLetters("mails"); len(letters) != 1 || letters[0].ID != nobody.ID || letters[0].Attempts != 1 {
			t.Errorf("dead letters %v", letters)
		}
	}, nil)
}

// TestUnknownErrorIsTriedAgain: only a final answer of the server rejects.
func TestUnknownErrorIsTriedAgain(t *testing.T) {
	for err, want := range map[error]kennel.Outcome{
		&textproto.Error{Code: 421}: kennel.Failed, &textproto.Error{Code: 554}: kennel.Rejected, errors.New("no route to host"): kennel.Failed,
	} {
		s := &mailer{server: new(kennel.Setting), send: func(string, Mail, string) error { return err }}
		kenneltest.Run(t, func(*kenneltest.Kit) kennel.Program { return s.program }, func(k *kenneltest.Kit) {
			if got := kennel.OutcomeOf(s.handle(kenneltest.Attempt(t.Context(), kennel.Attempt{ID: "1"}), Mail{})); got != want {
				t.Errorf("%v: %v, want %v", err, got, want)
			}
		}, nil)
	}
}
