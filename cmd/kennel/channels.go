package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"kennel/channels"
)

// channelOptions are the flags of "kennel channels" and "kennel blogs".
type channelOptions struct {
	owner       string
	incarnation string
	yes, watch  bool
	title, text string
	file, user  string
	asJSON      bool
	target
}

// A channelVerb carries out a command below "kennel channels" or "kennel
// blogs".
type channelVerb func(ctx context.Context, con *console, app channelsRemote, o channelOptions) error

func (con *console) channelsCommand() *cobra.Command {
	var o channelOptions
	create := &cobra.Command{
		Use:         "create NAME",
		Short:       "create the channel if it does not exist",
		Long:        "Creates the channel for an owner. If it exists and belongs to this owner, nothing changes\nand that is not an error.",
		Example:     "kennel channels create news --owner ann",
		Annotations: exits("0 the channel exists, 1 the app was not reached or returned an error, 2 usage"),
		Args:        oneChannel,
		RunE:        con.channelRun(&o, createChannel),
	}
	create.Flags().StringVar(&o.owner, "owner", "", "create the channel for `WHO` (default: your login name)")

	list := &cobra.Command{
		Use:         "list",
		Short:       "print all channels, one per line",
		Long:        "Prints all channels, one per line.",
		Example:     "kennel channels list --json",
		Annotations: exits("0 printed, 1 the app was not reached or returned an error, 2 usage"),
		Args:        noWords,
		RunE:        con.channelRun(&o, listChannels),
	}

	show := &cobra.Command{
		Use:   "show NAME",
		Short: "print the channel, or the record of its deletion",
		Long: `Prints the channel, or the record of its deletion if it was deleted. With --watch it
reports the progress of a running deletion until it is done.`,
		Example:     "kennel channels show news --watch",
		Annotations: exits("0 printed, 1 the app was not reached or returned an error, 2 usage"),
		Args:        oneChannel,
		RunE:        con.channelRun(&o, showChannel),
	}
	show.Flags().StringVar(&o.incarnation, "incarnation", "", "show the channel with this name and `INCARNATION`, or the record of its deletion;\na deleted channel's name may be in use again")
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
		Annotations: exits("0 accepted, or with --watch done,\n1 not confirmed, or the app was not reached or returned an error, 2 usage"),
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
		Annotations: exits("0 done, 1 the app was not reached or returned an error, 2 usage"),
	}, create, list, show, remove)
	o.shared(channels.PersistentFlags())
	return channels
}

// shared adds the flags of all commands.
func (o *channelOptions) shared(flags *pflag.FlagSet) {
	o.addTo(flags)
	flags.BoolVar(&o.asJSON, "json", false, "print the app's response as JSON, one object per line")
}

func (o *channelOptions) addWatchTo(flags *pflag.FlagSet) {
	flags.BoolVar(&o.watch, "watch", false, "wait until the deletion is done and report its progress")
}

var oneChannel = oneWord("channel name", "news")

// channelRun returns the function of a command whose only argument, if it has
// one, is the name of a channel.
func (con *console) channelRun(o *channelOptions, verb channelVerb) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		base, err := openRemote(con, o.target)
		if err != nil {
			return err
		}
		base.has = "channels"
		app := channelsRemote{remote: base}
		if len(args) > 0 {
			app.name = args[0]
		}
		return verb(cmd.Context(), con, app, *o)
	}
}

func createChannel(ctx context.Context, con *console, app channelsRemote, o channelOptions) error {
	if o.owner == "" {
		o.owner = loginName(con.env)
	}
	channel, created, err := app.create(ctx, o.owner)
	if err != nil {
		return err
	}
	if !created {
		con.say("nothing changed: the channel already exists")
	}
	return con.print(channel.line, describeChannel(channel.Channel), o.asJSON)
}

func listChannels(ctx context.Context, con *console, app channelsRemote, o channelOptions) error {
	return app.each(ctx, "/api/channels", listPage, func(item json.RawMessage) error {
		var channel channels.Channel
		if err := json.Unmarshal(item, &channel); err != nil {
			return app.unexpected(err)
		}
		return con.print(item, describeChannel(channel), o.asJSON)
	})
}

// showChannel shows a channel, or the record of its deletion if it does not
// exist.
func showChannel(ctx context.Context, con *console, app channelsRemote, o channelOptions) error {
	channel, err := app.read(ctx)
	if err == nil && (o.incarnation == "" || o.incarnation == channel.Incarnation) {
		return con.print(channel.line, describeChannel(channel.Channel), o.asJSON)
	}
	if err != nil && !hasCode(err, "channel_not_found") {
		return err
	}
	deletion, notDeleted := app.deletion(ctx, o.incarnation)
	if o.incarnation == "" && hasCode(notDeleted, "deletion_not_found") {
		return err
	}
	if notDeleted != nil {
		return notDeleted
	}
	return finishDeletion(ctx, con, app, o, deletion, watching{total: unknown})
}

// deleteChannel deletes exactly the channel that it has read. A request that is
// sent twice cannot delete a newer channel with the same name.
func deleteChannel(ctx context.Context, con *console, app channelsRemote, o channelOptions) error {
	channel, err := app.read(ctx)
	if hasCode(err, "channel_not_found") {
		deletion, notDeleted := app.deletion(ctx, "")
		if notDeleted != nil {
			return err
		}
		con.say("nothing changed: the channel was already deleted")
		return finishDeletion(ctx, con, app, o, deletion, watching{total: unknown})
	}
	if err != nil {
		return err
	}
	if !o.yes {
		if !isTerminal(con.stdin) {
			return usagef("standard input is not a terminal; use --yes to delete channel %s without confirmation", printable(app.name))
		}
		question := fmt.Sprintf("Delete channel %s of %s at %s with all its blogs? This cannot be undone.", app.name, channel.Owner, app.base)
		if err := con.confirm(ctx, printable(question), "not deleted"); err != nil {
			return err
		}
	}
	w := watching{total: unknown}
	if o.watch {
		done := con.step("counting the blogs")
		n, all, err := app.countBlogs(ctx)
		done()
		switch {
		case err != nil:
			return err
		case all:
			w.total = n
		default:
			con.say("the channel has more than %s; the rest is not counted", blogCount(n))
		}
	}
	w.began = time.Now()
	deletion, err := app.delete(ctx, channel)
	if err != nil {
		return err
	}
	return finishDeletion(ctx, con, app, o, deletion, w)
}

// finishDeletion prints the record of a deletion. With --watch it first waits
// until the deletion is done.
func finishDeletion(ctx context.Context, con *console, app channelsRemote, o channelOptions, d deletionAnswer, w watching) error {
	if o.watch {
		var err error
		if d, err = app.watch(ctx, con, d, w); err != nil {
			return err
		}
	} else if d.State == channels.Running {
		con.say("the app continues the deletion; to watch it: %s channels show --watch --incarnation %s %s", con.program, printable(d.Incarnation), printable(app.name))
	}
	return con.print(d.line, describeDeletion(d.Deletion), o.asJSON)
}

// print writes one line: text, or the JSON that the app returned.
func (con *console) print(line []byte, description string, asJSON bool) error {
	text := printable(description)
	if asJSON {
		text = strings.TrimSuffix(string(line), "\n")
	}
	_, err := io.WriteString(con.stdout, text+"\n")
	return err
}

func describeChannel(c channels.Channel) string {
	return oneLine(fmt.Sprintf("%s belongs to %s, since %s", c.Name, c.Owner, c.CreatedAt.UTC().Format(time.RFC3339)))
}

func describeDeletion(d channels.Deletion) string {
	if d.State == channels.Running {
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
