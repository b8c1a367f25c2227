package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
)

// A draw asks one app for numbers of one sequence, once.
type draw struct {
	remote
	sequence string
	count    int
}

func newDraw(app remote, sequence string, count int) draw {
	app.has, app.unsure = "sequences", "numbers may have been drawn, and then they are a gap"
	return draw{app, sequence, count}
}

// printLines prints the numbers, one a line, as they arrive.
func (d draw) printLines(ctx context.Context, w io.Writer) error {
	resp, err := d.send(ctx, d.ask("text/plain"))
	if err != nil {
		return err
	}
	defer resp.close()
	if err := d.expectType(resp.Response, "text/plain"); err != nil {
		return err
	}

	out := bufio.NewWriter(w)
	printed := 0
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		n, err := strconv.ParseInt(lines.Text(), 10, 64)
		if err != nil || n < 0 {
			err = fmt.Errorf("the app at %s answered %q where a number belongs", d.base, lines.Text())
			return errors.Join(err, out.Flush())
		}
		fmt.Fprintln(out, n)
		printed++
	}
	// What arrived was drawn for this caller, so it is printed in any case.
	if err := errors.Join(out.Flush(), lines.Err()); err != nil {
		return fmt.Errorf("read the numbers, after %d of %d: %w", printed, d.count, err)
	}
	if printed != d.count {
		return fmt.Errorf("the app at %s gave %d numbers where %d were asked for", d.base, printed, d.count)
	}
	return nil
}

// printJSON prints the answer as one line of JSON, the way the app wrote it.
func (d draw) printJSON(ctx context.Context, w io.Writer) error {
	resp, err := d.send(ctx, d.ask("application/json"))
	if err != nil {
		return err
	}
	defer resp.close()
	line, err := d.readJSON(resp, nil)
	if err != nil {
		return err
	}
	_, err = w.Write(line)
	return err
}

func (d draw) ask(accept string) ask {
	return ask{
		method: http.MethodPost,
		path:   "/api/sequences/" + url.PathEscape(d.sequence) + "/next?count=" + strconv.Itoa(d.count),
		accept: accept,
	}
}
