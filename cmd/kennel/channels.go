package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kennel/client"
)

// channelOptions are the flags of "kennel channels" and "kennel blogs".
type channelOptions struct {
	owner       string
	incarnation string
	yes, watch  bool
	newest      bool
	title, text string
	file, user  string
	once        string
	target
}

// A channelVerb carries out a command below "kennel channels" or "kennel
// blogs".
type channelVerb func(ctx context.Context, con *console, app *app, name string, o channelOptions) error

func (con *console) channelsCommand() *cobra.Command {
	var o channelOptions
	create := &cobra.Command{
		Use:         "create NAME",
		Short:       "create the channel if it does not exist",
		Long:        "Creates the channel for an owner. If it exists and belongs to this owner, nothing changes\nand that is not an error.",
		Example:     "kennel channels create news --owner ann",
		Annotations: requestExits("the channel exists"),
		Args:        oneChannel,
		RunE:        con.channelRun(&o, createChannel),
	}
	create.Flags().StringVar(&o.owner, "owner", "", "create the channel for `WHO` (default: your login name)")

	list := &cobra.Command{
		Use:         "list",
		Short:       "print all channels, one per line",
		Long:        "Prints all channels, one per line.",
		Example:     "kennel channels list --json",
		Annotations: requestExits("printed"),
		Args:        noWords,
		RunE:        con.channelRun(&o, listChannels),
	}

	show := &cobra.Command{
		Use:   "show NAME",
		Short: "print the channel, or the record of its deletion",
		Long: `Prints the channel, or the record of its deletion if it was deleted. With --watch it
reports the progress of a running deletion until it is done.`,
		Example:     "kennel channels show news --watch",
		Annotations: requestExits("printed"),
		Args:        oneChannel,
		RunE:        con.channelRun(&o, showChannel),
	}
	show.Flags().StringVar(&o.incarnation, "incarnation", "", "show the channel of this name with the incarnation `ID`, or the\nrecord of its deletion: the name may be in use again")
	o.addWatchTo(show.Flags())

	remove := &cobra.Command{
		Use:   "delete NAME",
		Short: "delete the channel with all its blogs",
		Long: `Deletes the channel with all its blogs. A deletion cannot be undone, so kennel asks for
confirmation; --yes skips the question.

Once the app has accepted it, readers no longer see the channel and its name is free. The
app then deletes the blogs, and continues after restarts. With --watch kennel first
counts the blogs for a few seconds, and then reports how many are deleted, the rate and
the remaining time.`,
		Example:     "kennel channels delete news --watch",
		Annotations: requestExits("accepted, or with --watch done"),
		Args:        oneChannel,
		RunE:        con.channelRun(&o, deleteChannel),
	}
	remove.Flags().BoolVar(&o.yes, "yes", false, "delete without confirmation")
	o.addWatchTo(remove.Flags())

	channels := group(&cobra.Command{
		Use:         "channels <command>",
		Short:       "create channels, list them and delete them with all their blogs",
		Long:        `A channel belongs to an owner and holds blogs; see also "kennel blogs".`,
		Example:     "kennel channels create news --owner ann\nkennel channels delete news --watch",
		Annotations: requestExits("done"),
	}, create, list, show, remove)
	o.addTo(channels.PersistentFlags(), responsesAsJSON)
	completeFirst(channels, completeNames(con, &o.target, (*client.Client).Channels, channelName))
	create.ValidArgsFunction = nil // its name is new
	return channels
}

const responsesAsJSON = "print the app's response as JSON, one object per line"

func (o *channelOptions) addWatchTo(flags *pflag.FlagSet) {
	flags.BoolVar(&o.watch, "watch", false, "wait until the deletion is done and report its progress")
}

var oneChannel = oneWord("channel name", "news")

// channelRun returns the function of a command whose only argument, if it has
// one, is the name of a channel.
func (con *console) channelRun(o *channelOptions, verb channelVerb) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		app, err := con.openApp(o.target)
		if err != nil {
			return err
		}
		name := ""
		if len(args) > 0 {
			name = args[0]
			app.lookup = fmt.Sprintf("kennel channels show %q", name)
		}
		return verb(cmd.Context(), con, app, name, *o)
	}
}

func createChannel(ctx context.Context, con *console, app *app, name string, o channelOptions) error {
	if o.owner == "" {
		o.owner = loginName(con.env)
	}
	channel, created, err := app.CreateChannel(ctx, name, o.owner)
	if err != nil {
		return app.failed(err)
	}
	if !created {
		con.say("nothing changed: the channel already exists")
	}
	return con.print(channel.JSON(), describeChannel(channel), o.asJSON)
}

