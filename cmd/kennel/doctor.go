package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"kennel/client"
)

func (con *console) doctorCommand() *cobra.Command {
	var to target
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "check the rights of the app, and print the commands that mend it",
		Long: `The app checks each right that its identity needs (write, read and delete, of blobs,
tables, queues and signals), its clock, settings and versions. Each failed check ends with
the command that mends it, unless an earlier one ended with the same command. Write your own
names for words in capitals, such as GROUP.

If the app does not answer, this command reports what it finds from here: whether the name
exists, who listens there, whether the key is accepted, and for an app on this machine the
programs, ports and settings that "kennel up" needs.`,
		Example:     "kennel doctor\nkennel doctor --url https://my-app.azurewebsites.net --json",
		Annotations: requestExits("every check is ok", "3    a check failed"),
		Args:        noWords,
		RunE: func(cmd *cobra.Command, _ []string) error {
			app, err := con.openApp(to)
			if err != nil {
				return err
			}
			return con.doctor(cmd.Context(), app, to.asJSON)
		},
	}
	to.addTo(cmd.Flags(), "print the checks as JSON")
	return cmd
}

func (con *console) doctor(ctx context.Context, app *app, asJSON bool) error {
	done := con.step("waiting for the checks of the app")
	diagnosis, err := app.Doctor(ctx)
	done()
	if err == nil && len(diagnosis.Checks) == 0 {
		err = errors.New("the app returned no checks; " + app.checkAddress())
	}
	if err == nil {
		return con.printChecks(diagnosis.JSON(), diagnosis.Checks, asJSON)
	}
	if ctx.Err() != nil {
		return app.failed(err)
	}
	done = con.step("looking for the reason")
	checks := con.checkFromHere(ctx, app, err)
	done()
	if printErr := con.printChecks(encodeChecks(checks), checks, asJSON); printErr != nil && printErr != exitCode(exitDegraded) {
		return printErr
	}
	return app.failed(err)
}

// encodeChecks returns checks as the app does.
func encodeChecks(checks []client.Check) []byte {
	var line bytes.Buffer
	encoder := json.NewEncoder(&line)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(map[string][]client.Check{"checks": checks}); err != nil {
		panic(err) // texts and numbers can be encoded
	}
	return bytes.TrimSuffix(line.Bytes(), []byte("\n"))
}

// printChecks prints checks and a summary, or the JSON of them. It returns
// exitDegraded if a check failed.
func (con *console) printChecks(line []byte, checks []client.Check, asJSON bool) error {
	width, failed := 0, 0
	for _, c := range checks {
		width = max(width, utf8.RuneCountInString(oneLine(c.Name)))
		if !c.OK {
			failed++
		}
	}
	var text strings.Builder
	printed := map[string]bool{"": true} // commands: one may mend several checks
	for _, c := range checks {
		fmt.Fprintf(&text, "%s  %-*s  %s\n", con.mark(c.OK), width, printable(oneLine(c.Name)), printable(oneLine(c.Detail)))
		if !printed[c.Fix] {
			printed[c.Fix] = true
			fmt.Fprintf(&text, "      fix: %s\n", printable(oneLine(c.Fix)))
		}
	}
	fmt.Fprintf(&text, "%d of %d checks are ok", len(checks)-failed, len(checks))
	out := []byte(text.String())
	if asJSON {
		out = line
	}
	if _, err := con.stdout.Write(append(out, '\n')); err != nil {
		return err
	}
	if failed > 0 {
		return exitCode(exitDegraded)
	}
	return nil
}

// mark returns the result of a check: a symbol on a terminal, else a word.
func (con *console) mark(ok bool) string {
	symbol, word, c := "✓   ", "ok  ", green
	if !ok {
		symbol, word, c = "✗   ", "FAIL", red
	}
	if con.env["TERM"] == "dumb" || !isTerminal(con.stdout) {
		return word
	}
	return con.paint(con.stdout, c, symbol)
}
