package instances

// RequestSection has the requests of a process to services.
var RequestSection = List[Requests]("requests", nil)

// Requests counts the requests of a process to a service since it started.
type Requests struct {
	Service   string `json:"service"`
	Operation string `json:"op"`
	Job       string `json:"job,omitempty"` // "" if unknown
	Count     int64  `json:"n"`
}
