package run

import (
	"context"
	"errors"
	"fmt"
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
	dist    string // the staged project
	storage store  // nil: the settings name an account
	buses   *buses // nil: the settings name a bus
}

// findTools finds the storage that runs, and else checks the data and finds the
// programs that Azurite needs, before anything is built.
func (a *App) findTools(ctx context.Context) (azurite.Tools, error) {
	if !a.development {
		return azurite.Tools{}, nil
	}
	// Without data of its own, an app in the Core Tools uses the storage that a
	// developer runs, as `func start` does.
	if a.opt.Tether != nil && a.opt.Data == "" {
		if a.shared = azurite.Running(ctx, azurite.FirstPort); a.shared != nil {
			return azurite.Tools{}, checkShared(ctx, a.shared.ConnectionString(), a.shared.Kind()+" at "+a.shared.BlobURL())
		}
	}
	if a.opt.Data != "" {
		if err := CheckData(a.opt.Data, a.opt.Storage); err != nil {
			return azurite.Tools{}, err
		}
	}
	if a.opt.Storage != Azurite {
		return azurite.Tools{}, nil
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
	switch {
	case a.opt.Handler != "":
		doing, result = "copying", "copied from "+a.opt.Handler
	case a.opt.Attach:
		result = "not started: --attach"
	}
	step := a.begin("handler", doing)
	building := func() {
		step.say("building")
		result = "built"
	}
	if err := a.firstStage(ctx, building); err != nil {
		return "", err
	}
	dist = filepath.Join(a.project.Root, "dist")
	if a.opt.Tether != nil {
		err = CheckStaged(dist, Machine(), a.settings)
	}
	if err == nil {
		step.done(result)
	}
	return dist, err
}

// stageProject stages p. It calls building when that runs the compiler, and
// replace before it changes anything in dist/.
func (a *App) stageProject(ctx context.Context, p *project.Project, building, replace func()) error {
	_, err := p.Stage(ctx, Machine(), &project.StageOptions{
		Prebuilt: a.opt.Handler, Env: a.settings, Keep: true, NoHandler: a.opt.Attach, Replace: replace,
		// The functions are those that the new program declares.
		Built: func(ctx context.Context, file string) error {
			d, found, err := p.DescribeBuilt(ctx, file)
			if err == nil && found {
				_, err = p.WriteFunctions(d)
			}
			return err
		},
		Step: func(string) func() { building(); return func() {} },
		// The host would prefer a connection string of the file to an identity.
		Settings: a.opt.Tether != nil && a.storage.ConnectionString != "",
		Running:  func(ctx context.Context) string { return Running(ctx, a.project.Root, a.url) },
	})
	return err
}

// checkShared checks that storage which this program does not run accepts the
// requests of the app. name is its kind and address.
func checkShared(ctx context.Context, connection, name string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	blobs, err := azure.Account{ConnectionString: connection}.OpenBlobs(nil)
	if err != nil {
		return err
	}
	err = azure.NewScratchBlob(blobs, "kennel", "check").Read(ctx)
	if answer, ok := errors.AsType[*azure.Error](err); ok && answer.Code == "InvalidHeaderValue" {
		return fmt.Errorf("the %s refuses the API version of the app's requests; start it with --skipApiVersionCheck, or stop it, and kennel starts its own", name)
	}
	if err != nil {
		return fmt.Errorf("the %s does not work (%w); stop it, and kennel starts its own", name, err)
	}
	return nil
}
