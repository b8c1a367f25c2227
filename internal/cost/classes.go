package cost

// Services of operations besides "blob", "table" and "queue".
const (
	bus     = "bus"
	compute = "compute"
)

// operation names a kind of request. Those of storage have the names that
// internal/azure/requests gives them.
type operation struct{ service, name string }

// emptyReceive is a receive that returns no message. The counter of requests
// distinguishes it for Service Bus only.
const emptyReceive = "receive nothing"

// classes returns the price class of each operation. Azure prices a receive
// that returns messages as a write, and one that returns none as a read. The
// deletion of a blob is free. An operation that a counter could not name has
// the dearest class of its service that is possible.
var classes = map[operation]string{
	{"blob", "put"}:    "blob write",
	{"blob", "update"}: "blob write",
	{"blob", "list"}:   "blob list",
	{"blob", "create"}: "blob list",
	{"blob", "get"}:    "blob read",
	{"blob", "head"}:   "blob other",
	{"blob", "lease"}:  "blob other",
	{"blob", "other"}:  "blob write",
	{"blob", "delete"}: "blob delete",

	{"table", "get"}:         "table",
	{"table", "query"}:       "table",
	{"table", "insert"}:      "table",
	{"table", "update"}:      "table",
	{"table", "merge"}:       "table",
	{"table", "delete"}:      "table",
	{"table", "transaction"}: "table",
	{"table", "create"}:      "table",
	{"table", "list"}:        "table",
	{"table", "other"}:       "table",

	{"queue", "put"}:        "queue class 1",
	{"queue", "receive"}:    "queue class 1",
	{"queue", emptyReceive}: "queue class 2",
	{"queue", "delete"}:     "queue class 1",
	{"queue", "update"}:     "queue class 1",
	{"queue", "clear"}:      "queue class 1",
	{"queue", "create"}:     "queue class 1",
	{"queue", "list"}:       "queue class 1",
	{"queue", "head"}:       "queue class 2",
	{"queue", "peek"}:       "queue class 2",
	{"queue", "other"}:      "queue class 1",

	// A message that is received under a lock and completed is two operations; one
	// that is deleted as it is received, like a signal, is one.
	{bus, "send"}:       "bus operation",
	{bus, "deliver"}:    "bus operation",
	{bus, emptyReceive}: "bus operation",
	{bus, "settle"}:     "bus operation",
	{bus, "renew"}:      "bus operation",
	{bus, "peek"}:       "bus operation",
	{bus, "hour"}:       "bus hour",

	{compute, "flex execution"}:              "flex execution",
	{compute, "flex GB-second"}:              "flex GB-second",
	{compute, "flex always ready GB-second"}: "flex always ready GB-second",
	{compute, "consumption execution"}:       "consumption execution",
	{compute, "consumption GB-second"}:       "consumption GB-second",
	{compute, "premium vCPU-hour"}:           "premium vCPU-hour",
	{compute, "premium GB-hour"}:             "premium GB-hour",
	{compute, "container vCPU-second"}:       "container vCPU-second",
	{compute, "container idle vCPU-second"}:  "container idle vCPU-second",
	{compute, "container GB-second"}:         "container GB-second",
}
