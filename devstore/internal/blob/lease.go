package blob

import (
	"strconv"

	"kennel/devstore/internal/rest"
)

// A lease of a blob or container. The zero value is one that is available.
type lease struct {
	ID      string `json:"i,omitempty"`
	Seconds int64  `json:"s,omitempty"` // -1 is without end
	Until   int64  `json:"u,omitempty"` // in ticks, for one with an end
	Breaks  int64  `json:"b,omitempty"` // when its break ends, 0 if nobody broke it
}

// The states of a lease, as headers and lists name them.
const (
	available = "available"
	leased    = "leased"
	expired   = "expired"
	breaking  = "breaking"
	broken    = "broken"
)

func (l lease) state(now int64) string {
	switch {
	case l.ID == "":
		return available
	case l.Breaks > now:
		return breaking
	case l.Breaks > 0:
		return broken
	case l.Seconds < 0 || l.Until > now:
		return leased
	}
	return expired
}

// locked reports whether writes need the ID of the lease.
func (l lease) locked(now int64) bool {
	state := l.state(now)
	return state == leased || state == breaking
}

// describe returns the state, the status and the kind of duration, which is ""
// unless it is leased.
func (l lease) describe(now int64) (state, status, duration string) {
	state, status = l.state(now), "unlocked"
	if l.locked(now) {
		status = "locked"
	}
	switch {
	case state == leased && l.Seconds < 0:
		duration = "infinite"
	case state == leased:
		duration = "fixed"
	}
	return state, status, duration
}

// start returns the lease with this ID for a number of seconds from now.
func start(id string, seconds, now int64) lease {
	l := lease{ID: id, Seconds: seconds}
	if seconds > 0 {
		l.Until = now + seconds*second
	}
	return l
}

// written returns the lease after a write to its blob. A write ends what is
// left of a lease that expired or was broken: it cannot be renewed.
func (l lease) written(now int64) lease {
	if !l.locked(now) {
		return lease{}
	}
	return l
}

// The subject of a lease, as error codes name it.
const (
	ofBlob      = "Blob"
	ofContainer = "Container"
)

// checkWrite returns the error of a write with a lease ID, "" for none.
func (l lease) checkWrite(id, subject string, now int64) error {
	if id == "" && l.locked(now) {
		return rest.Fail(412, "LeaseIdMissing", "There is currently a lease on the %s and no lease ID was specified in the request.", noun(subject))
	}
	return l.checkRead(id, subject, now)
}

// checkRead returns the error of a read with a lease ID, "" for none.
func (l lease) checkRead(id, subject string, now int64) error {
	switch {
	case id == "":
		return nil
	case l.ID == "":
		return rest.Fail(412, "LeaseNotPresentWith"+subject+"Operation", "There is currently no lease on the %s.", noun(subject))
	case !sameID(l.ID, id):
		return rest.Fail(412, "LeaseIdMismatchWith"+subject+"Operation", "The lease ID specified did not match the lease ID for the %s.", noun(subject))
	case !l.locked(now):
		return rest.Fail(412, "LeaseLost", "A lease ID was specified, but the lease for the %s has expired.", noun(subject))
	}
	return nil
}

func noun(subject string) string {
	if subject == ofContainer {
		return "container"
	}
	return "blob"
}

// The errors of operations on leases.
var (
	errLeaseMismatch = rest.Fail(409, "LeaseIdMismatchWithLeaseOperation", "The lease ID specified did not match the lease ID for the resource with the specified lease operation.")
	errLeaseAbsent   = rest.Fail(409, "LeaseNotPresentWithLeaseOperation", "There is currently no lease on the resource.")
	errLeasePresent  = rest.Fail(409, "LeaseAlreadyPresent", "There is already a lease present.")
	errNotAcquired   = rest.Fail(409, "LeaseIsBreakingAndCannotBeAcquired", "There is already a breaking lease, and the lease cannot be acquired until it is broken.")
	errNotChanged    = rest.Fail(409, "LeaseIsBreakingAndCannotBeChanged", "The lease ID matched, but the lease is currently in breaking state and cannot be changed.")
	errNotRenewed    = rest.Fail(409, "LeaseIsBrokenAndCannotBeRenewed", "The lease ID matched, but the lease has been broken explicitly and cannot be renewed.")
)

