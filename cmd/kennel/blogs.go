package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"kennel/client"
)

func (con *console) blogsCommand() *cobra.Command {
	var o channelOptions
	add := &cobra.Command{
		Use:   "add CHANNEL",
		Short: "post a blog",
		Long: `Posts a blog into the channel. Kennel sends it with a random key, so that a retry adds no
second blog. If all responses are lost, the blog may exist: kennel reports that, and you
should list the blogs before you post it again.

With --idempotency-key you choose the key, and can run the same command again for 24
hours: it prints the blog that exists. Another blog with the key is rejected.`,
		Example:     "kennel blogs add news --title \"Hello\" --text \"It works.\"",
		Annotations: requestExits("posted"),
		Args:        oneChannel,
	}
	add.RunE = func(cmd *cobra.Command, args []string) error {
		if o.once == "" && cmd.Flags().Changed("idempotency-key") {
			return usagef("--idempotency-key has no value")
		}
		return con.channelRun(&o, addBlog)(cmd, args)
	}
	flags := add.Flags()
	flags.StringVar(&o.title, "title", "", "add a blog with the title `T`")
	flags.StringVar(&o.text, "text", "", "add a blog with the text `TEXT`")
	flags.StringVar(&o.file, "file", "", "add a blog with the text from `FILE`, up to 256 KiB;\n- is standard input")
	flags.StringVar(&o.user, "user", "", "add a blog by `WHO` (default: your login name)")
	flags.StringVar(&o.once, "idempotency-key", "", "add a blog only if none was added with the key `K`")
	completeFile(add, "file")

	list := &cobra.Command{
		Use:         "list CHANNEL",
		Short:       "print all blogs of the channel, one per line",
		Long:        "Prints all blogs of the channel in the order of their creation, or with --newest in the\nreverse order, one per line; with --json including their texts.",
		Example:     "kennel blogs list news --newest | head",
		Annotations: requestExits("printed"),
		Args:        oneChannel,
		RunE:        con.channelRun(&o, listBlogs),
	}
	list.Flags().BoolVar(&o.newest, "newest", false, "print the newest blog first")

	blogs := group(&cobra.Command{
		Use:         "blogs <command>",
		Short:       "post blogs into a channel, and list them",
		Long:        `A blog belongs to a channel; see also "kennel channels".`,
		Example:     "kennel blogs add news --title \"Hello\" --text \"It works.\"\nkennel blogs list news --json",
		Annotations: requestExits("done"),
	}, add, list)
	o.addTo(blogs.PersistentFlags(), responsesAsJSON)
	completeFirst(blogs, completeNames(con, &o.target, (*client.Client).Channels, channelName))
	return blogs
}

func addBlog(ctx context.Context, con *console, app *app, channel string, o channelOptions) error {
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
		text, err := con.readText(ctx, o.file)
		if err != nil {
			return err
		}
		o.text = text
	}
	app.lookup = fmt.Sprintf("kennel blogs list %q", channel)
	draft := client.Draft{Title: o.title, Text: o.text, UserID: o.user}
	var blog client.Blog
	var err error
	if o.once == "" {
		blog, err = app.AddBlog(ctx, channel, draft)
	} else {
		blog, err = app.AddBlogOnce(ctx, channel, o.once, draft)
	}
	if err != nil {
		return app.failed(err)
	}
	return con.print(blog.JSON(), describeBlog(blog), o.asJSON)
}

// maxText is more than the app accepts.
const maxText = 1 << 20

// readText reads at most maxText bytes of a file, or of standard input for "-".
func (con *console) readText(ctx context.Context, path string) (string, error) {
	in := con.stdin
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return "", err
		}
		defer file.Close()
		in = file
	}
	type result struct {
		text []byte
		err  error
	}
	read := make(chan result, 1)
	go func() { // ends with the program if no more text is typed
		text, err := io.ReadAll(io.LimitReader(in, maxText))
		read <- result{text, err}
	}()
	select {
	case r := <-read:
		if r.err != nil {
			return "", fmt.Errorf("read the text: %w", r.err)
		}
		return string(r.text), nil
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

func listBlogs(ctx context.Context, con *console, app *app, channel string, o channelOptions) error {
	blogs := app.Blogs(ctx, channel)
	if o.newest {
		blogs = app.NewestBlogs(ctx, channel)
	}
	for blog, err := range blogs {
		if err != nil {
			return app.failed(err)
		}
		if err := con.print(blog.JSON(), describeBlog(blog), o.asJSON); err != nil {
			return err
		}
	}
	app.listed()
	return nil
}

func describeBlog(b client.Blog) string {
	return oneLine(fmt.Sprintf("%s by %s: %s", b.ID, b.UserID, b.Title))
}
