package run

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"

	"kennel/internal/azure"
	"kennel/internal/dev/azurite"
	"kennel/internal/dev/project"
)

// parts are the folder, storage and buses that the app needs.
type parts struct {
	dist    string          // the staged project
	storage *azurite.Server // nil: the settings name an account
	buses   *buses          // nil: the settings name a bus
}

// findTools finds the programs that Azurite needs, before anything is built.
func (a *App) findTools(ctx context.Context) (azurite.Tools, error) {
	if !a.azurite {
		return azurite.Tools{}, nil
	}
	// Without data of its own, an app in the Core Tools uses the Azurite that a
	// developer runs, as `func start` does.
	if a.opt.Tether != nil && a.opt.Data == "" {
		if a.shared = azurite.Running(ctx, azurite.FirstPort); a.shared != nil {
			return azurite.Tools{}, checkAzurite(ctx, a.shared.ConnectionString(), a.shared.BlobURL())
		}
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return azurite.Tools{}, fmt.Errorf("find a folder to install Azurite into: %w", err)
	}
	return azurite.Find(ctx, filepath.Join(cache, "kennel"))
}

// prepare stages the project while it starts storage and the buses. After an
// error, the parts may not be complete, but must be stopped.
func (a *App) prepare(ctx context.Context, tools azurite.Tools) (p parts, err error) {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		p.dist, err = a.stage(ctx)
		return err
	})
	group.Go(func() (err error) {
		p.storage, err = a.startStorage(ctx, tools)
		return err
	})
	group.Go(func() (err error) {
		p.buses, err = a.startBuses()
		return err
	})
	err = group.Wait()
	return p, err
}

// stop stops the parts. Data in the buses is lost.
func (p parts) stop() error {
	if p.buses != nil {
		p.buses.stop()
	}
	if p.storage != nil {
		return p.storage.Stop()
	}
	return nil
}

// Machine is the target of a local run.
func Machine() project.Target { return project.Target{OS: runtime.GOOS, Arch: runtime.GOARCH} }

func (a *App) stage(ctx context.Context) (dist string, err error) {
	doing, result := "", "unchanged"
	if a.opt.Handler != "" {
		doing, result = "copying", "copied from "+a.opt.Handler
	}
	step := a.begin("handler", doing)
	dist, err = a.project.Stage(ctx, Machine(), &project.StageOptions{
		Prebuilt: a.opt.Handler, Env: a.settings, Keep: true,
		Step: func(string) func() {
			step.say("building")
			result = "built"
			return func() {}
		},
		// The host would prefer a connection string of the file to an identity.
		Settings: a.opt.Tether != nil && a.storage.ConnectionString != "",
		Running:  func(ctx context.Context) string { return Running(ctx, a.project.Root, a.url) },
	})
	if err == nil && a.opt.Tether != nil {
		err = CheckStaged(dist, Machine(), a.settings)
	}
	if err == nil {
		step.done(result)
	}
	return dist, err
}

// checkAzurite checks that an Azurite that this program does not run accepts
// the requests of the app.
func checkAzurite(ctx context.Context, connection, url string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	blobs, err := azure.Account{ConnectionString: connection}.OpenBlobs(nil)
	if err != nil {
		return err
	}
	err = azure.NewScratchBlob(blobs, "kennel", "check").Read(ctx)
	if answer, ok := errors.AsType[*azure.Error](err); ok && answer.Code == "InvalidHeaderValue" {
		return fmt.Errorf("the Azurite at %s refuses the API version of the app's requests; start it with --skipApiVersionCheck, or stop it, and kennel starts its own", url)
	}
	if err != nil {
		return fmt.Errorf("the Azurite at %s does not work (%w); stop it, and kennel starts its own", url, err)
	}
	return nil
}

func (a *App) startStorage(ctx context.Context, tools azurite.Tools) (*azurite.Server, error) {
	if !a.azurite {
		a.begin("storage", "").done("from the settings")
		return nil, nil
	}
	if a.shared != nil {
		a.begin("storage", "").done("the Azurite that runs at " + portsOf(a.shared))
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
	step := a.begin("storage", "starting Azurite "+azurite.Version)
	installed, err := tools.Install(ctx, step)
	if err != nil {
		return nil, err
	}
	// No log: Azurite logs only its addresses, and an error when it ends
	// contains its last lines.
	server, err := azurite.StartAt(ctx, installed, azurite.FirstPort, azurite.Options{Dir: data})
	if err == nil {
		step.done("Azurite " + azurite.Version + ", " + portsOf(server))
	}
	return server, err
}

// portsOf returns the ports of Azurite for people. Other ports than the usual
// ones come with the reason.
func portsOf(s *azurite.Server) string {
	var ports []any
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
	return fmt.Sprintf("ports %s, %s, %s", ports...) + fmt.Sprintf(" (%d-%d in use)", first, last)
}
