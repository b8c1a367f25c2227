package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"

	"kennel/channels"
)

var blogVerbs = []channelVerb{
	{"add", true, []string{"title", "text", "file", "user"}, addBlog},
	{"list", true, nil, listBlogs},
}

func blogsCommand() *command {
	var o channelOptions
	flags := flag.NewFlagSet("blogs", flag.ContinueOnError)
	flags.StringVar(&o.title, "title", "", "add a blog with the title `T`")
	flags.StringVar(&o.text, "text", "", "add a blog with the text `TEXT`")
	flags.StringVar(&o.file, "file", "", "add a blog with the text in `FILE`, up to 256 KiB; - is standard input")
	flags.StringVar(&o.user, "user", "", "add a blog of `WHO` (default: your login name)")
	o.shared(flags)
	return &command{
		name:     "blogs",
		synopsis: "add|list CHANNEL [flags]",
		summary:  "post blogs into a channel, and list them",
		about: `Blogs are in a channel; see also "kennel channels".

  add     post a blog
  list    print all blogs of the channel in the order of their creation, one a line;
          with --json also their texts

A blog is posted once. If the answer got lost it may be there all the same: kennel says
so, and leaves it to you to look before you post it again.`,
		example: "kennel blogs add news --title \"Hello\" --text \"It works.\"\nkennel blogs list news --json",
		exits:   "0 done, 1 the app was not reached or refused, 2 usage",
		flags:   flags,
		mixed:   true,
		maxArgs: 2,
		run: func(ctx context.Context, con *console, args []string) error {
			return runChannelVerb(ctx, con, flags, blogVerbs, args, o)
		},
	}
}

func addBlog(ctx context.Context, con *console, app channelsRemote, o channelOptions) error {
	switch {
	case o.title == "":
		return usagef("a blog needs a title: give --title")
	case o.text != "" && o.file != "":
		return usagef("the text is either in --text or in --file")
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

// readText reads no more than the app could take.
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
	text, err := io.ReadAll(io.LimitReader(in, maxAnswer))
	if err != nil {
		return "", fmt.Errorf("read the text: %w", err)
	}
	return string(text), nil
}

func listBlogs(ctx context.Context, con *console, app channelsRemote, o channelOptions) error {
	return app.each(ctx, app.address()+"/blogs", listPage, func(item json.RawMessage) error {
		var blog channels.Blog
		if err := json.Unmarshal(item, &blog); err != nil {
			return app.strange(err)
		}
		return con.print(item, describeBlog(blog), o.asJSON)
	})
}

func describeBlog(b channels.Blog) string {
	return oneLine(fmt.Sprintf("%s by %s: %s", b.ID, b.UserID, b.Title))
}
