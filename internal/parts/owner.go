package parts

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"kennel/internal/table"
)

// The row with the name of the program that an account belongs to.
const (
	ownerPartition = "program"
	ownerKey       = "owner"
	ownerColumn    = "name"
)

// errOtherProgram reports an account that belongs to another program.
var errOtherProgram = errors.New("the storage account belongs to another program")

// owner checks that an account belongs to this program: the first one that starts
// takes it. Two programs in one account would receive each other's messages, and
// a timer of the same name would run in one of them.
type owner struct {
	name string
	rows *table.Table
	log  *slog.Logger
}

// newOwner returns the check of a program. The Kennel app is not checked: one
// account is its own by the names of everything that it keeps.
func newOwner(e *environment) (*owner, error) {
	if e.declared.Everything || e.members.Rows == nil {
		return nil, nil
	}
	rows, err := table.New(e.members.Rows)
	return &owner{e.declared.Name, rows, e.log}, err
}

// Times of the check: one that takes longer goes on beside the program.
const (
	ownerTimeout = 5 * time.Second
	ownerPause   = 15 * time.Second
)

// claim returns errOtherProgram if the account belongs to another program, and
// another error if storage does not answer.
func (o *owner) claim(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, ownerTimeout)
	defer cancel()
	for range 2 { // another process may insert it between the requests
		row, err := o.rows.Get(ctx, ownerPartition, ownerKey)
		switch {
		case err == nil && row.Values[ownerColumn] == o.name:
			return nil
		case err == nil:
			return fmt.Errorf("%w: it is that of %q, and this is %q; use another account for it, or deploy it under the name of the first one",
				errOtherProgram, row.Values[ownerColumn], o.name)
		case !errors.Is(err, table.ErrNotFound):
			return err
		}
		_, err = o.rows.Submit(ctx, table.Write{Verb: table.Insert, Row: table.Row{Partition: ownerPartition, Key: ownerKey, Values: map[string]string{ownerColumn: o.name}}})
		if err == nil {
			return nil
		}
		if !errors.Is(err, table.ErrExists) && !errors.Is(err, table.ErrUnclear) {
			return err
		}
	}
	return errors.New("the name of the program was inserted and is missing")
}

// check claims the account at the start. While storage does not answer, the
// program starts, and the check goes on beside it until later.
func (o *owner) check(ctx context.Context) (later bool, err error) {
	err = o.claim(ctx)
	if err == nil || errors.Is(err, errOtherProgram) {
		return false, err
	}
	o.log.Warn("cannot read to which program the storage account belongs; trying again", "error", err.Error())
	return true, nil
}

// follow claims the account again and again, until storage answers.
func (o *owner) follow(ctx context.Context) error {
	for table.Pause(ctx, ownerPause) == nil {
		if err := o.claim(ctx); err == nil || errors.Is(err, errOtherProgram) {
			return err
		}
	}
	return nil
}
