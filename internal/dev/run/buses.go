package run

import "kennel/internal/dev/devbus"

// signalsTopic carries the signals of gates. In Azure the infrastructure has
// it; here nobody else would make it.
const signalsTopic = "signals"

// buses are the development namespace of an app, and the one that stands in
// for it.
type buses struct{ primary, secondary *devbus.Local }

func startBuses() (*buses, error) {
	primary, err := devbus.Listen(&devbus.Options{Namespace: "primary"})
	if err != nil {
		return nil, err
	}
	secondary, err := devbus.Listen(&devbus.Options{Namespace: "secondary"})
	if err != nil {
		primary.Close()
		return nil, err
	}
	b := &buses{primary, secondary}
	if err := primary.CreateTopic(signalsTopic, nil); err != nil {
		b.stop()
		return nil, err
	}
	return b, nil
}

// stop ends both, with all that is in them.
func (b *buses) stop() {
	b.primary.Close()
	b.secondary.Close()
}