func listChannels(ctx context.Context, con *console, app *app, _ string, o channelOptions) error {
	for channel, err := range app.Channels(ctx) {
		if err != nil {
			return app.failed(err)
		}
		if err := con.print(channel.JSON(), describeChannel(channel), o.asJSON); err != nil {
			return err
		}
	}
	app.listed()
	return nil
}

// showChannel shows a channel, or the record of its deletion if it does not
// exist.
func showChannel(ctx context.Context, con *console, app *app, name string, o channelOptions) error {
	channel, err := app.Channel(ctx, name)
	if err == nil && (o.incarnation == "" || o.incarnation == channel.Incarnation) {
		return con.print(channel.JSON(), describeChannel(channel), o.asJSON)
	}
	if err != nil && !hasCode(err, "channel_not_found") {
		return app.failed(err)
	}
	deletion, notDeleted := app.Deletion(ctx, name, o.incarnation)
	if o.incarnation == "" && hasCode(notDeleted, "deletion_not_found") {
		return app.failed(err)
	}
	if notDeleted != nil {
		return app.failed(notDeleted)
	}
	return con.finishDeletion(ctx, app, o, deletion, watching{total: unknown})
}

// deleteChannel deletes exactly the channel that it has read. A request that is
// sent twice cannot delete a newer channel with the same name.
func deleteChannel(ctx context.Context, con *console, app *app, name string, o channelOptions) error {
	channel, err := app.Channel(ctx, name)
	if hasCode(err, "channel_not_found") {
		deletion, notDeleted := app.Deletion(ctx, name, "")
		if notDeleted != nil {
			return app.failed(err)
		}
		con.say("nothing changed: the channel was already deleted")
		return con.finishDeletion(ctx, app, o, deletion, watching{total: unknown})
	}
	if err != nil {
		return app.failed(err)
	}
	if !o.yes {
		if !isTerminal(con.stdin) {
			return usagef("standard input is not a terminal; use --yes to delete channel %s without confirmation", printable(name))
		}
		question := fmt.Sprintf("Delete channel %s of %s at %s with all its blogs? This cannot be undone.", name, channel.Owner, app.Address())
		if err := con.confirm(ctx, printable(question), "not deleted"); err != nil {
			return err
		}
	}
	w := watching{total: unknown}
	if o.watch {
		if w.total, err = con.countBlogs(ctx, app, name); err != nil {
			return app.failed(err)
		}
	}
	w.began = time.Now()
	deletion, err := app.DeleteChannel(ctx, name, channel.ETag)
	if err != nil {
		return app.failed(err)
	}
	return con.finishDeletion(ctx, app, o, deletion, w)
}

// countBlogs counts the blogs of a channel. The result is unknown if there are
// very many.
func (con *console) countBlogs(ctx context.Context, app *app, name string) (int64, error) {
	out := con.progress()
	defer out.end()
	out.show("counting the blogs …")
	n, all, err := app.CountBlogs(ctx, name)
	if err != nil || all {
		return n, err
	}
	out.say("the channel has more than %s; the rest is not counted", blogCount(n))
	return unknown, nil
}

// finishDeletion prints the record of a deletion. With --watch it first waits
// until the deletion is done.
func (con *console) finishDeletion(ctx context.Context, app *app, o channelOptions, d client.Deletion, w watching) error {
	if o.watch {
		var err error
		if d, err = con.watch(ctx, app, d, w); err != nil {
			return app.failed(err)
		}
	} else if d.State == client.Running {
		con.say("the app continues the deletion; to watch it: %s channels show --watch --incarnation %s %s", con.program, printable(d.Incarnation), printable(d.Channel))
	}
	return con.print(d.JSON(), describeDeletion(d), o.asJSON)
}

// print writes one line: text, or the JSON that the app returned.
func (con *console) print(line []byte, description string, asJSON bool) error {
	text := printable(description)
	if asJSON {
		text = string(line)
	}
	_, err := io.WriteString(con.stdout, text+"\n")
	return err
}

func describeChannel(c client.Channel) string {
	return oneLine(fmt.Sprintf("%s belongs to %s, since %s", c.Name, c.Owner, c.CreatedAt.UTC().Format(time.RFC3339)))
}

func describeDeletion(d client.Deletion) string {
	if d.State == client.Running {
		return oneLine(fmt.Sprintf("%s is being deleted: %s deleted since %s", d.Channel, blogCount(d.Deleted), d.StartedAt.UTC().Format(time.RFC3339)))
	}
	return oneLine(fmt.Sprintf("%s was deleted with %s, at %s, in %v", d.Channel, blogCount(d.Deleted),
		d.FinishedAt.UTC().Format(time.RFC3339), d.FinishedAt.Sub(d.StartedAt).Round(time.Millisecond)))
}

func blogCount(n int64) string {
	if n == 1 {
		return "1 blog"
	}
	return fmt.Sprintf("%d blogs", n)
}

// oneLine joins all lines of a text from the app into one.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
