package parts

import (
	"log/slog"
	"slices"
	"sync"

	"kennel/deadletters"
	"kennel/internal/api"
	"kennel/internal/app"
	"kennel/internal/config"
	"kennel/internal/queues"
	"kennel/queue"
)

// letterPart is dead letters as a part of the program.
type letterPart struct {
	api.LetterResource
	app.NoFunctions
}

// newLetters wires dead letters and sends no request. Batches and the queues of
// the program's own have long messages, and so claims; nil: there are none.
func newLetters(e *environment, batches *batchWork, own *queues.Queues) app.Part {
	l := api.LetterResource{Counts: e.members.LetterCount, Log: e.log}
	l.Open = sync.OnceValues(func() (*api.OpenLetters, error) {
		store, err := e.account.OpenQueues(e.optionsOf("deadletters"))
		var ofBatches *openBatches
		if err == nil && batches != nil {
			ofBatches, err = batches.open()
		}
		if err != nil {
			e.log.Warn("dead letters are not served: they need tables and queues", "error", err)
			return nil, err
		}
		return openLettersOn(store, ofBatches, own, e.log)
	})
	return app.Part{Serves: letterPart{LetterResource: l}}
}

// openLettersOn returns the dead letters of these queues.
func openLettersOn(store deadletters.Store, batches *openBatches, own *queues.Queues, log *slog.Logger) (*api.OpenLetters, error) {
	areOfBatches := WorkQueues(config.MaxPartitions)
	letters, err := deadletters.New(store, &deadletters.Options{
		Claims: func(source string) (*queue.Claims, error) {
			switch {
			case batches != nil && slices.Contains(areOfBatches, source):
				return batches.claims, nil
			case own != nil:
				return own.Claims(source), nil
			}
			return nil, nil
		},
		Text: func(source string, body []byte) []byte {
			if batches == nil || !slices.Contains(areOfBatches, source) {
				return body
			}
			return batches.batches.Readable(body)
		},
		Private: func(source, name string) bool { return own != nil && own.Private(source, name) },
		Announce: func(queue string) {
			if batches != nil {
				batches.signals.Announce(queue)
			}
			if own != nil {
				own.Wake(queue)
			}
		},
		Log: log,
	})
	if err != nil {
		return nil, err
	}
	return &api.OpenLetters{Letters: letters, Queues: store}, nil
}
