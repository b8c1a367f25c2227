package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"

	"kennel/ids"
	"kennel/internal/azure"
	"kennel/internal/customhandler"
	"kennel/internal/edge"
	"kennel/internal/instances"
	"kennel/internal/observe"
)

// MaxCount is the most numbers that one request gets.
const MaxCount = 10_000

// SequenceResource serves order numbers.
type SequenceResource struct {
	Store     sequenceStore
	Sequences *ids.Set
	Members   *observe.Members
	Allowed   []string // patterns of the names that are served
	Log       *slog.Logger
}

// sequenceStore is also what operators see of the stored sequences.
type sequenceStore interface {
	ids.Store
	Read(ctx context.Context, sequence string) (azure.StoredSequence, error)
	List(ctx context.Context, top int, continuation string) (page []azure.StoredSequence, next string, err error)
}

func (s SequenceResource) Routes() []edge.Route {
	return []edge.Route{
		{Function: "NextOrderId", Pattern: "POST /api/sequences/{sequence}/next", Query: []string{"count", "lease"}, Handler: http.HandlerFunc(s.next)},
		{Function: "NextOrderId", Pattern: "POST /api/sequences/{sequence}/next/return", Body: true, Handler: s.serve(s.takeBack)},
		{Function: "Sequences", Pattern: "GET /api/sequences", Query: []string{"top", "continuation"}, Handler: s.serve(s.list)},
		{Function: "Sequences", Pattern: "GET /api/sequences/{sequence}", Handler: s.serve(s.state)},
		{Function: "Sequences", Pattern: "POST /api/sequences/{sequence}/raise", Body: true, Quota: &edge.Quota{}, Handler: s.serve(s.raise)},
	}
}

// Reported returns what a process reports about a sequence.
func Reported(used ids.Used) instances.Sequence {
	end := used.End
	if end == used.Highest+1 {
		end = 0 // as almost always: the row is shorter
	}
	return instances.Sequence{
		Name:        used.Sequence,
		Issued:      used.Issued,
		Available:   used.Available,
		Highest:     used.Highest,
		Writer:      used.Writer,
		Serial:      used.Serial,
		From:        used.From,
		End:         end,
		Used:        used.Used,
		PerSecond:   used.PerSecond,
		Lost:        used.Lost,
		LastError:   used.LastError,
		LastErrorAt: used.LastErrorAt,
	}
}

// next serves POST /api/sequences/{sequence}/next?count=N&lease=true: N
// consecutive numbers of the sequence, which begins with its first request. With
// lease its caller can give back those that it did not use.
func (s SequenceResource) next(w http.ResponseWriter, r *http.Request) {
	sequence := r.PathValue("sequence")
	text := prefersText(r.Header.Get("Accept"))
	numbers, lease, err := s.draw(r, sequence, text)
	if err != nil {
		edge.WriteFailure(w, r, answersTo(sequenceFailuresOf(err)), meaning(fmt.Errorf("sequence %.80q: %w", sequence, err)))
		return
	}
	if text {
		writeNumbersText(w, numbers)
		return
	}
	writeNumbersJSON(w, sequence, numbers, lease)
}

// ReturnedNumbers is the answer to a return.
type ReturnedNumbers struct {
	Sequence string `json:"sequence"`
	Returned int64  `json:"returned"`
}

// takeBack serves POST /api/sequences/{sequence}/next/return with a body
// {"lease":"…","first":N}: the numbers of the lease from N on were not used.
func (s SequenceResource) takeBack(r *http.Request) (edge.Reply, error) {
	sequence := r.PathValue("sequence")
	if err := s.check(sequence); err != nil {
		return edge.Reply{}, err
	}
	var body struct {
		Lease string `json:"lease"`
		First *int64 `json:"first"`
	}
	if err := customhandler.ReadJSON(r, edge.MaxBody, &body); err != nil {
		return edge.Reply{}, err
	}
	if body.Lease == "" || body.First == nil {
		return edge.Reply{}, edge.BadRequest("bad_return", "lease and first are required: the lease of the numbers, and the first of them that was not used.")
	}
	returned, err := s.Sequences.TakeBack(sequence, body.Lease, *body.First)
	if errors.Is(err, ids.ErrNotLent) {
		return edge.Reply{}, edge.BadRequest("bad_return", "first must be a number of the lease. Nothing was returned.")
	}
	return edge.Reply{Status: http.StatusOK, Body: ReturnedNumbers{sequence, returned}}, err
}

