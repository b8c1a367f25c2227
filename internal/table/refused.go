package table

import (
	"errors"
)

// Refusal is an error of a service that knows whether it is permanent.
type Refusal interface {
	error
	Refused() bool
}

// IsRefused reports whether storage rejected a request permanently.
func IsRefused(err error) bool {
	answer, ok := errors.AsType[Refusal](err)
	return ok && answer.Refused() || errors.Is(err, ErrRefused)
}
