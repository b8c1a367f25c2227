package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"kennel/channels"
)

func (con *console) blogsCommand() *cobra.Command {
	var o channelOptions
	add := &cobra.Command{
		Use:   "add CHANNEL",
		Short: "post a blog",
		Long: `Posts a blog into the channel. Kennel sends it once and does not retry. If the response is
lost, the blog may exist: kennel reports that, and you should list the blogs before you
post it again.`,
		Example:     "kennel blogs add news --title \"Hello\" --text \"It works.\"",
		Annotations: exits("0 posted, 1 the app was not reached or returned an error, 2 usage"),
		Args:        oneChannel,
		RunE:        con.channelRun(&o, addBlog),
	}
	flags := add.Flags()
	flags.StringVar(&o.title, "title", "", "add a blog with the title `T`")
	flags.StringVar(&o.text, "text", "", "add a blog with the text `TEXT`")
	flags.StringVar(&o.file, "file", "", "add a blog with the text from `FILE`, up to 256 KiB; - is standard input")
	flags.StringVar(&o.user, "user", "", "add a blog by `WHO` (default: your login name)")
	completeFile(add, "file")

	list := &cobra.Command{
		Use:         "list CHANNEL",
		Short:       "print all blogs of the channel, one per line",
		Long:        "Prints all blogs of the channel in the order of their creation, one per line; with --json\nincluding their texts.",
		Example:     "kennel blogs list news --json",
		Annotations: exits("0 printed, 1 the app was not reached or returned an error, 2 usage"),
		Args:        oneChannel,
		RunE:        con.channelRun(&o, listBlogs),
	}

	blogs := group(&cobra.Command{
		Use:         "blogs <command>",
		Short:       "post blogs into a channel, and list them",
		Long:        `A blog belongs to a channel; see also "kennel channels".`,
		Example:     "kennel blogs add news --title \"Hello\" --text \"It works.\"\nkennel blogs list news --json",
		Annotations: exits("0 done, 1 the app was not reached or returned an error, 2 usage"),
	}, add, list)
	o.shared(blogs.PersistentFlags())
	return blogs
}

func addBlog(ctx context.Context, con *console, app channelsRemote, o channelOptions) error {
	switch {
	case o.title == "":
		return usagef("a blog needs a title; use --title")
	case o.text != "" && o.file != "":
		return usagef("use either --text or --file, not both")
	}
	if o.user == "" {
		o.user = loginName(con.env)
	}
	if o.file != "" {
		text, err := con.readText(o.file)
		if err != nil {
			return err
		}
		o.text = text
	}
	blog, err := app.post(ctx, channels.Draft{Title: o.title, Text: o.text, UserID: o.user})
	if err != nil {
		return err
	}
	return con.print(blog.line, describeBlog(blog.Blog), o.asJSON)
}

// readText reads at most maxResponse bytes, which is more than the app accepts.
func (con *console) readText(path string) (string, error) {
	in := con.stdin
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return "", err
		}
		defer file.Close()
		in = file
	}
	text, err := io.ReadAll(io.LimitReader(in, maxResponse))
	if err != nil {
		return "", fmt.Errorf("read the text: %w", err)
	}
	return string(text), nil
}

func listBlogs(ctx context.Context, con *console, app channelsRemote, o channelOptions) error {
	return app.each(ctx, app.address()+"/blogs", listPage, func(item json.RawMessage) error {
		var blog channels.Blog
		if err := json.Unmarshal(item, &blog); err != nil {
			return app.unexpected(err)
		}
		return con.print(item, describeBlog(blog), o.asJSON)
	})
}

func describeBlog(b channels.Blog) string {
	return oneLine(fmt.Sprintf("%s by %s: %s", b.ID, b.UserID, b.Title))
}
