package main

import (
	"encoding/json"
	"fmt"

	devrun "kennel/internal/dev/run"
)

// report writes an event of "kennel up" to standard output, as a line of JSON
// or as text.
func (con *console) report(asJSON bool, e devrun.Event) error {
	if asJSON {
		return json.NewEncoder(con.stdout).Encode(e)
	}
	switch e.Event {
	case "starting":
		_, err := fmt.Fprintf(con.stdout, "starting the app (host: %s, storage: %s, bus: %s)\n", e.Host, e.Storage, e.Bus)
		return err
	case "ready":
		return con.reportReady(e)
	default:
		_, err := fmt.Fprintf(con.stdout, "%s\n", e.Event)
		return err
	}
}

// reportReady shows the address and how to draw a first order number.
func (con *console) reportReady(e devrun.Event) error {
	next, curl := con.program+" next", "curl -X POST"
	if e.URL != defaultURL {
		next += " --url " + e.URL
	}
	if e.Key != "" {
		next += " --key " + e.Key
		curl += " -H 'x-functions-key: " + e.Key + "'"
	}
	text := fmt.Sprintf(`
%s at %s

Draw an order number in a second terminal:
  %s %s/api/sequences/orders/next
  %s

`, con.paint(con.stdout, green, "The app is ready"), con.paint(con.stdout, bold, e.URL), curl, e.URL, next)
	switch {
	case e.BlobURL == "":
		text += "data    in the storage account from the settings\n"
	case e.Data == "":
		text += "data    in memory, lost when kennel stops; --data DIR keeps it\n"
	default:
		text += "data    in " + e.Data + "\n"
	}
	if e.BlobURL != "" {
		text += fmt.Sprintf("blobs   %s\nqueues  %s\ntables  %s\n", e.BlobURL, e.QueueURL, e.TableURL)
	}
	if e.ServiceBus != "" {
		text += "buses   in memory; --json prints their connection strings\n"
	}
	_, err := fmt.Fprintln(con.stdout, text+"Stop everything with Ctrl+C.")
	return err
}
