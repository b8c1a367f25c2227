package blob

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"net/http"
	"slices"
	"strings"

	"kennel/devstore/internal/rest"
)

// maxBatch is how many requests a batch may hold.
const maxBatch = 256

func errBatch(reason string) error {
	e := rest.Fail(400, "InvalidInput", "One of the request inputs is not valid.")
	e.Details = []string{"Reason", reason}
	return e
}

// A subrequest is a part of a batch.
type subrequest struct {
	id string // Content-ID
	*http.Request
}

// parseBatch reads the requests of a batch.
func parseBatch(contentType string, body []byte) ([]subrequest, error) {
	kind, params, err := mime.ParseMediaType(contentType)
	if err != nil || kind != "multipart/mixed" || params["boundary"] == "" {
		return nil, rest.InvalidHeader("Content-Type", contentType)
	}
	var all []subrequest
	parts := multipart.NewReader(bytes.NewReader(body), params["boundary"])
	for {
		part, err := parts.NextRawPart()
		switch {
		case errors.Is(err, io.EOF) && len(all) > 0:
			return all, nil
		case err != nil:
			return nil, errBatch("The body is not multipart/mixed.")
		case len(all) == maxBatch:
			return nil, errBatch("There are more than 256 requests.")
		}
		request, err := http.ReadRequest(bufio.NewReader(io.MultiReader(part, strings.NewReader("\r\n\r\n"))))
		if err != nil {
			return nil, errBatch("A part is not an HTTP request.")
		}
		request.Body = http.NoBody
		all = append(all, subrequest{part.Header.Get("Content-ID"), request})
	}
}

// batch answers several deletions, or several changes of the tier, each by
// itself.
func (c *call) batch() (*rest.Answer, error) {
	all, err := parseBatch(c.r.Header("Content-Type"), c.r.Body)
	if err != nil {
		return nil, err
	}
	base := strings.TrimSuffix(c.r.HTTP.URL.EscapedPath(), c.r.Path)
	for _, sub := range all {
		tier := sub.Method == http.MethodPut && sub.URL.Query().Get("comp") == "tier"
		path, found := strings.CutPrefix(sub.URL.EscapedPath(), base)
		switch {
		case sub.Method != http.MethodDelete && !tier:
			return nil, errBatch("A batch holds only Delete Blob or Set Blob Tier.")
		case !found || !strings.Contains(path, "/"):
			return nil, errBatch("A request of the batch names no blob of this account.")
		case c.name != "" && !strings.HasPrefix(path, c.name+"/"):
			return nil, errBatch("A request of the batch names a blob of another container.")
		}
	}
	boundary := "batchresponse_" + c.r.ID
	var b bytes.Buffer
	for _, sub := range all {
		fmt.Fprintf(&b, "--%s\r\nContent-Type: application/http\r\n", boundary)
		if sub.id != "" {
			fmt.Fprintf(&b, "Content-ID: %s\r\n", sub.id)
		}
		b.WriteString("\r\n")
		c.writeAnswer(&b, c.sub(sub.WithContext(c.r.Context())))
	}
	fmt.Fprintf(&b, "--%s--\r\n", boundary)
	return rest.Reply(202).With("multipart/mixed; boundary="+boundary, b.Bytes()), nil
}

// writeAnswer writes the answer of a part as HTTP.
func (c *call) writeAnswer(b *bytes.Buffer, a *rest.Answer) {
	header := make(http.Header, len(a.Header)+3)
	header.Set("x-ms-request-id", c.r.ID)
	header.Set("x-ms-version", c.r.Header("x-ms-version"))
	header.Set("Server", "Windows-Azure-Blob/1.0")
	maps.Copy(header, a.Header)
	header.Set("Content-Length", fmt.Sprint(len(a.Body)))
	fmt.Fprintf(b, "HTTP/1.1 %d %s\r\n", a.Status, http.StatusText(a.Status))
	for _, name := range slices.Sorted(maps.Keys(header)) {
		for _, value := range header[name] {
			fmt.Fprintf(b, "%s: %s\r\n", name, value)
		}
	}
	b.WriteString("\r\n")
	b.Write(a.Body)
	b.WriteString("\r\n")
}
