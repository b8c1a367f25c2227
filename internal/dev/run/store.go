package run

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"kennel/devstore"
	"kennel/internal/dev/azurite"
)

// A store is storage on this machine that an app uses.
type store interface {
	ConnectionString() string
	BlobURL() string
	QueueURL() string
	TableURL() string

	// Done is closed when the store has ended without Stop; nil: it cannot.
	Done() <-chan struct{}

	// Ending describes how it ended, once Done is closed.
	Ending() string

	// Stop makes the data durable and ends the store, unless another program
	// runs it.
	Stop() error
}

// The values of [Options.Storage].
const (
	Devstore = "devstore"
	Azurite  = "azurite"
)

// ownStore is devstore in this process, so it cannot end before the app.
type ownStore struct {
	store *devstore.Store
	at    *devstore.Listener
}

func (s *ownStore) ConnectionString() string { return s.at.ConnectionString() }
func (s *ownStore) BlobURL() string          { return s.at.Endpoint("blob", devstore.DefaultAccount) }
func (s *ownStore) QueueURL() string         { return s.at.Endpoint("queue", devstore.DefaultAccount) }
func (s *ownStore) TableURL() string         { return s.at.Endpoint("table", devstore.DefaultAccount) }
func (s *ownStore) FaultsURL() string        { return s.at.FaultsURL() }
func (s *ownStore) Done() <-chan struct{}    { return nil }
func (s *ownStore) Ending() string           { return "" }
func (s *ownStore) Stop() error              { return s.store.Close() }

// startStorage starts the storage of the app, or returns nil if the settings
// name an account.
func (a *App) startStorage(ctx context.Context, tools azurite.Tools) (store, error) {
	if !a.development {
		a.begin("storage", "").done("from the settings")
		return nil, nil
	}
	if a.shared != nil {
		a.begin("storage", "").done("the " + a.shared.Kind() + " that runs at " + portsOf(a.shared))
		return a.shared, nil
	}
	data := a.opt.Data
	if data != "" {
		var err error
		if data, err = filepath.Abs(data); err != nil { // Azurite runs in its own folder
			return nil, err
		}
		if err := os.MkdirAll(data, 0o755); err != nil {
			return nil, fmt.Errorf("cannot create the data folder: %w; use another one", err)
		}
	}
	if a.opt.Storage == Azurite {
		return a.startAzurite(ctx, tools, data)
	}
	return a.startDevstore(data)
}

func (a *App) startDevstore(data string) (store, error) {
	step := a.begin("storage", "")
	key := devstore.NewKey()
	opened, err := devstore.Open(data, &devstore.Options{
		Accounts: map[string][]string{
			devstore.DefaultAccount: {key, devstore.DefaultKey}, // the app gets the first
			azurite.OwnAccount:      {key},                      // a mark: the storage of an app
		},
		Log: slog.New(slog.NewJSONHandler(a.opt.Log, &slog.HandlerOptions{Level: slog.LevelWarn})),
	})
	if err != nil {
		return nil, err
	}
	at, err := opened.ListenEach(devstore.UsualPorts)
	if err != nil { // another program has one of the ports
		at, err = opened.ListenEach(0)
	}
	if err != nil {
		_ = opened.Close() // the first error says what is wrong
		return nil, err
	}
	s := &ownStore{opened, at}
	step.done("devstore, " + portsOf(s))
	return s, nil
}

func (a *App) startAzurite(ctx context.Context, tools azurite.Tools, data string) (store, error) {
	step := a.begin("storage", "starting Azurite "+azurite.Version)
	installed, err := tools.Install(ctx, step)
	if err != nil {
		return nil, err
	}
	// No log: Azurite logs only its addresses, and an error when it ends
	// contains its last lines.
	server, err := azurite.StartAt(ctx, installed, azurite.FirstPort, azurite.Options{Dir: data})
	if err != nil {
		return nil, err // not a nil *Server in a store
	}
	step.done("Azurite " + azurite.Version + ", " + portsOf(server))
	return server, nil
}

// CheckData returns an error if the folder has data of the other kind of
// storage, which this one would not find.
func CheckData(folder, storage string) error {
	const azuriteData, devstoreData = "__azurite_db_*", "storage-*.log"
	pattern, problem := azuriteData, "the data in %s was written by Azurite, and devstore, the usual storage, cannot read it; use it with `kennel up --storage azurite`, or use another folder"
	if storage == Azurite {
		pattern, problem = devstoreData, "the data in %s was written by devstore, the usual storage, and Azurite cannot read it; use it without --storage azurite, or use another folder"
	}
	found, err := filepath.Glob(filepath.Join(escapeGlob(folder), pattern))
	if err != nil || len(found) == 0 {
		return err
	}
	return fmt.Errorf(problem, folder)
}

// escapeGlob returns a pattern that matches a path. On Windows, where this has
// no escapes, a name with brackets matches nothing.
func escapeGlob(path string) string {
	if filepath.Separator == '\\' {
		return path
	}
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// portsOf returns the ports of a store for people. Other ports than the usual
// ones come with the reason.
func portsOf(s store) string {
	var ports []string
	for _, address := range []string{s.BlobURL(), s.QueueURL(), s.TableURL()} {
		u, err := url.Parse(address)
		if err != nil {
			return address
		}
		ports = append(ports, u.Port())
	}
	const first, last = azurite.FirstPort, azurite.FirstPort + 2
	if ports[0] == fmt.Sprint(first) {
		return fmt.Sprintf("127.0.0.1:%d-%d", first, last)
	}
	return "ports " + strings.Join(ports, ", ") + fmt.Sprintf(" (%d-%d in use)", first, last)
}
