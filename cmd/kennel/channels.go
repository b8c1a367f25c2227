package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

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

// A channelVerb is a word after "kennel channels" or "kennel blogs".
type channelVerb struct {
	name  string
	named bool     // the next word is the name of a channel
	flags []string // besides those of all verbs
	run   func(ctx context.Context, con *console, app channelsRemote, o channelOptions) error
}

var channelVerbs = []channelVerb{
	{"create", true, []string{"owner"}, createChannel},
	{"list", false, nil, listChannels},
	{"show", true, []string{"watch", "incarnation"}, showChannel},
	{"delete", true, []string{"yes", "watch"}, deleteChannel},
}

func channelsCommand() *command {
	var o channelOptions
	flags := flag.NewFlagSet("channels", flag.ContinueOnError)
	flags.StringVar(&o.owner, "owner", "", "create the channel for `WHO` (default: your login name)")
	flags.BoolVar(&o.yes, "yes", false, "delete without confirmation")
	flags.BoolVar(&o.watch, "watch", false, "wait until the deletion is done and report its progress")
	flags.StringVar(&o.incarnation, "incarnation", "", "show the channel with this name and `INCARNATION`, or the record of its deletion;\na deleted channel's name may be in use again")
	o.shared(flags)
	return &command{
		name:     "channels",
		synopsis: "create|list|show|delete [NAME] [flags]",
		summary:  "create channels, list them and delete them with all their blogs",
		about: `A channel belongs to an owner and holds blogs; see also "kennel blogs".

  create    create the channel if it does not exist
  list      print all channels, one per line
  show      print the channel, or the record of its deletion
  delete    delete the channel with all its blogs

A deletion cannot be undone, so kennel asks for confirmation; --yes skips the question.
Once the app has accepted it, readers no longer see the channel and its name is free. The
app then deletes the blogs, and continues after restarts. With --watch kennel first
counts the blogs for a few seconds, and then reports how many are deleted, the rate and
the remaining time. show --watch reports the progress of a running deletion.`,
		example: "kennel channels create news --owner ann\nkennel channels delete news --watch",
		exits:   "0 done (delete: accepted, or with --watch done),\n  1 the app was not reached or returned an error, 2 usage",
		flags:   flags,
		mixed:   true,
		maxArgs: 2,
		run: func(ctx context.Context, con *console, args []string) error {
			return runChannelVerb(ctx, con, flags, channelVerbs, args, o)
		},
	}
}

// shared adds the flags of all verbs.
func (o *channelOptions) shared(flags *flag.FlagSet) {
	o.addTo(flags)
	flags.BoolVar(&o.asJSON, "json", false, "print the app's response as JSON, one object per line")
}

func runChannelVerb(ctx context.Context, con *console, flags *flag.FlagSet, verbs []channelVerb, args []string, o channelOptions) error {
	command := flags.Name()
	var names []string
	for _, v := range verbs {
		names = append(names, v.name)
	}
	if len(args) == 0 {
		return usagef("no %s command given; use one of %s; see `kennel help %[1]s`", command, strings.Join(names, ", "))
	}
	at := slices.Index(names, args[0])
	if at < 0 {
		return usagef("unknown %s command %q; use one of %s", command, printable(args[0]), strings.Join(names, ", "))
	}
	verb := verbs[at]
	if err := onlyFlags(flags, verb.name, verb.flags); err != nil {
		return err
	}
	switch {
	case verb.named && (len(args) < 2 || args[1] == ""):
		return usagef("%s: no channel name given; for example kennel %s %s news", verb.name, command, verb.name)
	case !verb.named && len(args) > 1:
		return usagef("%s: unexpected %q; see `kennel help %s`", verb.name, args[1], command)
	}
	base, err := openRemote(con, o.target)
	if err != nil {
		return err
	}
	base.has = "channels"
	app := channelsRemote{remote: base}
	if verb.named {
		app.name = args[1]
	}
	if err := verb.run(ctx, con, app, o); err != nil {
		return fmt.Errorf("%s: %w", verb.name, err)
	}
	return nil
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
