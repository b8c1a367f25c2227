package instances

// GateSection has the gates with waiters in a process, the most waiters first.
var GateSection = List[Gate]("gates", nil)

// Gate is a gate with waiters in a process.
type Gate struct {
	Name    string `json:"name"`
	Waiters int    `json:"waiters"`
}
