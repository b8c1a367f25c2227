package blob

import (
	"net/http"
	"strings"
	"time"

	"kennel/devstore/internal/rest"
)

// conditions are the conditional headers of a request.
type conditions struct {
	match, noneMatch []string // ETags without quotes, or "*"
	since, until     time.Time
}

// parseConditions reads the headers whose names begin with a prefix, which is
// "" or "x-ms-source-".
func parseConditions(r *rest.Request, prefix string) (c conditions, err error) {
	c.match = etags(r.Header(prefix + "If-Match"))
	c.noneMatch = etags(r.Header(prefix + "If-None-Match"))
	if c.since, err = parseTime(r, prefix+"If-Modified-Since"); err != nil {
		return c, err
	}
	c.until, err = parseTime(r, prefix+"If-Unmodified-Since")
	return c, err
}

func parseTime(r *rest.Request, name string) (time.Time, error) {
	text := r.Header(name)
	if text == "" {
		return time.Time{}, nil
	}
	at, err := http.ParseTime(text)
	if err != nil {
		return time.Time{}, rest.InvalidHeader(name, text)
	}
	return at, nil
}

func etags(header string) []string {
	if header == "" {
		return nil
	}
	all := strings.Split(header, ",")
	for i, one := range all {
		all[i] = bare(strings.TrimPrefix(strings.TrimSpace(one), "W/"))
	}
	return all
}

func bare(etag string) string { return strings.Trim(etag, `"`) }

// wild reports If-None-Match: *, with which only a new thing is written.
func (c conditions) wild() bool { return len(c.noneMatch) == 1 && c.noneMatch[0] == "*" }

func (c conditions) matches(etag string) bool {
	return c.match == nil || contains(c.match, etag)
}

func contains(all []string, etag string) bool {
	for _, one := range all {
		if one == "*" || one == bare(etag) {
			return true
		}
	}
	return false
}

// unmodified reports whether If-Unmodified-Since holds. Headers have seconds,
// so that fractions of the change do not count.
func (c conditions) unmodified(at time.Time) bool {
	return c.until.IsZero() || !at.Truncate(time.Second).After(c.until)
}

func (c conditions) modified(at time.Time) bool {
	return c.since.IsZero() || at.Truncate(time.Second).After(c.since)
}

func errCondition(status int) *rest.Error {
	return rest.Fail(status, "ConditionNotMet", "The condition specified using HTTP conditional header(s) is not met.")
}

// read checks a read of something that exists: If-Match and If-Unmodified-Since
// must hold, and one of If-None-Match and If-Modified-Since.
func (c conditions) read(etag string, at time.Time) error {
	switch {
	case c.wild():
		return rest.Fail(400, "UnsatisfiableCondition", "The request includes an unsatisfiable condition for this operation.")
	case !c.matches(etag) || !c.unmodified(at):
		return errCondition(412)
	case c.noneMatch == nil && c.modified(at):
		return nil
	case c.noneMatch != nil && !contains(c.noneMatch, etag):
		return nil
	case c.noneMatch != nil && !c.since.IsZero() && c.modified(at):
		return nil
	}
	return errCondition(304)
}

// write checks a change of something that exists. If-Match counts more than
// If-Unmodified-Since, and If-None-Match more than If-Modified-Since. Other
// combinations are not defined.
func (c conditions) write(etag string, at time.Time) error {
	early, late := c.match != nil || !c.until.IsZero(), c.noneMatch != nil || !c.since.IsZero()
	switch {
	case early && late:
		return rest.Fail(400, "MultipleConditionHeadersNotSupported", "Multiple condition headers are not supported.")
	case !c.matches(etag), c.noneMatch != nil && contains(c.noneMatch, etag):
		return errCondition(412)
	case c.match == nil && !c.unmodified(at), c.noneMatch == nil && !c.modified(at):
		return errCondition(412)
	}
	return nil
}

// create checks a write that makes or replaces a blob. Blocks that are not
// committed have a time, although the blob does not exist yet. Without a time,
// HTTP ignores If-Unmodified-Since.
func (c conditions) create(b *blob) error {
	v, at := b.base, timeOf(b.staged)
	staged := v == nil && !b.pending.Empty()
	switch {
	case v == nil && c.match != nil, staged && !(c.unmodified(at) && c.modified(at)):
		return errCondition(412)
	case v == nil:
		return nil
	case c.wild():
		return rest.Fail(409, "BlobAlreadyExists", "The specified blob already exists.")
	}
	return c.write(v.etag(), timeOf(v.Stamp))
}

// source checks the source of a copy, which exists. For a copy that is made at
// once, Azure answers for a source that did not change as to a read of it.
func (c conditions) source(v *version, later bool) error {
	switch err := c.write(v.etag(), timeOf(v.Stamp)); {
	case err == nil:
		return nil
	case !later && (c.noneMatch != nil || !c.since.IsZero()):
		return rest.Fail(304, "CannotVerifyCopySource", "The source condition specified using HTTP conditional header(s) is not met.")
	}
	return rest.Fail(412, "SourceConditionNotMet", "The source condition specified using HTTP conditional header(s) is not met.")
}
