package parts

import (
	"log/slog"
	"slices"
	"sync"

	"kennel/deadletters"
	"kennel/internal/api"
	"kennel/internal/app"
	"kennel/internal/config"
	"kennel/queue"
)

// letterPart is dead letters as a part of the program.
type letterPart struct {
	api.LetterResource
	app.NoFunctions
}

// newLetters wires dead letters and sends no request. Only batches have long
// messages, and so claims.
func newLetters(e *environment, batches *batchWork) app.Part {
	l := api.LetterResource{Counts: e.members.LetterCount, Log: e.log}
	l.Open = sync.OnceValues(func() (*api.OpenLetters, error) {
		queues, err := e.account.OpenQueues(e.optionsOf("deadletters"))
		var ofBatches *openBatches
		if err == nil {
			ofBatches, err = batches.open()
		}
		if err != nil {
			e.log.Warn("dead letters are not served: they need tables and queues", "error", err)
			return nil, err
		}
		return openLettersOn(queues, ofBatches, e.log)
	})
	return app.Part{Serves: letterPart{LetterResource: l}}
}

// openLettersOn returns the dead letters of these queues.
func openLettersOn(queues deadletters.Store, batches *openBatches, log *slog.Logger) (*api.OpenLetters, error) {
	areOfBatches := WorkQueues(config.MaxPartitions)
	letters, err := deadletters.New(queues, &deadletters.Options{
		Claims: func(source string) (*queue.Claims, error) {
			if !slices.Contains(areOfBatches, source) {
				return nil, nil
			}
			return batches.claims, nil
		},
		Text:     func(_ string, body []byte) []byte { return batches.batches.Readable(body) },
		Announce: batches.signals.Announce,
		Log:      log,
	})
	if err != nil {
		return nil, err
	}
	return &api.OpenLetters{Letters: letters, Queues: queues}, nil
}
