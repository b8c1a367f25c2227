//go:build unix

package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"kennel/channels"
	"kennel/client"
	"kennel/internal/azure"
	"kennel/internal/customhandler"
	"kennel/internal/storetest"
	"kennel/internal/table"
	"kennel/queue"
)

// blogsTable opens the table of blogs directly.
func blogsTable(ts *testscript.TestScript) *azure.Table {
	tables, err := azure.Account{ConnectionString: ts.Getenv("STORAGE")}.OpenTables(nil)
	ts.Check(err)
	blogs, err := azure.NewTable(tables, "Blogs")
	ts.Check(err)
	return blogs
}

// scriptFill inserts blogs directly into the table, in the layout of package
// channels. By HTTP it would take minutes.
func scriptFill(ts *testscript.TestScript, _ bool, args []string) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	channel, err := appAt(ts, ts.Getenv("URL")).Channel(ctx, args[0])
	ts.Check(err)
	_, err = storetest.FillPartition(ctx, blogsTable(ts), args[0]+"@"+channel.Incarnation, number(ts, args[1]))
	ts.Check(err)
}

// scriptBegin accepts the deletion of a channel without deleting blogs.
func scriptBegin(ts *testscript.TestScript, _ bool, args []string) {
	account := azure.Account{ConnectionString: ts.Getenv("STORAGE")}
	tables, err := account.OpenTables(nil)
	ts.Check(err)
	queues, err := account.OpenQueues(nil)
	ts.Check(err)
	table, err := azure.NewTable(tables, "Channels")
	ts.Check(err)
	outbox, err := queue.NewOutbox(queues, "delete-channel-and-blogs")
	ts.Check(err)
	c, err := channels.New(table, blogsTable(ts), outbox, &channels.Options{AcceptFor: -1})
	ts.Check(err)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	d, err := c.Delete(ctx, args[0], "")
	ts.Check(err)
	if d.State != channels.Running {
		ts.Fatalf("the deletion is %s, want it running", d.State)
	}
}

// scriptRows counts the rows of blogs, keys and fences of all channels that had
// the name.
func scriptRows(ts *testscript.TestScript, _ bool, args []string) {
	blogs, found := blogsTable(ts), 0
	for q := (table.Query{KeysOnly: true, Top: table.MaxPage}); ; {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		page, err := blogs.Query(ctx, q)
		cancel()
		ts.Check(err)
		for _, row := range page.Rows {
			if strings.HasPrefix(row.Partition, args[0]+"@") {
				found++
			}
		}
		if q.After = page.Next; q.After == "" {
			break
		}
	}
	if strconv.Itoa(found) != args[1] {
		ts.Fatalf("%d rows of %s, want %s", found, args[0], args[1])
	}
}

// scriptStorm deletes a channel with a handler that is killed with SIGKILL and
// started again while it works, until the deletion is done. It delivers the
// queue messages itself: the local host would stop after three crashes, and
// would leave the message to the sweep after 20 deliveries.
//
// The handler runs longer after each kill, so that a slow machine makes
// progress.
func scriptStorm(ts *testscript.TestScript, _ bool, args []string) {
	blogs := int64(number(ts, args[1]))
	queues, err := azure.Account{ConnectionString: ts.Getenv("STORAGE")}.OpenQueues(nil)
	ts.Check(err)
	s := &storm{
		victim: newInstance(ts),
		queues: queues,
		app:    appAt(ts, ts.Getenv("URL")),
	}
	s.channel, err = s.app.Channel(context.Background(), args[0])
	ts.Check(err)

	ctx, stop := context.WithTimeout(context.Background(), patience)
	var killing sync.WaitGroup
	ts.Check(s.victim.start())
	defer func() { s.victim.kill() }()
	defer killing.Wait()
	defer stop()
	killing.Go(func() { s.kill(ctx, stop) })

	for s.deletion(ctx) == nil && ctx.Err() == nil { // an impatient caller repeats the request
		s.work(ctx, func(ctx context.Context) error {
			_, err := appAt(ts, s.victim.url()).DeleteChannel(ctx, args[0], s.channel.ETag)
			return err
		})
	}
	if len(args) == 3 && ctx.Err() == nil {
		// The name is free, and another user takes it at once.
		_, created, err := s.app.CreateChannel(ctx, args[0], args[2])
		ts.Check(err)
		if !created {
			ts.Fatalf("the name is not free while its channel is deleted")
		}
		_, err = s.app.AddBlog(ctx, args[0], client.Draft{Title: "mine", UserID: args[2]})
		ts.Check(err)
	}
	for ctx.Err() == nil {
		if d := s.deletion(ctx); d != nil && d.State == client.Done {
			if d.Deleted != blogs {
				ts.Fatalf("the record has %d blogs, want %d", d.Deleted, blogs)
			}
			break
		}
		if err := s.deliver(ctx); err != nil {
			ts.Fatalf("%v", err)
		}
	}
	stop()
	killing.Wait()
	ts.Check(s.wrong)
	if d := s.deletion(context.Background()); d == nil || d.State != client.Done {
		count, err := s.queues.Count(context.Background(), cleanupQueue)
		ts.Fatalf("the deletion is not done after %v: %+v; the queue holds %d messages (%v), the last deliveries were\n%s\n%d kills, %d during work; the handler wrote\n%s",
			patience, d, count, err, strings.Join(s.deliveries, "\n"), s.kills, s.hits, s.victim.log.String())
	}
	ts.Logf("deleted %d blogs over %d kills, %d of them during work", blogs, s.kills, s.hits)
	if s.hits == 0 {
		ts.Fatalf("no kill hit the handler during work, so nothing is proved")
	}
}

