package parts

import (
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"kennel/internal/memory"
	"kennel/internal/table"
)

// TestOwner: the first program that starts takes the account, whatever becomes of
// its requests, and another one does not start and names both.
func TestOwner(t *testing.T) {
	for n := range int64(4) {
		for _, fault := range []memory.Fault{{}, {Err: memory.ErrBusy}, {Err: memory.ErrBusy, Lost: true}} {
			synctest.Test(t, func(t *testing.T) {
				store := memory.NewTable(&memory.TableOptions{Options: memory.Options{Fault: func(c memory.Call) memory.Fault {
					if c.N == n {
						return fault
					}
					return memory.Fault{}
				}}})
				rows, err := table.New(store)
				if err != nil {
					t.Fatal(err)
				}
				log := slog.New(slog.DiscardHandler)
				shop := &owner{"shop", rows, log}
				for range 2 {
					if later, err := shop.check(t.Context()); err != nil || later {
						t.Errorf("request %d, %+v: later %t, %v", n, fault, later, err)
					}
				}
				_, err = (&owner{"billing", rows, log}).check(t.Context())
				if !errors.Is(err, errOtherProgram) || !strings.Contains(err.Error(), `"shop"`) || !strings.Contains(err.Error(), `"billing"`) {
					t.Errorf("request %d, %+v: %v", n, fault, err)
				}
			})
		}
	}
}

// TestOwnerInOutage: a program starts while storage is down, and ends when it
// answers that the account is another program's.
func TestOwnerInOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var up atomic.Bool
		store := memory.NewTable(&memory.TableOptions{Options: memory.Options{Fault: func(memory.Call) memory.Fault {
			if !up.Load() {
				return memory.Fault{Err: memory.ErrBusy, Lost: true}
			}
			return memory.Fault{}
		}}})
		rows, err := table.New(store)
		if err != nil {
			t.Fatal(err)
		}
		o := &owner{"billing", rows, slog.New(slog.DiscardHandler)}
		later, err := o.check(t.Context())
		if err != nil || !later {
			t.Fatalf("later %t, %v", later, err)
		}
		time.AfterFunc(time.Hour, func() {
			up.Store(true)
			if _, err := (&owner{"shop", rows, o.log}).check(t.Context()); err != nil {
				t.Error(err)
			}
		})
		if err := o.follow(t.Context()); !errors.Is(err, errOtherProgram) {
			t.Errorf("got %v", err)
		}
	})
}
