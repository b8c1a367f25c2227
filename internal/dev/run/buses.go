package run

import "kennel/internal/dev/devbus"

// signalsTopic carries the signals of gates. In Azure the deployment creates
// it; locally startBuses does.
const signalsTopic = "signals"

// buses are the primary and the secondary development namespace of an app.
type buses struct{ primary, secondary *devbus.Local }

func (a *App) startBuses() (*buses, error) {
	if !a.devbus {
		a.begin("bus", "").done("from the settings")
		return nil, nil
	}
	step := a.begin("bus", "")
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
	step.done("2, in memory")
	return b, nil
}

// stop stops both and discards their contents.
func (b *buses) stop() {
	b.primary.Close()
	b.secondary.Close()
}
