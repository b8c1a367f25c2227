package servicebus

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"kennel/gate"
)

// memberEnv makes this test binary a member of a crowd, and says of which.
const memberEnv = "KENNEL_TEST_MEMBER"

const crowdGate = "hounds"

// calm is left before each measurement, and before what was measured is told,
// so that nothing else is going on meanwhile.
const calm = 30 * time.Millisecond

// member is one process of a crowd: a bare subscriber of one topic, and
// beside it waiters at a gate.
type member struct {
	Bus          string
	Store        string
	Subscription string // its bare one
}

// memberSays is a line from a member.
type memberSays struct {
	What string
	At   time.Time
}

// beMember does what is asked for by the lines that come in, until there are
// no more: each is the generation after which the waiters wait.
func beMember(text string) error {
	var m member
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel(nil)
	lines := make(chan string)
	go func() {
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			lines <- in.Text()
		}
		cancel(errDismissed) // or whoever has started us is dead
	}()

	bare, err := azservicebus.NewClientFromConnectionString(m.Bus, nil)
	if err != nil {
		return err
	}
	defer func() {
		goodbye, cancel := context.WithTimeout(context.Background(), closeWithin)
		defer cancel()
		bare.Close(goodbye)
	}()
	receiver, err := bare.NewReceiverForSubscription(bareTopic, m.Subscription, &azservicebus.ReceiverOptions{ReceiveMode: azservicebus.ReceiveModeReceiveAndDelete})
	if err != nil {
		return err
	}
	running.Go(func() {
		for ctx.Err() == nil {
			messages, err := receiver.ReceiveMessages(ctx, 1, nil)
			if err != nil {
				cancel(err)
				return
			}
			for range messages {
				at := time.Now()
				running.Go(func() { say("heard", at) })
			}
		}
	})

	signals, err := Namespace{ConnectionString: m.Bus}.OpenSignals(topic, ourStore, nil)
	if err != nil {
		return err
	}
	defer signals.Close()
	gates, err := gate.New(servedGate(m.Store), &gate.Options{Signals: signals})
	if err != nil {
		return err
	}
	running.Go(func() { gates.Run(ctx) })
	if err := until(ctx, gates.Hears); err != nil {
		return err
	}
	say("ready", time.Time{})
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case line := <-lines:
			after, err := strconv.ParseInt(line, 10, 64)
			if err != nil {
				return err
			}
			if err := waitTogether(ctx, gates, after); err != nil {
				return err
			}
		}
	}
}

// errDismissed is how a member ends that is not needed any more.
var errDismissed = errors.New("there is nothing more to do")

// until waits until something is so.
func until(ctx context.Context, so func() bool) error {
	for !so() {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(time.Millisecond):
		}
	}
	return nil
}

// waitTogether waits at the gate with all waiters of this member, and tells
// when the last has passed.
func waitTogether(ctx context.Context, gates *gate.Gates, after int64) error {
	var waiting sync.WaitGroup
	passed := make([]time.Time, waiters)
	errs := make([]error, waiters)
	for i := range passed {
		waiting.Go(func() {
			waited, err := gates.Wait(ctx, crowdGate, after, gate.MaxWait)
			passed[i] = time.Now()
			if err == nil && !waited.Passed {
				err = fmt.Errorf("a waiter has not passed: %+v", waited)
			}
			errs[i] = err
		})
	}
	if err := until(ctx, func() bool {
		w := gates.Watched()[crowdGate]
		return w.Waiting == waiters && w.Signals
	}); err != nil {
		return err
	}
	say("waiting", time.Time{})
	waiting.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	say("passed", slices.MaxFunc(passed, time.Time.Compare))
	return nil
}

func say(what string, at time.Time) {
	time.Sleep(calm)
	text, err := json.Marshal(memberSays{What: what, At: at})
	if err != nil {
		panic(err)
	}
	fmt.Println(string(text))
}

// serveGate lets members look at gates, as servedGate does.
func serveGate(store gate.Store) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		f, err := store.Load(r.Context(), crowdGate, r.FormValue("seen"))
		switch {
		case errors.Is(err, gate.ErrUnchanged):
			w.WriteHeader(http.StatusNotModified)
		case err != nil:
			http.Error(w, err.Error(), http.StatusNotFound)
		default:
			json.NewEncoder(w).Encode(f)
		}
	}
}

// servedGate is the address of a store with one gate, for looking only.
type servedGate string

func (s servedGate) Load(ctx context.Context, _, seen string) (f gate.Flag, _ error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, string(s)+"?seen="+url.QueryEscape(seen), nil)
	if err != nil {
		return f, err
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return f, err
	}
	defer response.Body.Close()
	switch response.StatusCode {
	case http.StatusOK:
		return f, json.NewDecoder(response.Body).Decode(&f)
	case http.StatusNotModified:
		return f, gate.ErrUnchanged
	}
	return f, gate.ErrNotFound
}

func (s servedGate) Replace(context.Context, string, gate.Flag, gate.Flag) (gate.Flag, error) {
	return gate.Flag{}, errors.New("a member of a crowd changes no gate")
}