// acquire returns the lease that a caller gets.
func (l lease) acquire(id string, seconds, now int64) (lease, error) {
	switch state := l.state(now); {
	case state == breaking && sameID(l.ID, id):
		return l, errNotAcquired
	case state == breaking, state == leased && !sameID(l.ID, id):
		return l, errLeasePresent
	}
	return start(id, seconds, now), nil
}

// renew returns the lease that begins again.
func (l lease) renew(id string, now int64) (lease, error) {
	switch state := l.state(now); {
	case state == available || !sameID(l.ID, id):
		return l, errLeaseMismatch
	case state == breaking || state == broken:
		return l, errNotRenewed
	}
	return start(l.ID, l.Seconds, now), nil
}

// change returns the lease with another ID.
func (l lease) change(id, proposed string, now int64) (lease, error) {
	state := l.state(now)
	switch {
	case state == available || state == broken || state == expired:
		return l, errLeaseAbsent
	case !sameID(l.ID, id) && !sameID(l.ID, proposed):
		return l, errLeaseMismatch
	case state == breaking:
		return l, errNotChanged
	}
	l.ID = proposed
	return l, nil
}

// release returns the lease that is available again.
func (l lease) release(id string, now int64) (lease, error) {
	if l.state(now) == available || !sameID(l.ID, id) {
		return l, errLeaseMismatch
	}
	return lease{}, nil
}

// end returns the lease after a break, and for how many seconds it stays. A
// period below 0 means that the caller gave none.
func (l lease) end(period, now int64) (lease, int64, error) {
	left := int64(0) // that the lease would last by itself
	switch l.state(now) {
	case available:
		return l, 0, errLeaseAbsent
	case breaking:
		left = seconds(l.Breaks - now)
	case leased:
		if left = seconds(l.Until - now); l.Seconds < 0 {
			left = max(period, 0)
		}
	}
	if period >= 0 {
		left = min(left, period)
	}
	if l.state(now) != broken {
		l.Breaks = now + left*second
	}
	return l, left, nil
}

// seconds rounds ticks up.
func seconds(ticks int64) int64 { return (ticks + second - 1) / second }

// leaseSeconds reads the duration of a lease.
func leaseSeconds(r *rest.Request) (int64, error) {
	const name = "x-ms-lease-duration"
	text := r.Header(name)
	if text == "" {
		return 0, rest.MissingHeader(name)
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n != -1 && (n < 15 || n > 60) {
		return 0, rest.InvalidHeader(name, text)
	}
	return n, nil
}

// breakSeconds reads the period of a break, -1 if it is not given.
func breakSeconds(r *rest.Request) (int64, error) {
	const name = "x-ms-lease-break-period"
	text := r.Header(name)
	if text == "" {
		return -1, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > 60 {
		return 0, rest.InvalidHeader(name, text)
	}
	return n, nil
}

// parseID reads the ID of a lease, which is a GUID, and returns the form in
// which IDs are answered.
func parseID(name, text string) (string, error) {
	plain := make([]byte, 0, 32)
	for _, c := range []byte(text) {
		switch {
		case c >= '0' && c <= '9', c >= 'a' && c <= 'f':
			plain = append(plain, c)
		case c >= 'A' && c <= 'F':
			plain = append(plain, c+'a'-'A')
		case c != '-' && c != '{' && c != '}' && c != '(' && c != ')':
			return "", rest.InvalidHeader(name, text)
		}
	}
	if len(plain) != 32 {
		return "", rest.InvalidHeader(name, text)
	}
	return guid(plain), nil
}

// guid writes 32 hexadecimal digits as a GUID.
func guid(digits []byte) string {
	d := string(digits)
	return d[:8] + "-" + d[8:12] + "-" + d[12:16] + "-" + d[16:20] + "-" + d[20:]
}

// sameID compares an ID that the store holds with one of a caller.
func sameID(held, given string) bool {
	id, err := parseID("", given)
	return err == nil && held == id
}
