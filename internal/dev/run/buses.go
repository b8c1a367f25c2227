package run

import (
	"fmt"
	"math"
	"regexp"
	"strings"
	"time"

	"kennel/internal/config"
	"kennel/internal/dev/devbus"
)

// signalsTopic carries the signals of gates. In Azure the deployment creates
// it; locally startBuses does.
const signalsTopic = "signals"

// backlogQueue is the name of a backlog queue: of the primary namespace, and a
// number. The app creates those that are missing, but takes its time, because in
// Azure the deployment has created them.
const backlogQueue = "%s/x-servicebus-transfer/%d"

// duplicateWindow is that of the queues that the deployment creates.
const duplicateWindow = 10 * time.Minute

// buses are the primary and the secondary development namespace of an app.
type buses struct{ primary, secondary *devbus.Local }

func (a *App) startBuses() (_ *buses, err error) {
	if !a.devbus {
		a.begin("bus", "").done("from the settings")
		return nil, nil
	}
	step := a.begin("bus", "")
	primary, err := StartBus(0, a.opt.Entities)
	if err != nil {
		return nil, err
	}
	secondary, err := devbus.Listen(&devbus.Options{Namespace: "secondary"})
	if err != nil {
		primary.Close()
		return nil, err
	}
	b := &buses{primary, secondary}
	name := config.ServiceBus{ConnectionString: primary.ConnectionString()}.Name()
	for i := range a.backlog {
		if err == nil {
			err = secondary.CreateQueue(fmt.Sprintf(backlogQueue, name, i), &devbus.Settings{MaxDeliveryCount: math.MaxInt32, DeadLetterOnExpiry: true})
		}
	}
	if err != nil {
		b.stop()
		return nil, fmt.Errorf("set up the development bus: %w", err)
	}
	step.done("2, in memory")
	return b, nil
}

// StartBus starts a development bus like the primary one of an app, on a port of
// 127.0.0.1, any free one for 0. entities are queues, from [EntityNames].
func StartBus(port int, entities []string) (*devbus.Local, error) {
	bus, err := devbus.Listen(&devbus.Options{Namespace: "primary", Port: port})
	if err != nil {
		return nil, err
	}
	err = bus.CreateTopic(signalsTopic, nil)
	for _, entity := range entities {
		if err == nil {
			err = bus.CreateQueue(entity, &devbus.Settings{DuplicateWindow: duplicateWindow})
		}
	}
	if err != nil {
		bus.Close()
		return nil, fmt.Errorf("set up the development bus: %w", err)
	}
	return bus, nil
}

// stop stops both and discards their contents.
func (b *buses) stop() {
	b.primary.Close()
	b.secondary.Close()
}

// entityName follows the rules of Service Bus, except that ~ may stand for /.
var entityName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._/~-]{0,258}[A-Za-z0-9])?$`)

// EntityNames checks the names of queues for the primary development bus, and
// returns them as Service Bus has them.
func EntityNames(entities []string) ([]string, error) {
	taken := map[string]bool{signalsTopic: true} // Service Bus ignores case
	var names []string
	for _, entity := range entities {
		name := strings.ReplaceAll(entity, "~", "/")
		switch {
		case !entityName.MatchString(entity):
			return nil, fmt.Errorf("the queue name %.300q is invalid; use at most 260 letters, digits, '.', '-', '_' and '/', with a letter or digit at both ends", entity)
		case taken[strings.ToLower(name)]:
			return nil, fmt.Errorf("the queue name %q is taken; use each name once, and not %s, which is a topic", entity, signalsTopic)
		}
		taken[strings.ToLower(name)] = true
		names = append(names, name)
	}
	return names, nil
}
