package main

import (
	"errors"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"kennel/internal/customhandler"
	"kennel/work"
)

// maxUpload limits the body of a submission, in bytes. It is the Functions
// host's own limit. KENNEL_BATCH_MAX_BYTES limits what the body holds.
const maxUpload = 100 << 20

// The content types of batches and reports.
const (
	jsonMedia   = "application/json"
	ndjsonMedia = "application/x-ndjson"
	csvMedia    = "text/csv"
)

var csvType = []string{csvMedia + "; charset=utf-8"}

func (b *batchFunctions) routes() []route {
	const function = "SubmitBatch"
	page := []string{"top", "continuation"}
	return []route{
		{function: function, pattern: "POST /api/batches", query: []string{"processor", "name"}, conditions: []string{idempotencyKey}, body: true, maxBody: maxUpload, handler: b.serve(batchSubmitFailures, b.submit)},
		{function: function, pattern: "GET /api/batches", query: append([]string{"order"}, page...), handler: b.serveLimited(b.list)},
		{function: function, pattern: "GET /api/batches/{batch}", handler: b.serveLimited(b.read)},
		{function: function, pattern: "GET /api/batches/{batch}/results", query: append([]string{"outcome"}, page...), handler: b.serveLimited(b.results)},
		{function: function, pattern: "GET /api/batches/{batch}/report", query: []string{"safe"}, handler: b.serveLimited(b.report)},
	}
}

// batchCall serves a call for batches.
type batchCall func(batches *work.Batches, r *http.Request) (reply, error)

func (b *batchFunctions) serve(failures []failure, do batchCall) http.Handler {
	return serve(failures, func(r *http.Request) (reply, error) {
		opened, err := b.open()
		if err != nil {
			return reply{}, &customhandler.Error{Status: http.StatusNotImplemented, Code: "batches_off",
				Message: "This app has no tables or queues for batches. Name them in AzureWebJobsStorage; the app's log states what is missing."}
		}
		return do(opened.batches, r)
	})
}

func (b *batchFunctions) serveLimited(do batchCall) http.Handler {
	return b.serve(batchFailures, func(batches *work.Batches, r *http.Request) (reply, error) {
		return limited(r, func(r *http.Request) (reply, error) { return do(batches, r) })
	})
}

// submit serves POST /api/batches?processor=P&name=… with a body of NDJSON or
// one JSON array, plain or gzip: 202. With Idempotency-Key a repeated
// submission returns the batch of the first one. The body is read once and not
// kept, so the call has the time of an invocation.
func (b *batchFunctions) submit(batches *work.Batches, r *http.Request) (reply, error) {
	key, err := idempotencyKeyOf(r)
	if err != nil {
		return reply{}, err
	}
	if err := customhandler.RequireBody(r); err != nil {
		return reply{}, err
	}
	array, err := isArray(r)
	if err != nil {
		return reply{}, err
	}
	batch, created, err := batches.Submit(r.Context(), work.Submission{
		Processor: customhandler.Query(r, "processor"),
		Name:      customhandler.Query(r, "name"),
		Key:       key,
		Body:      r.Body,
		Array:     array,
	})
	if errors.Is(err, work.ErrProcessor) {
		names := slices.Sorted(maps.Keys(b.processors))
		return reply{}, badRequest("bad_processor", "processor must be the name of a processor of this app: "+strings.Join(names, ", ")+".")
	}
	if err != nil {
		return reply{}, err
	}
	if created {
		b.log.InfoContext(r.Context(), "batch submitted", "batch", batch.ID, "processor", batch.Processor, "items", batch.Items, "parcels", batch.Parcels)
	}
	return reply{status: http.StatusAccepted, location: "/api/batches/" + url.PathEscape(batch.ID), body: batch}, nil
}

// isArray reads the content type of a submission.
func isArray(r *http.Request) (bool, error) {
	got := r.Header.Get("Content-Type")
	media, params, err := mime.ParseMediaType(got)
	charset, given := params["charset"]
	switch {
	case err != nil || media != jsonMedia && media != ndjsonMedia:
		return false, &customhandler.Error{Status: http.StatusUnsupportedMediaType, Code: "unsupported_media_type",
			Message: fmt.Sprintf("The content type of the body is %.128q instead of %s, with one item on each line, or %s, one array.", got, ndjsonMedia, jsonMedia)}
	case given && !strings.EqualFold(charset, "utf-8"):
		return false, &customhandler.Error{Status: http.StatusUnsupportedMediaType, Code: "unsupported_media_type",
			Message: fmt.Sprintf("The charset of the body is %.128q instead of utf-8.", charset)}
	}
	return media == jsonMedia, nil
}

// list serves GET /api/batches?order=oldest|newest&top=N&continuation=….
func (b *batchFunctions) list(batches *work.Batches, r *http.Request) (reply, error) {
	newest, err := newestOf(r)
	if err != nil {
		return reply{}, err
	}
	page, err := batchPageOf(r)
	if err != nil {
		return reply{}, err
	}
	list, err := batches.List(r.Context(), newest, page)
	logLeftOut(r.Context(), b.log, list.LeftOut, list.Problem)
	return reply{status: http.StatusOK, body: list}, err
}

func batchPageOf(r *http.Request) (work.Page, error) {
	top, continuation, err := pageOf(r)
	return work.Page{Top: top, Continuation: continuation}, err
}

// read serves GET /api/batches/{batch}.
func (b *batchFunctions) read(batches *work.Batches, r *http.Request) (reply, error) {
	batch, err := batches.Get(r.Context(), r.PathValue("batch"))
	return reply{status: http.StatusOK, body: batch}, err
}

// results serves GET /api/batches/{batch}/results?outcome=…&top=N&continuation=….
func (b *batchFunctions) results(batches *work.Batches, r *http.Request) (reply, error) {
	page, err := batchPageOf(r)
	if err != nil {
		return reply{}, err
	}
	var only []work.Outcome
	if hasQuery(r, "outcome") {
		outcome := work.Outcome(customhandler.Query(r, "outcome"))
		if outcome != work.ItemDone && outcome != work.ItemRejected && outcome != work.ItemFailed {
			return reply{}, badRequest("bad_outcome", "outcome must be done, rejected or failed.")
		}
		only = append(only, outcome)
	}
	list, err := batches.Results(r.Context(), r.PathValue("batch"), page, only...)
	return reply{status: http.StatusOK, body: list}, err
}

// report serves GET /api/batches/{batch}/report: JSON, or CSV if Accept begins
// with text/csv. With ?safe=1 a spreadsheet takes no cell of the CSV for a formula.
func (b *batchFunctions) report(batches *work.Batches, r *http.Request) (reply, error) {
	asCSV := strings.HasPrefix(strings.ToLower(strings.TrimSpace(r.Header.Get("Accept"))), csvMedia)
	safe := customhandler.Query(r, "safe") == "1"
	if hasQuery(r, "safe") && !safe {
		return reply{}, badRequest("bad_safe", "safe must be 1, or absent.")
	}
	stored, err := batches.Report(r.Context(), r.PathValue("batch"), asCSV)
	if err != nil {
		return reply{}, err
	}
	if asCSV && safe {
		if stored, err = safeCSV(stored); err != nil {
			return reply{}, err
		}
	}
	if asCSV {
		return reply{status: http.StatusOK, body: content{csvType, stored}}, nil
	}
	return reply{status: http.StatusOK, body: content{jsonType, stored}}, nil
}
