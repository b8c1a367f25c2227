package kenneltest_test

import (
	"context"
	"errors"
	"testing"

	"kennel"
	"kennel/client"
	"kennel/kenneltest"
)

// TestIDOfDeadLetter: a dead letter has the id of its message in the API, by which
// the log and the answer to the sender name it.
func TestIDOfDeadLetter(t *testing.T) {
	var mails *kennel.Queue[order]
	program := func(a *kennel.App) error {
		mails = kennel.NewQueue[order](a, "mails", nil)
		mails.Handle(func(context.Context, order) error { return kennel.Reject(errors.New("no such address")) }, nil)
		return nil
	}
	kenneltest.Run(t, func(*kenneltest.Kit) kennel.Program { return program }, func(k *kenneltest.Kit) {
		sent, err := mails.Send(t.Context(), order{To: "ann"}, nil)
		if err != nil {
			t.Fatal(err)
		}
		k.Settle()
		c, err := client.New("http://kit", &client.Options{HTTP: k.Client()})
		if err != nil {
			t.Fatal(err)
		}
		letters, _, err := c.DeadLetters(t.Context(), "mails-poison")
		if err != nil || len(letters) != 1 || letters[0].ID != sent.ID {
			t.Errorf("%+v, %v, want one of message %q", letters, err, sent.ID)
		}
	}, nil)
}
