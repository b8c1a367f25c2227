package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"kennel/client"
)

// Exit codes, which the overview of "kennel help" documents.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitTooLate     = 3
	exitDegraded    = 3   // of "status" and "doctor"
	exitInterrupted = 128 // plus the number of the signal, as shells count
)

// usageError reports an invalid command line.
type usageError string

func (e usageError) Error() string { return string(e) }

func usagef(format string, args ...any) error {
	return usageError(fmt.Sprintf(format, args...))
}

// tooLate reports that something did not happen in time.
type tooLate struct {
	text  string
	state json.RawMessage // also printed by --json; nil: nothing
}

func (t tooLate) Error() string { return t.text }

// exitCode ends the program with a code and without a message.
type exitCode int

func (c exitCode) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

// interrupted is why a context ends: the signal that this program received.
type interrupted struct{ signal os.Signal }

func (i interrupted) Error() string {
	if i.signal == syscall.SIGTERM {
		return "terminated"
	}
	return "interrupted"
}

func (i interrupted) exitCode() int {
	if number, ok := i.signal.(syscall.Signal); ok {
		return exitInterrupted + int(number)
	}
	return exitInterrupted + int(syscall.SIGINT)
}

// failure is the member "error" of JSON. Members may be added, but not renamed
// or removed.
type failure struct {
	Code       string `json:"code"`
	Message    string `json:"message"`
	Status     int    `json:"status,omitempty"`     // of the app's answer
	RequestID  string `json:"requestId,omitempty"`  // names the request in the app's log
	RetryAfter int    `json:"retryAfter,omitempty"` // seconds

	Items []client.BadItem `json:"items,omitempty"` // of a batch or of rules
}

// fail reports the error that ends a command and returns the exit code.
func (con *console) fail(ctx context.Context, cmd *cobra.Command, err error) int {
	if code, ok := errors.AsType[exitCode](err); ok {
		return int(code)
	}
	f, code := classify(ctx, err)
	late, _ := errors.AsType[tooLate](err)
	if left, ok := errors.AsType[strandedError](err); ok {
		late.state = left.plan
	}
	con.complain(cmd.CommandPath(), f.Message)
	if con.wantsJSON(cmd, code == exitUsage) {
		con.writeFailure(late.state, f)
	}
	return code
}

// classify returns an error as JSON has it, and its exit code. ctx is that of
// the command.
func classify(ctx context.Context, err error) (failure, int) {
	f, code := failure{Code: "failed", Message: err.Error()}, exitFailed
	_, isUsage := errors.AsType[usageError](err)
	_, isLate := errors.AsType[tooLate](err)
	refused, isRefused := errors.AsType[*client.Error](err)
	lost, isLost := errors.AsType[*client.NoAnswerError](err)
	_, isUnexpected := errors.AsType[*client.UnexpectedError](err)
	switch {
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		why, ok := errors.AsType[interrupted](context.Cause(ctx))
		if !ok {
			why.signal = os.Interrupt
		}
		f.Code, code = "interrupted", why.exitCode()
		f.Message = strings.ReplaceAll(f.Message, ctx.Err().Error(), why.Error())
	case isUsage:
		f.Code, code = "usage", exitUsage
	case isLate:
		f.Code, code = "timeout", exitTooLate
	case isRefused:
		f.Code, f.Status, f.RequestID, f.RetryAfter = refused.Code, refused.Status, refused.RequestID, int(refused.RetryAfter.Seconds())
		f.Items = refused.Items
		if f.Code == "" {
			f.Code = "refused"
		}
	case isLost && !lost.Connected:
		f.Code = "not_reached"
	case isLost:
		f.Code = "no_response"
	case isUnexpected:
		f.Code = "unexpected_response"
	}
	return f, code
}

// wantsJSON reports whether the command was to print JSON. After a usage error
// its flags may not be parsed.
func (con *console) wantsJSON(cmd *cobra.Command, isUsage bool) bool {
	flag := cmd.Flags().Lookup("json")
	return flag != nil && flag.Value.String() == "true" || isUsage && slices.Contains(con.args, "--json")
}

// writeFailure writes a line of JSON: the error, and the members of state. It
// is the last output, so a failed write has no further effect.
func (con *console) writeFailure(state json.RawMessage, f failure) {
	var line bytes.Buffer
	encoder := json.NewEncoder(&line)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(map[string]failure{"error": f}); err != nil {
		panic(err) // texts and numbers can be encoded
	}
	text := line.Bytes()
	if members, ok := bytes.CutSuffix(state, []byte("}")); ok {
		text = slices.Concat(members, []byte(","), text[1:])
	}
	con.stdout.Write(text)
}
