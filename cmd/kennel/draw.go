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

// A draw requests numbers of one sequence from one app, once.
type draw struct {
	remote
	sequence string
	count    int
}

func newDraw(app remote, sequence string, count int) draw {
	app.has, app.unsure = "sequences", "numbers may have been drawn and lost"
	return draw{app, sequence, count}
}

// printLines prints the numbers, one per line, as they arrive.
func (d draw) printLines(ctx context.Context, w io.Writer) error {
	resp, err := d.send(ctx, d.request("text/plain"))
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
			err = fmt.Errorf("the app at %s returned %q instead of a number", d.base, lines.Text())
			return errors.Join(err, out.Flush())
		}
		fmt.Fprintln(out, n)
		printed++
	}
	// Numbers that arrived were drawn for this caller: print them even after an
	// error.
	if err := errors.Join(out.Flush(), lines.Err()); err != nil {
		return fmt.Errorf("stopped after %d of %d numbers: %w", printed, d.count, err)
	}
	if printed != d.count {
		return fmt.Errorf("the app at %s returned %d numbers instead of %d", d.base, printed, d.count)
	}
	return nil
}

// printJSON prints the response as one line of JSON, otherwise unchanged.
func (d draw) printJSON(ctx context.Context, w io.Writer) error {
	resp, err := d.send(ctx, d.request("application/json"))
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

func (d draw) request(accept string) request {
	return request{
		method: http.MethodPost,
		path:   "/api/sequences/" + url.PathEscape(d.sequence) + "/next?count=" + strconv.Itoa(d.count),
		accept: accept,
	}
}
