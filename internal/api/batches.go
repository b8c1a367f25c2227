package api

import (
	"errors"
	"fmt"
	"log/slog"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"kennel/internal/customhandler"
	"kennel/internal/edge"
	"kennel/work"
)

// maxUpload limits the body of a submission, in bytes. It is the Functions
// host's own limit. KENNEL_BATCH_MAX_BYTES limits what the body holds.
const maxUpload = 100 << 20

// The content types of batches and reports.
const (
	jsonMedia   = "application/json"
	NdjsonMedia = "application/x-ndjson"
	CsvMedia    = "text/csv"
)

// CsvType is the value of the header Content-Type of results as CSV.
var CsvType = []string{CsvMedia + "; charset=utf-8"}

// BatchResource serves batches.
type BatchResource struct {
	Opens func() (*work.Batches, error) // opens them for the first use: a start needs nothing of it
	Known []string                      // the names of the processors, sorted
	Log   *slog.Logger
}

func (b BatchResource) Routes() []edge.Route {
	const function = "SubmitBatch"
	page := []string{"top", "continuation"}
	return []edge.Route{
		{Function: function, Pattern: "POST /api/batches", Query: []string{"processor", "name"}, Conditions: []string{edge.IdempotencyKey}, Body: true, MaxBody: maxUpload, Handler: b.serve(BatchSubmitFailures, b.submit)},
		{Function: function, Pattern: "GET /api/batches", Query: append([]string{"order"}, page...), Handler: b.serveLimited(b.list)},
		{Function: function, Pattern: "GET /api/batches/{batch}", Handler: b.serveLimited(b.read)},
		{Function: function, Pattern: "GET /api/batches/{batch}/results", Query: append([]string{"outcome"}, page...), Handler: b.serveLimited(b.results)},
		{Function: function, Pattern: "GET /api/batches/{batch}/report", Query: []string{"safe"}, Handler: b.serveLimited(b.Report)},
	}
}

// batchCall serves a call for batches.
type batchCall func(batches *work.Batches, r *http.Request) (edge.Reply, error)

func (b BatchResource) serve(failures []Failure, do batchCall) http.Handler {
	return Serve(failures, func(r *http.Request) (edge.Reply, error) {
		batches, err := b.Opens()
		if err != nil {
			return edge.Reply{}, errBatchesOff
		}
		return do(batches, r)
	})
}

func (b BatchResource) serveLimited(do batchCall) http.Handler {
	return b.serve(BatchFailures, func(batches *work.Batches, r *http.Request) (edge.Reply, error) {
		return edge.Limited(r, func(r *http.Request) (edge.Reply, error) { return do(batches, r) })
	})
}

// submit serves POST /api/batches?processor=P&name=… with a body of NDJSON or
// one JSON array, plain or gzip: 202. With Idempotency-Key a repeated
// submission returns the batch of the first one. The body is read once and not
// kept, so the call has the time of an invocation.
func (b BatchResource) submit(batches *work.Batches, r *http.Request) (edge.Reply, error) {
	key, err := idempotencyKeyOf(r)
	if err != nil {
		return edge.Reply{}, err
	}
	if err := customhandler.RequireBody(r); err != nil {
		return edge.Reply{}, err
	}
	array, err := isArray(r)
	if err != nil {
		return edge.Reply{}, err
	}
	batch, created, err := batches.Submit(r.Context(), work.Submission{
		Processor: customhandler.Query(r, "processor"),
		Name:      customhandler.Query(r, "name"),
		Key:       key,
		Body:      r.Body,
		Array:     array,
	})
	if errors.Is(err, work.ErrProcessor) {
		return edge.Reply{}, edge.BadRequest("bad_processor", "processor must be the name of a processor of this app: "+strings.Join(b.Known, ", ")+".")
	}
	if err != nil {
		return edge.Reply{}, err
	}
	if created {
		b.Log.InfoContext(r.Context(), "batch submitted", "batch", batch.ID, "processor", batch.Processor, "items", batch.Items, "parcels", batch.Parcels)
	}
	return edge.Reply{Status: http.StatusAccepted, Location: "/api/batches/" + url.PathEscape(batch.ID), Body: batch}, nil
}

