package api

import (
	"net/http"
	"strings"

	"kennel/channels"
	"kennel/internal/customhandler"
	"kennel/internal/edge"
	"kennel/internal/table"
)

// maxETag is longer than any ETag of storage. A request with a longer one, which
// no resource has, could be too long for storage.
const maxETag = 1024

// conditionOf reads If-Match: "" if there is none, one ETag, or *. It rejects
// several ETags, because storage compares with one.
func conditionOf(r *http.Request) (string, error) {
	values := r.Header[edge.IfMatch]
	condition := strings.TrimSpace(strings.Join(values, ", "))
	quoted := strings.TrimPrefix(condition, "W/")
	unsent := func(r rune) bool { return r <= ' ' || r > '~' } // only an envelope can carry them
	if len(values) == 0 || condition == table.AnyVersion ||
		len(quoted) > 2 && quoted[0] == '"' && strings.IndexByte(quoted[1:], '"') == len(quoted)-2 && !strings.ContainsFunc(quoted, unsent) {
		if len(condition) > maxETag {
			return "", channels.ErrChanged
		}
		return condition, nil
	}
	return "", edge.BadRequest("bad_if_match", "If-Match must be one ETag as in an earlier answer, with its quotes, or *.")
}

// absenceOf reads If-None-Match: whether the caller wants to create something
// only if it does not exist.
func absenceOf(r *http.Request) (bool, error) {
	values := r.Header[edge.IfNoneMatch]
	if len(values) > 0 && (len(values) > 1 || strings.TrimSpace(values[0]) != table.AnyVersion) {
		return false, edge.BadRequest("bad_if_none_match", "If-None-Match must be * here: create it only if it does not exist.")
	}
	return len(values) > 0, nil
}

// newestOf reads in which order a list is requested.
func newestOf(r *http.Request) (newest bool, err error) {
	order := customhandler.Query(r, "order")
	if order != "oldest" && order != "newest" && edge.HasQuery(r, "order") {
		return false, edge.BadRequest("bad_order", "order must be oldest or newest.")
	}
	return order == "newest", nil
}

// idempotencyKeyOf reads Idempotency-Key: "" if it is absent.
func idempotencyKeyOf(r *http.Request) (string, error) {
	values := r.Header[edge.IdempotencyKey]
	key := strings.Join(values, "")
	if len(values) > 1 || len(values) == 1 && key == "" || channels.CheckKey(key) != nil {
		return "", edge.BadRequest("bad_idempotency_key", "Idempotency-Key must be one key of 1 to 128 visible ASCII characters.")
	}
	return key, nil
}
