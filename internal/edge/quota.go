package edge

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"

	"kennel/internal/customhandler"
)

// Rates of the actions that make much happen at once: a release wakes every
// waiter in every process, a redrive puts up to 1,000 messages to work, and a
// raise cannot be undone. People, scripts and the repeated calls of package
// client stay below them; a program that runs wild does not.
const (
	QuotaPerSecond = 20
	QuotaBurst     = 200
)

// Quota limits how often this process serves one kind of action, for all its
// callers. It is a bucket of tokens. The zero quota is full.
type Quota struct {
	mu     sync.Mutex
	used   float64   // tokens; guarded by mu
	usedAt time.Time // guarded by mu
}

// take takes a token, or returns how long to wait for one.
func (q *Quota) take() (wait time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	used := max(0, q.used-now.Sub(q.usedAt).Seconds()*QuotaPerSecond)
	if over := used + 1 - QuotaBurst; over > 0 {
		return time.Duration(over / QuotaPerSecond * float64(time.Second))
	}
	q.used, q.usedAt = used+1, now
	return 0
}

// limit answers 429 if a quota is used up, and reports whether it did.
func (q *Quota) limit(w http.ResponseWriter, r *http.Request) bool {
	wait := q.take()
	if wait == 0 {
		return false
	}
	seconds := int(math.Ceil(wait.Seconds()))
	w.Header().Set("Retry-After", strconv.Itoa(seconds))
	customhandler.WriteError(w, r, &customhandler.Error{Status: http.StatusTooManyRequests, Code: "too_many_requests",
		Message: fmt.Sprintf("This instance serves at most %d such requests a second, and %d at once. Nothing was done. Send the request again after the seconds in Retry-After.", QuotaPerSecond, QuotaBurst)})
	return true
}