// isArray reads the content type of a submission.
func isArray(r *http.Request) (bool, error) {
	got := r.Header.Get("Content-Type")
	media, params, err := mime.ParseMediaType(got)
	charset, given := params["charset"]
	switch {
	case err != nil || media != jsonMedia && media != NdjsonMedia:
		return false, &customhandler.Error{Status: http.StatusUnsupportedMediaType, Code: "unsupported_media_type",
			Message: fmt.Sprintf("The content type of the body is %.128q instead of %s, with one item on each line, or %s, one array.", got, NdjsonMedia, jsonMedia)}
	case given && !strings.EqualFold(charset, "utf-8"):
		return false, &customhandler.Error{Status: http.StatusUnsupportedMediaType, Code: "unsupported_media_type",
			Message: fmt.Sprintf("The charset of the body is %.128q instead of utf-8.", charset)}
	}
	return media == jsonMedia, nil
}

// list serves GET /api/batches?order=oldest|newest&top=N&continuation=….
func (b BatchResource) list(batches *work.Batches, r *http.Request) (edge.Reply, error) {
	newest, err := newestOf(r)
	if err != nil {
		return edge.Reply{}, err
	}
	page, err := batchPageOf(r)
	if err != nil {
		return edge.Reply{}, err
	}
	list, err := batches.List(r.Context(), newest, page)
	logLeftOut(r.Context(), b.Log, list.LeftOut, list.Problem)
	return edge.Reply{Status: http.StatusOK, Body: list}, err
}

func batchPageOf(r *http.Request) (work.Page, error) {
	top, continuation, err := edge.PageOf(r)
	return work.Page{Top: top, Continuation: continuation}, err
}

// read serves GET /api/batches/{batch}.
func (b BatchResource) read(batches *work.Batches, r *http.Request) (edge.Reply, error) {
	batch, err := batches.Get(r.Context(), r.PathValue("batch"))
	return edge.Reply{Status: http.StatusOK, Body: batch}, err
}

// results serves GET /api/batches/{batch}/results?outcome=…&top=N&continuation=….
func (b BatchResource) results(batches *work.Batches, r *http.Request) (edge.Reply, error) {
	page, err := batchPageOf(r)
	if err != nil {
		return edge.Reply{}, err
	}
	var only []work.Outcome
	if edge.HasQuery(r, "outcome") {
		outcome := work.Outcome(customhandler.Query(r, "outcome"))
		if outcome != work.ItemDone && outcome != work.ItemRejected && outcome != work.ItemFailed {
			return edge.Reply{}, edge.BadRequest("bad_outcome", "outcome must be done, rejected or failed.")
		}
		only = append(only, outcome)
	}
	list, err := batches.Results(r.Context(), r.PathValue("batch"), page, only...)
	return edge.Reply{Status: http.StatusOK, Body: list}, err
}

// Report serves GET /api/batches/{batch}/report: JSON, or CSV if Accept begins
// with text/csv. With ?safe=1 a spreadsheet takes no cell of the CSV for a formula.
func (b BatchResource) Report(batches *work.Batches, r *http.Request) (edge.Reply, error) {
	asCSV := strings.HasPrefix(strings.ToLower(strings.TrimSpace(r.Header.Get("Accept"))), CsvMedia)
	safe := customhandler.Query(r, "safe") == "1"
	if edge.HasQuery(r, "safe") && !safe {
		return edge.Reply{}, edge.BadRequest("bad_safe", "safe must be 1, or absent.")
	}
	stored, err := batches.Report(r.Context(), r.PathValue("batch"), asCSV)
	if err != nil {
		return edge.Reply{}, err
	}
	if asCSV && safe {
		if stored, err = safeCSV(stored); err != nil {
			return edge.Reply{}, err
		}
	}
	if asCSV {
		return edge.Reply{Status: http.StatusOK, Body: edge.Content{Kind: CsvType, Bytes: stored}}, nil
	}
	return edge.Reply{Status: http.StatusOK, Body: edge.Content{Kind: edge.JsonType, Bytes: stored}}, nil
}
