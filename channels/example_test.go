package channels_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"kennel/channels"
	"kennel/internal/memory"
)

func Example() {
	ctx := context.Background()
	outbox := memory.NewOutbox(memory.NewQueues(nil), "delete-channel-and-blogs")
	c, err := channels.New(memory.NewTable(nil), memory.NewTable(nil), outbox, nil)
	if err != nil {
		log.Fatal(err)
	}

	ch, created, err := c.Create(ctx, "news", "ann")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(ch.Name, "of", ch.Owner, created)

	blog, err := c.Post(ctx, "news", channels.Draft{Title: "Kennel", Text: "First words.", UserID: "ann"})
	if err != nil {
		log.Fatal(err)
	}

	// Two writers read the same version: the second gets ErrChanged.
	draft := channels.Draft{Title: "Kennel", Text: "Better words.", UserID: "ann"}
	if _, err := c.Update(ctx, "news", blog.ID, blog.ETag, draft); err != nil {
		log.Fatal(err)
	}
	_, err = c.Update(ctx, "news", blog.ID, blog.ETag, draft)
	fmt.Println("changed since:", errors.Is(err, channels.ErrChanged))

	d, err := c.Delete(ctx, "news", "")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(d.State, d.Deleted)

	// The name is free, and the old channel stays deleted.
	again, created, err := c.Create(ctx, "news", "bob")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(again.Name, "of", again.Owner, created, again.Incarnation != ch.Incarnation)

	// Output:
	// news of ann true
	// changed since: true
	// done 1
	// news of bob true true
}
