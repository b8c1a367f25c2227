package servicebus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"kennel/gate"
)

// memberEnv makes this binary a member of a crowd. Its lines are the connection
// string of the bus, the address of the store and the bare subscription.
const memberEnv = "KENNEL_TEST_MEMBER"

// quiet is the pause before each measurement, and before its report, so that no
// other work disturbs it.
const quiet = 30 * time.Millisecond

// TestMain makes this binary a member of the crowd of BenchmarkRelease if the
// environment requests it.
func TestMain(m *testing.M) {
	if config := os.Getenv(memberEnv); config != "" {
		runMember(config)
	}
	os.Exit(m.Run())
}

// runMember is one process of a crowd: a bare subscriber and waiters at a gate.
// Each number that it reads from its standard input is a
// generation after which the waiters wait. It exits when the input ends.
func runMember(config string) {
	lines := strings.Split(config, "\n")
	store := remoteStore{address: lines[1]}
	signals, err := Namespace{ConnectionString: lines[0]}.OpenSignals(topic, nil)
	check(err)
	client, err := signals.connector.newClient(listenRetry)
	check(err)
	bare, err := client.NewReceiverForSubscription(bareTopic, lines[2], &azservicebus.ReceiverOptions{ReceiveMode: azservicebus.ReceiveModeReceiveAndDelete})
	check(err)
	gates, err := gate.New(store, &gate.Options{Signals: signals})
	check(err)
	go subscribe(bare, store)
	go gates.Run(context.Background())
	until(gates.ReceivesSignals)
	report("ready", time.Now())

	commands := make(chan int64)
	go func() {
		for after := range commands {
			waitTogether(gates, after)
		}
	}()
	for {
		var after int64
		if _, err := fmt.Scan(&after); err != nil {
			os.Exit(0) // also while it waits, if the benchmark was killed
		}
		commands <- after
	}
}

// subscribe is the bare subscriber. Like a process with waiters, it makes one
// conditional read for each message.
func subscribe(bare *azservicebus.Receiver, store gate.Store) {
	for seen := ""; ; {
		_, err := bare.ReceiveMessages(context.Background(), 1, nil)
		check(err)
		flag, err := store.Load(context.Background(), crowdGate, seen)
		if !errors.Is(err, gate.ErrUnchanged) {
			check(err)
			seen = flag.Version
		}
		at := time.Now()
		go report("read", at)
	}
}

// waitTogether waits at the gate with all waiters of this member and reports
// when the last has passed.
func waitTogether(gates *gate.Gates, after int64) {
	var waiting sync.WaitGroup
	passed := make([]time.Time, waiters)
	for i := range waiters {
		waiting.Go(func() {
			waited, err := gates.Wait(context.Background(), crowdGate, after, gate.MaxWait)
			passed[i] = time.Now()
			if check(err); !waited.Passed {
				log.Fatalf("not passed: %+v", waited)
			}
		})
	}
	until(func() bool {
		w := gates.Watched()[crowdGate]
		return w.Waiting == waiters && w.Signals
	})
	report("waiting", time.Now())
	waiting.Wait()
	report("passed", slices.MaxFunc(passed, time.Time.Compare))
}

func report(what string, at time.Time) {
	time.Sleep(quiet)
	fmt.Println(what, at.UnixNano())
}

func until(condition func() bool) {
	for !condition() {
		time.Sleep(time.Millisecond)
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// serveStore serves reads of the gate to members.
func serveStore(store gate.Store) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		f, err := store.Load(r.Context(), crowdGate, r.FormValue("seen"))
		if errors.Is(err, gate.ErrUnchanged) {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		check(err)
		json.NewEncoder(w).Encode(f)
	}
}

// remoteStore reads a store that serveStore serves. Members change no gate.
type remoteStore struct {
	gate.Store // nil
	address    string
}

func (s remoteStore) Load(_ context.Context, _, seen string) (f gate.Value, _ error) {
	response, err := http.Get(s.address + "?seen=" + url.QueryEscape(seen))
	if err != nil {
		return f, err
	}
	defer response.Body.Close()
	if response.StatusCode == http.StatusNotModified {
		return f, gate.ErrUnchanged
	}
	return f, json.NewDecoder(response.Body).Decode(&f)
}
