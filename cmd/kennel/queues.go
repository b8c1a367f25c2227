package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"kennel/client"
	"kennel/internal/suggest"
)

func (con *console) queuesCommand() *cobra.Command {
	var to target
	cmd := group(&cobra.Command{
		Use:   "queues <command>",
		Short: "list the queues of a program, send to them and pause them",
		Long: `Lists the queues that the program declares and those of its built-in parts. It sends
messages to those that it declares, pauses and resumes them. "kennel send" sends to
Service Bus, and "kennel deadletters" puts messages that failed back.`,
		Example:     "kennel queues list\nkennel queues send emails '{\"to\":\"ann\"}'\nkennel queues pause emails",
		Annotations: requestExits("done"),
	}, con.queuesListCommand(&to), con.queuesShowCommand(&to), con.queuesSendCommand(&to), con.pauseCommand(&to, pausableQueue), con.resumeCommand(&to, pausableQueue))
	to.addTo(cmd.PersistentFlags(), responsesAsJSON)
	return cmd
}

func (con *console) queuesListCommand(to *target) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "list the queues of the program",
		Long: `Prints each queue with the messages that are ready, in flight and delayed, the age of the
oldest ready one, its dead letters, and when the instance that answers last finished a
message. The numbers are sampled for the call. Queues that share a storage queue have the
same numbers.`,
		Example:     "kennel queues list",
		Annotations: requestExits("printed"),
		Args:        noWords,
		RunE: func(cmd *cobra.Command, _ []string) error {
			app, err := con.openApp(*to)
			if err != nil {
				return err
			}
			l, err := app.Queues(cmd.Context())
			if err != nil {
				return app.failed(err)
			}
			return con.print(l.JSON(), con.describeQueues(l.Items), to.asJSON)
		},
	}
}

func (con *console) queuesShowCommand(to *target) *cobra.Command {
	return &cobra.Command{
		Use:   "show QUEUE",
		Short: "show a queue and how its messages are worked on",
		Long: `Prints the messages of a queue, how many are done and fail a second, and the limits of its
attempts.`,
		Example:     "kennel queues show emails",
		Annotations: requestExits("printed"),
		Args:        oneWord("queue", "emails"),
		RunE: func(cmd *cobra.Command, args []string) error {
			app, err := con.openApp(*to)
			if err != nil {
				return err
			}
			q, err := app.Queue(cmd.Context(), args[0])
			if err != nil {
				return app.queueFailed(cmd.Context(), err, args[0], func(client.Queue) bool { return true })
			}
			return con.print(q.JSON(), describeQueue(q), to.asJSON)
		},
	}
}

// describeQueues returns queues as a table.
func (con *console) describeQueues(all []client.Queue) string {
	if len(all) == 0 {
		return "the program has no queues"
	}
	rows := [][]string{{"QUEUE", "READY", "IN FLIGHT", "DELAYED", "OLDEST", "DEAD LETTERS", "LAST OK", "PAUSED"}}
	for _, q := range all {
		oldest := "-"
		if q.Ready > 0 {
			oldest = inSeconds(q.OldestSeconds)
		}
		rows = append(rows, []string{plain(q.Queue), fmt.Sprint(q.Ready), fmt.Sprint(q.InFlight), fmt.Sprint(q.Delayed), oldest, fmt.Sprint(q.DeadLetters), timeOrNone(q.LastOKAt), pausedSince(q.Paused)})
	}
	return strings.TrimRight(con.drawTable(rows, 0), "\n")
}

// timeOrNone returns a time in a table.
func timeOrNone(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}

// inSeconds returns a number of seconds such as 1h5m0s.
func inSeconds(n float64) string {
	return time.Duration(n * float64(time.Second)).Round(time.Second).String()
}

// describeQueue returns lines about one queue.
func describeQueue(q client.Queue) string {
	lines := []string{oneLine(fmt.Sprintf("%s: %d ready, %d in flight, %d delayed", q.Queue, q.Ready, q.InFlight, q.Delayed))}
	add := func(format string, args ...any) { lines = append(lines, "  "+oneLine(fmt.Sprintf(format, args...))) }
	if q.Ready > 0 {
		add("the oldest ready message is from %s ago", inSeconds(q.OldestSeconds))
	}
	if q.DeadLetters > 0 {
		add("%s; see `kennel deadletters list %s`", letterCount(int(q.DeadLetters)), q.StorageQueue)
	}
	if q.StorageQueue != q.Queue {
		add("its messages are in the storage queue %s, whose numbers these are", q.StorageQueue)
	}
	if q.Paused != nil {
		add("it %s", describePause(q.Paused))
	}
	if q.DonePerSecond+q.FailedPerSecond > 0 {
		add("%.4g messages a second are done, and %.4g attempts a second fail", q.DonePerSecond, q.FailedPerSecond)
	}
	switch {
	case len(q.DrainedBy) > 0:
		add("it is a former name that is drained by %s; without messages it can go from FormerNames", strings.Join(q.DrainedBy, " and "))
	case !q.Own:
		add("it belongs to a built-in part, which alone puts messages into it")
	case !q.Handled:
		add("this program sends to it and does not work on it")
	default:
		add("%s at a time in a process, each within %s; a message becomes a dead letter after %d", counted(q.Concurrency, "attempt"), inSeconds(q.TimeoutSeconds), q.MaxAttempts)
	}
	if q.LastOKAt != nil {
		add("the instance that answers last finished a message at %s", q.LastOKAt.UTC().Format(time.RFC3339))
	}
	return strings.Join(lines, "\n")
}

// queueFailed explains an error of a call for a queue. If the program has no
// queue of this name, it suggests one that is meant.
func (a *app) queueFailed(ctx context.Context, err error, name string, meant func(client.Queue) bool) error {
	if !hasCode(err, "queue_not_found") {
		return a.failed(err)
	}
	text := fmt.Sprintf("the program has no queue %q; `kennel queues list` lists them", name)
	if l, listErr := a.Queues(ctx); listErr == nil { // without the list the first error is enough
		var names []string
		for _, q := range l.Items {
			if meant(q) {
				names = append(names, q.Queue)
			}
		}
		if nearest := suggest.Nearest(name, names, 2); nearest != "" {
			text = fmt.Sprintf("the program has no queue %q; did you mean %s?", name, nearest)
		}
	}
	return explained{text, err}
}
