package deadletters

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"unicode/utf8"

	"golang.org/x/sync/errgroup"

	"kennel/queue"
)

const (
	maxShown = 64 << 10 // bytes of a body that are shown
	maxRead  = 1 << 20  // bytes of a body that is read to show its beginning
)

// bodyPrivate is the problem of a letter whose body nobody may read.
const bodyPrivate = "The body is not shown: its queue is private. A redrive works."

// Front returns up to 32 letters, of which storage shows no more. A queue that
// does not exist is empty. It changes nothing.
func (l *Letters) Front(ctx context.Context, queueName string) (List, error) {
	source, err := Source(queueName)
	if err != nil {
		return List{}, err
	}
	messages, err := l.peek(ctx, queueName)
	var count int64
	if err == nil {
		count, err = l.count(ctx, queueName)
	}
	if err != nil {
		return List{}, fmt.Errorf("list the dead letters of %s: %w", queueName, err)
	}
	letters := distinct(source, messages)
	list := List{Items: make([]Letter, len(letters)), More: count > int64(len(messages))}
	var reading errgroup.Group
	reading.SetLimit(parallelReads)
	for i, x := range letters {
		reading.Go(func() error {
			list.Items[i] = l.show(ctx, source, x)
			return nil
		})
	}
	reading.Wait()
	if err := ctx.Err(); err != nil {
		return List{}, fmt.Errorf("list the dead letters of %s: %w", queueName, err)
	}
	return list, nil
}

// distinct returns one letter for each identity, in their order. The copy that
// has a reason stands for the others.
func distinct(source string, messages []queue.Message) (letters []letter) {
	at := make(map[string]int)
	for _, m := range messages {
		x := decode(source, m)
		i, found := at[x.id]
		switch {
		case !found:
			at[x.id] = len(letters)
			letters = append(letters, x)
		case letters[i].describe().MovedBy == ByHost:
			letters[i] = x
		}
	}
	return letters
}

// show returns a letter with its body.
func (l *Letters) show(ctx context.Context, source string, x letter) Letter {
	d := x.describe()
	d.Encoding = AsText
	private := x.envelope.Private || l.opt.Private(source, x.envelope.Queue)
	if private {
		d.Problem = bodyPrivate
	}
	if private && x.form == packed {
		d.Size, d.SHA256 = x.envelope.Size(), fmt.Sprintf("%x", x.envelope.SHA256())
		return d
	}
	if x.form == packed && x.envelope.Size() > maxRead {
		d.Size, d.Cut = x.envelope.Size(), true
		d.Problem = fmt.Sprintf("The body of the message is not shown: it is longer than %d bytes.", maxRead)
		return d
	}
	body, err := l.body(ctx, source, x)
	if err != nil {
		reason := reasonOf(err)
		if reason == bodyUnread {
			l.opt.Log.WarnContext(ctx, "cannot read the body of a dead letter", "source", source, "letter", x.id, "error", err.Error())
		}
		d.Size, d.Problem = x.envelope.Size(), string(reason)
		return d
	}
	if private {
		d.Size, d.SHA256 = len(body), fmt.Sprintf("%x", sha256.Sum256(body))
		return d
	}
	body = l.opt.Text(source, body)
	d.Size, d.Cut = len(body), len(body) > maxShown
	if !utf8.Valid(body) {
		d.Encoding = AsBase64
		d.Body = base64.StdEncoding.EncodeToString(body[:min(len(body), maxShown)])
		return d
	}
	end := len(body)
	if d.Cut {
		for end = maxShown; !utf8.RuneStart(body[end]); end-- {
		}
	}
	d.Body = string(body[:end])
	return d
}
