package storetest

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"kennel/queue"
)

// A process is killed before and after each request. A message that it had put
// still has its claim, unless the process had begun to remove it; and the sweep
// finds the others.
func claimsKilled(t *claimTest) {
	for _, kind := range []claimKind{inTable, inBlob} {
		body := noise(kind.size)
		for n := int64(1); ; n++ {
			struck := false
			for _, after := range []bool{false, true} {
				kill := &Killer{N: n, After: after}
				p := NewProcess(kill)
				life := claimOnce{claims: ClaimStores{p.Table(t.Rows), p.Container(t.Blobs)}.claims(t)}
				if err := life.run(p.Context(), body); kill.Struck() == (err == nil) {
					t.Fatalf("%+v, %v: %v", kind, kill, err)
				}
				struck = struck || kill.Struck()
				for i, text := range life.texts {
					_, got, err := t.Unpack(t.ctx, text)
					if err == nil && !bytes.Equal(got, body) || err != nil && !(life.removing && errors.Is(err, queue.ErrClaimGone)) {
						t.Errorf("%+v, %v: message %d has %d bytes, %v", kind, kill, i, len(got), err)
					}
				}
				if _, err := t.Sweep(t.ctx, time.Now().Add(100*24*time.Hour)); err != nil || t.left() > 0 {
					t.Errorf("%+v, %v: %d rows and blobs are left, %v", kind, kill, t.left(), err)
				}
				if t.Failed() {
					return
				}
			}
			if !struck {
				break
			}
			n += rand.Int64N(int64(Scale(10, 1)))
		}
	}
}

// claimOnce is the life of one body in a process.
type claimOnce struct {
	claims   *queue.Claims
	texts    []string // of the messages that it could put
	removing bool
}

func (o *claimOnce) run(ctx context.Context, body []byte) error {
	text, err := o.claims.Pack(ctx, queue.Envelope{ID: "a", Time: time.Now()}, body)
	if err != nil {
		return err
	}
	o.texts = append(o.texts, text)
	e, _, err := o.claims.Unpack(ctx, text)
	if err != nil {
		return err
	}
	if e, err = o.claims.Extend(ctx, e, time.Now().Add(60*24*time.Hour)); err != nil {
		return err
	}
	if text, err = e.Text(); err != nil {
		return err
	}
	o.texts = append(o.texts, text)
	o.removing = true
	if err := o.claims.Remove(ctx, e); err != nil {
		return err
	}
	_, err = o.claims.Sweep(ctx, time.Now().Add(100*24*time.Hour))
	return err
}
