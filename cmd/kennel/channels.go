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
	reach
}

// A channelVerb is something to do with channels or blogs.
type channelVerb struct {
	name  string
	named bool     // it is about the channel that the next word names
	flags []string // of its own
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
	flags.BoolVar(&o.yes, "yes", false, "delete without being asked")
	flags.BoolVar(&o.watch, "watch", false, "stay until the deletion is done, and tell how far it is")
	flags.StringVar(&o.incarnation, "incarnation", "", "show the channel, or the record of its deletion, that had the name as `INCARNATION`:\nothers may have had it since")
	o.shared(flags)
	return &command{
		name:     "channels",
		synopsis: "create|list|show|delete [NAME] [flags]",
		summary:  "create channels, list them, and delete them with all their blogs",
		about: `A channel belongs to an owner and holds blogs; see also "kennel blogs".

  create    create the channel, unless it is there already
  list      print all channels, one a line
  show      print the channel, or the record of its deletion
  delete    delete the channel with all its blogs

Deleting cannot be undone, so kennel asks before it does; --yes answers beforehand.
Once it is accepted, the channel is gone for its readers and its name is free; its
blogs are deleted whatever happens to the app. With --watch kennel counts them first, as
far as it comes in a few seconds, and then tells how many are deleted, how fast, and how
long it will take; show --watch does the same for a deletion that is under way, as far as
it can know.`,
		example: "kennel channels create news --owner ann\nkennel channels delete news --watch",
		exits:   "0 done (delete: accepted, or with --watch done), 1 the app was not reached or refused,\n  2 usage",
		flags:   flags,
		mixed:   true,
		maxArgs: 2,
		run: func(ctx context.Context, con *console, args []string) error {
			return runChannelVerb(ctx, con, flags, channelVerbs, args, o)
		},
	}
}

// shared adds the flags that all verbs have.
func (o *channelOptions) shared(flags *flag.FlagSet) {
	o.addTo(flags)
	flags.BoolVar(&o.asJSON, "json", false, "print what the app answers as JSON, an object a line")
}

func runChannelVerb(ctx context.Context, con *console, flags *flag.FlagSet, verbs []channelVerb, args []string, o channelOptions) error {
	command := flags.Name()
	var names []string
	for _, v := range verbs {
		names = append(names, v.name)
	}
	if len(args) == 0 {
		return usagef("say what to do: %s; see `kennel help %s`", strings.Join(names, ", "), command)
	}
	at := slices.Index(names, args[0])
	if at < 0 {
		return usagef("%q is nothing to do with %s: say %s", printable(args[0]), command, strings.Join(names, ", "))
	}
	verb := verbs[at]
	if err := onlyFlags(flags, verb.name, verb.flags); err != nil {
		return err
	}
	switch {
	case verb.named && (len(args) < 2 || args[1] == ""):
		return usagef("%s: name the channel, for instance kennel %s %s news", verb.name, command, verb.name)
	case !verb.named && len(args) > 1:
		return usagef("%s: unexpected %q; see `kennel help %s`", verb.name, args[1], command)
	}
	base, err := openRemote(con, o.reach)
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
		con.say("nothing to create: the channel was there already")
	}
	return con.print(channel.line, describeChannel(channel.Channel), o.asJSON)
}

func listChannels(ctx context.Context, con *console, app channelsRemote, o channelOptions) error {
	return app.each(ctx, "/api/channels", listPage, func(item json.RawMessage) error {
		var channel channels.Channel
		if err := json.Unmarshal(item, &channel); err != nil {
			return app.strange(err)
		}
		return con.print(item, describeChannel(channel), o.asJSON)
	})
}

// showChannel falls back to the deletion of a channel that is not there.
func showChannel(ctx context.Context, con *console, app channelsRemote, o channelOptions) error {
	channel, err := app.read(ctx)
	if err == nil && (o.incarnation == "" || o.incarnation == channel.Incarnation) {
		return con.print(channel.line, describeChannel(channel.Channel), o.asJSON)
	}
	if err != nil && !saidCode(err, "channel_not_found") {
		return err
	}
	deletion, notDeleted := app.deletion(ctx, o.incarnation)
	if o.incarnation == "" && saidCode(notDeleted, "deletion_not_found") {
		return err
	}
	if notDeleted != nil {
		return notDeleted
	}
	return finishDeletion(ctx, con, app, o, deletion, watching{total: unknown})
}

// deleteChannel deletes the very channel that it has found: a request that is
// sent twice cannot take away another one, which has the name by then.
func deleteChannel(ctx context.Context, con *console, app channelsRemote, o channelOptions) error {
	channel, err := app.read(ctx)
	if saidCode(err, "channel_not_found") {
		deletion, notDeleted := app.deletion(ctx, "")
		if notDeleted != nil {
			return err
		}
		con.say("nothing to delete: the channel was deleted already")
		return finishDeletion(ctx, con, app, o, deletion, watching{total: unknown})
	}
	if err != nil {
		return err
	}
	if !o.yes {
		if !isTerminal(con.stdin) {
			return usagef("there is no terminal to ask at whether channel %s is to be deleted: give --yes", printable(app.name))
		}
		question := fmt.Sprintf("Delete channel %s of %s at %s, with all its blogs? That cannot be undone.", app.name, channel.Owner, app.base)
		if err := con.confirm(ctx, printable(question), "not deleted, as you wish"); err != nil {
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
			con.say("there are more than %s: too many to count them all beforehand", blogCount(n))
		}
	}
	w.began = time.Now()
	deletion, err := app.delete(ctx, channel)
	if err != nil {
		return err
	}
	return finishDeletion(ctx, con, app, o, deletion, w)
}

// finishDeletion prints the record of a deletion, which is waited for if that
// is wanted.
func finishDeletion(ctx context.Context, con *console, app channelsRemote, o channelOptions, d deletionAnswer, w watching) error {
	if o.watch {
		var err error
		if d, err = app.watch(ctx, con, d, w); err != nil {
			return err
		}
	} else if d.State == channels.Running {
		con.say("it goes on by itself; to watch it: %s channels show --watch --incarnation %s %s", con.program, printable(d.Incarnation), printable(app.name))
	}
	return con.print(d.line, describeDeletion(d.Deletion), o.asJSON)
}

// print writes one line: words, or what the app wrote.
func (con *console) print(line []byte, words string, asJSON bool) error {
	text := printable(words)
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
		return oneLine(fmt.Sprintf("%s is being deleted since %s: %s so far", d.Channel, d.StartedAt.UTC().Format(time.RFC3339), blogCount(d.Deleted)))
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

// oneLine keeps what others wrote from taking more than a line.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
