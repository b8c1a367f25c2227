package main

import (
	"context"
	"log/slog"
	"time"

	"kennel/ids"
	"kennel/internal/azure"
	"kennel/internal/config"
	"kennel/internal/customhandler"
)

// numbersContainer holds one blob per sequence. It is the article's name, so
// that its stores can be taken over as they are.
const numbersContainer = "uniqueids"

// app is the wired program.
type app struct {
	host      *customhandler.App
	sequences *ids.Set
}

// newApp wires everything and asks nothing of storage.
func newApp(cfg config.Config, log *slog.Logger) (*app, error) {
	account := azure.Account{
		ConnectionString: cfg.Storage.ConnectionString,
		BlobURL:          cfg.Storage.BlobURL,
		QueueURL:         cfg.Storage.QueueURL,
		TableURL:         cfg.Storage.TableURL,
		ManagedIdentity:  cfg.Storage.ManagedIdentity,
		ClientID:         cfg.Storage.ClientID,
	}
	blobs, err := account.OpenBlobs(nil)
	if err != nil {
		return nil, err
	}
	numbers := azure.NewSequences(blobs, numbersContainer)
	sequences, err := ids.NewSet(numbers, &ids.Options{
		RangeSize:  int64(cfg.RangeSize),
		RangeLasts: cfg.RangeLasts,
		MaxWait:    cfg.ReserveTimeout,
	})
	if err != nil {
		return nil, err
	}
	a := &app{
		host: customhandler.New(&customhandler.Options{
			Log:     log,
			Timeout: cfg.InvocationTimeout,
			MaxBody: maxBody,
			Drain:   cfg.Drain,
		}),
		sequences: sequences,
	}
	a.host.HTTP("NextOrderId", "req", nextOrderID(sequences), "POST /api/sequences/{sequence}/next")
	a.host.HTTP("Health", "req", health(), "GET /api/health")
	a.host.HTTP("Status", "req", status(cfg, numbers, sequences, time.Now()), "GET /api/status")
	return a, nil
}

// maxBody bounds what a caller may send to any function of this app.
const maxBody = 1 << 20

func (a *app) close(ctx context.Context) error { return a.sequences.Close(ctx) }