// prefersText reports whether the first type that a caller accepts is plain
// text. A weight of zero excludes it.
func prefersText(accept string) bool {
	if !strings.HasPrefix(accept, "text/plain") {
		return false
	}
	first, _, _ := strings.Cut(accept, ",")
	_, params, err := mime.ParseMediaType(first)
	if err != nil {
		return true
	}
	weight, err := strconv.ParseFloat(params["q"], 64)
	return err != nil || weight > 0
}

func (s SequenceResource) draw(r *http.Request, sequence string, text bool) (numbers ids.Range, lease string, err error) {
	count, err := countOf(r)
	if err != nil {
		return numbers, "", err
	}
	if err := s.check(sequence); err != nil {
		return numbers, "", err
	}
	lends := edge.HasQuery(r, "lease")
	switch {
	case lends && (text || customhandler.Query(r, "lease") != "true"):
		return numbers, "", edge.BadRequest("bad_lease", "lease must be true, and only an answer in JSON has one.")
	case lends:
		return s.Sequences.Lend(r.Context(), sequence, count)
	case count > 1:
		numbers, err = s.Sequences.Lease(r.Context(), sequence, count)
		return numbers, "", err
	}
	n, err := s.Sequences.Next(r.Context(), sequence)
	return ids.Range{First: n, Last: n}, "", err
}

// check returns an error if no sequence may have this name.
func (s SequenceResource) check(sequence string) error {
	if err := ids.CheckName(sequence); err != nil {
		return edge.BadRequest("bad_sequence", err.Error())
	}
	for _, pattern := range s.Allowed {
		if ok, _ := path.Match(pattern, sequence); ok { // config has checked the patterns
			return nil
		}
	}
	return edge.BadRequest("bad_sequence", "This app serves only the sequences that its setting KENNEL_SEQUENCES allows.")
}

func countOf(r *http.Request) (int, error) {
	if !edge.HasQuery(r, "count") {
		return 1, nil
	}
	text := customhandler.Query(r, "count")
	n, err := strconv.ParseUint(text, 10, 32) // without a sign
	if err != nil || n < 1 || n > MaxCount || text[0] == '0' {
		return 0, edge.BadRequest("bad_count", "count must be a whole number from 1 to "+strconv.Itoa(MaxCount)+".")
	}
	return int(n), nil
}

// writeNumbersJSON builds the answer by hand, because it is the hot path and no
// value needs escaping: the name was checked, a lease has letters and digits, and the
// rest are numbers.
func writeNumbersJSON(w http.ResponseWriter, sequence string, numbers ids.Range, lease string) {
	b := make([]byte, 0, 128)
	b = append(b, `{"sequence":"`...)
	b = append(b, sequence...)
	b = append(b, `","first":`...)
	b = strconv.AppendInt(b, numbers.First, 10)
	b = append(b, `,"last":`...)
	b = strconv.AppendInt(b, numbers.Last, 10)
	b = append(b, `,"count":`...)
	b = strconv.AppendInt(b, numbers.Count(), 10)
	if lease != "" {
		b = append(b, `,"lease":"`...)
		b = append(b, lease...)
		b = append(b, '"')
	}
	b = append(b, "}\n"...)
	w.Header()["Content-Type"] = edge.JsonType
	w.Write(b)
}

func writeNumbersText(w http.ResponseWriter, numbers ids.Range) {
	b := make([]byte, 0, 20*numbers.Count())
	for n := numbers.First; n <= numbers.Last; n++ {
		b = strconv.AppendInt(b, n, 10)
		b = append(b, '\n')
	}
	w.Header()["Content-Type"] = edge.TextType
	w.Write(b)
}