type storm struct {
	victim  *instance
	queues  *azure.Queues
	app     *client.Client // through a handler that is not killed
	channel client.Channel

	mu   sync.Mutex
	lost context.CancelFunc // ends the request that the victim has; nil if it has none; guarded by mu

	deliveries []string // the last ones, and how they ended

	kills, hits int   // written only by kill, read after it has ended
	wrong       error // likewise
}

// cleanupQueue has the messages of deletions.
const cleanupQueue = "delete-channel-and-blogs"

// redelivery is when a message comes again whose delivery was lost: the machine may
// stand still for longer than a request may take. No other receives it, so a
// delivery may take longer than that.
const redelivery = 15 * time.Second

// work sends a request to the victim. It ends when the victim is killed.
func (s *storm) work(ctx context.Context, send func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s.is(cancel)
	defer s.is(nil)
	return send(ctx)
}

func (s *storm) is(lost context.CancelFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost = lost
}

// kill kills the victim while it works and starts it again, until ctx ends. The
// first kill is as soon as the deletion has started, so that it comes in time on
// a fast machine. After that the victim works for a while, and after each kill
// that hit it at work a quarter longer.
func (s *storm) kill(ctx context.Context, giveUp func()) {
	for s.deletion(ctx) == nil && pause(ctx, time.Millisecond) == nil {
	}
	for life := 20 * time.Millisecond; ctx.Err() == nil; pause(ctx, life) {
		s.victim.kill()
		s.mu.Lock()
		if s.kills++; s.lost != nil {
			s.hits++
			life += life / 4
			s.lost()
		}
		s.mu.Unlock()
		err := s.victim.start()
		if err == nil {
			err = customhandler.NewClient(s.victim.url()).Ready(ctx)
		}
		if err != nil && ctx.Err() == nil {
			s.wrong = err
			giveUp()
			return
		}
		for !s.working() && pause(ctx, time.Millisecond) == nil {
		}
	}
}

func (s *storm) working() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lost != nil
}

// deletion reads the record of the deletion. It returns nil if there is none.
func (s *storm) deletion(ctx context.Context) *client.Deletion {
	d, err := s.app.Deletion(ctx, s.channel.Name, s.channel.Incarnation)
	if err != nil {
		return nil
	}
	return &d
}

// deliver delivers a message to the victim, as the host does. A request that
// storage does not answer in time is made again with the next delivery.
func (s *storm) deliver(ctx context.Context) error {
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	messages, err := s.queues.Receive(limited, cleanupQueue, 1, redelivery)
	if err != nil {
		return s.keep("a receive", err)
	}
	if len(messages) == 0 {
		pause(ctx, 100*time.Millisecond) // between two polls, as the host does
		return nil
	}
	m := messages[0]
	text, err := base64.StdEncoding.DecodeString(m.Body)
	if err != nil {
		return err
	}
	failure := s.work(limited, func(ctx context.Context) error {
		_, err := customhandler.NewClient(s.victim.url()).Invoke(ctx, "ChannelCleanup", customhandler.Trigger{Function: "ChannelCleanup", Binding: "message"}.Queue(
			customhandler.QueueMessage{Text: string(text), ID: m.ID, PopReceipt: m.Receipt, DequeueCount: m.DequeueCount,
				Inserted: m.Inserted, Expires: m.Expires, NextVisible: m.NextVisible}))
		return err
	})
	if failure == nil {
		err = s.queues.Delete(limited, cleanupQueue, m)
	} else {
		_, err = s.queues.Update(limited, cleanupQueue, m, 0)
	}
	return s.keep(fmt.Sprintf("delivery %d of message %s ended with %v", m.DequeueCount, m.ID, failure), err)
}

// keep keeps what is known of a delivery for the message of a failed test. It
// returns the error of storage, unless storage was late.
func (s *storm) keep(what string, err error) error {
	if err != nil {
		what += fmt.Sprintf(", and storage: %v", err)
	}
	s.deliveries = append(s.deliveries[max(0, len(s.deliveries)-9):], what)
	if errors.Is(err, azure.ErrTimeout) {
		return nil
	}
	return err
}
