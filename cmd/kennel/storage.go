package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"kennel/devstore"
	devrun "kennel/internal/dev/run"
)

func (con *console) storageCommand() *cobra.Command {
	var (
		data   string
		port   int
		asJSON bool
	)
	cmd := &cobra.Command{
		Use:   "storage",
		Short: "run Azure Storage for development on this machine",
		Long: `Serves blobs, queues and tables on the loopback address until Ctrl+C: all three on one
port, and each on its usual one, 10000 to 10002, where these are free, so that
UseDevelopmentStorage=true finds them. It is the storage of "kennel up", with the public
account of all emulators, devstoreaccount1. What it does not imitate is answered with 501
and the name of the operation.

It fails on request: POST /faults with {"kind":"busy","service":"queue","times":3} makes the
next three requests to queues fail. Kinds: refuse, fail, cut, busy, late and slow. GET lists
the faults, DELETE ends them, and POST /reset forgets all data.`,
		Example:     "kennel storage\nkennel storage --data .kennel/storage --port 10100",
		Annotations: exits("stopped on request, by Ctrl+C or SIGTERM", "it did not start, or could not keep its data"),
		Args:        noWords,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkPort(port); err != nil {
				return err
			}
			return con.serveStorage(cmd.Context(), data, port, asJSON)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&data, "data", "", "keep the data in `DIR` (default: in memory, lost when kennel stops)")
	flags.IntVar(&port, "port", 0, "serve all three on `PORT` of 127.0.0.1 (default: any free one)")
	flags.BoolVar(&asJSON, "json", false, "write events to standard output as lines of JSON: ready, stopped")
	completeFile(cmd, "data")
	return cmd
}

func checkPort(port int) error {
	if port < 0 || port > 65535 {
		return usagef("--port is %d; use a number from 0 to 65535", port)
	}
	return nil
}

// A storageEvent is what "kennel storage --json" writes. The key in it is
// public.
type storageEvent struct {
	Event string `json:"event"` // ready, stopped

	// ready
	Data       string `json:"data,omitempty"` // the data folder; absent: in memory
	Connection string `json:"connection,omitempty"`
	BlobURL    string `json:"blobUrl,omitempty"`
	QueueURL   string `json:"queueUrl,omitempty"`
	TableURL   string `json:"tableUrl,omitempty"`
	Usual      bool   `json:"usualPorts,omitempty"` // also at 10000 to 10002
	Faults     string `json:"faults,omitempty"`
	Reset      string `json:"reset,omitempty"`
}

// serveStorage serves storage until ctx ends.
func (con *console) serveStorage(ctx context.Context, data string, port int, asJSON bool) error {
	if data != "" {
		if err := devrun.CheckData(data, devrun.Devstore); err != nil {
			return err
		}
	}
	store, err := devstore.Open(data, &devstore.Options{Log: slog.New(slog.NewTextHandler(con.stderr, nil))})
	if err != nil {
		return err
	}
	err = con.listenForStorage(ctx, store, data, port, asJSON)
	if closeErr := store.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = con.showEvent(storageEvent{Event: "stopped"}, "stopped\n", asJSON)
	}
	return err
}

func (con *console) listenForStorage(ctx context.Context, store *devstore.Store, data string, port int, asJSON bool) error {
	at, err := store.Listen(port)
	if err != nil {
		return fmt.Errorf("%w; use another port with --port", err)
	}
	_, usual := store.ListenEach(devstore.UsualPorts) // an error if another program has one of them
	const account = devstore.DefaultAccount
	e := storageEvent{
		Event: "ready", Data: data, Connection: at.ConnectionString(), Usual: usual == nil,
		BlobURL: at.Endpoint("blob", account), QueueURL: at.Endpoint("queue", account), TableURL: at.Endpoint("table", account),
	}
	root := strings.TrimSuffix(e.BlobURL, "/"+account+".blob")
	e.Faults, e.Reset = root+"/faults", root+"/reset"
	if err := con.showEvent(e, con.describeStorage(e), asJSON); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

func (con *console) describeStorage(e storageEvent) string {
	where := "in memory (--data DIR keeps it)"
	if e.Data != "" {
		where = "in " + printable(e.Data)
	}
	usual := fmt.Sprintf("             ports %d-%d are in use, so UseDevelopmentStorage=true is not this storage\n", devstore.UsualPorts, devstore.UsualPorts+2)
	if e.Usual {
		usual = fmt.Sprintf("             also at 127.0.0.1:%d-%d, as UseDevelopmentStorage=true\n", devstore.UsualPorts, devstore.UsualPorts+2)
	}
	return fmt.Sprintf(`%s  data %s

  blobs      %s
  queues     %s
  tables     %s
%s
  connection string:
    %s

  It fails on request, and forgets all:
    curl -d '{"kind":"busy","service":"queue","times":3}' %s
    curl -X DELETE %[8]s
    curl -X POST %s

  Ctrl+C stops it.
`, con.paint(con.stdout, bold, "Storage"), where, e.BlobURL, e.QueueURL, e.TableURL, usual, e.Connection, e.Faults, e.Reset)
}

// showEvent writes an event as a line of JSON, or as a text.
func (con *console) showEvent(e any, text string, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(con.stdout).Encode(e)
	}
	_, err := fmt.Fprint(con.stdout, text)
	return err
}
