package queue

import (
	"net/url"
	"strings"

	"kennel/devstore/internal/rest"
)

const (
	// A text of 64 KiB can be written as XML in up to ten bytes for each of its
	// bytes.
	maxMessageBody = 10*maxText + 4<<10

	maxPolicyBody = 64 << 10
)

// Route implements [rest.Service].
func (s *Service) Route(r *rest.Request) (rest.Operation, error) {
	if o, ok := s.properties.Operation(r); ok {
		return o, nil
	}
	parts := strings.Split(r.Path, "/")
	for i, part := range parts {
		decoded, err := url.PathUnescape(part)
		if err != nil {
			return rest.Operation{}, rest.Fail(400, "InvalidUri", "The requested URI does not represent any resource on the server.")
		}
		parts[i] = decoded
	}
	if parts[0] == "" && len(parts) == 1 {
		return s.routeService(r)
	}
	if err := checkName(parts[0]); err != nil {
		return rest.Operation{}, err
	}
	// Delete Message without an id must not clear the queue.
	emptyID := len(parts) == 3 && parts[2] == ""
	var o rest.Operation
	var err error
	switch {
	case len(parts) == 1 || len(parts) == 2 && parts[1] == "":
		o, err = s.routeQueue(r, parts[0])
	case parts[1] == "messages" && (len(parts) == 2 || emptyID && r.HTTP.Method != "DELETE"):
		o, err = s.routeMessages(r, parts[0])
	case parts[1] == "messages" && len(parts) == 3:
		o, err = s.routeMessage(r, parts[0], parts[2])
	default:
		err = rest.Fail(400, "InvalidUri", "The requested URI does not represent any resource on the server.")
	}
	o.Container = parts[0]
	return o, err
}

func (s *Service) routeService(r *rest.Request) (rest.Operation, error) {
	switch method, comp := r.HTTP.Method, r.Query.Get("comp"); {
	case comp == "list" && method == "GET":
		return rest.Operation{Name: "List Queues", Level: 's', Permission: "l", Run: s.listQueues}, nil
	case comp == "userdelegationkey" && method == "POST":
		return rest.Operation{Name: "Get User Delegation Key", Level: 's', MaxBody: maxPolicyBody}, nil
	default:
		return rest.Operation{}, unknown(r, "list", "properties", "stats", "userdelegationkey")
	}
}

func (s *Service) routeQueue(r *rest.Request, name string) (rest.Operation, error) {
	bind := func(run runner) func(*rest.Request) (*rest.Answer, error) {
		return func(r *rest.Request) (*rest.Answer, error) { return run(r, name) }
	}
	switch method, comp := r.HTTP.Method, r.Query.Get("comp"); {
	case comp == "" && method == "PUT":
		return rest.Operation{Name: "Create Queue", Level: 'c', ForAccount: true, Permission: "cw", Run: bind(s.createQueue)}, nil
	case comp == "" && method == "DELETE":
		return rest.Operation{Name: "Delete Queue", Level: 'c', ForAccount: true, Permission: "d", Run: bind(s.deleteQueue)}, nil
	case comp == "metadata" && (method == "GET" || method == "HEAD"):
		return rest.Operation{Name: "Get Queue Metadata", Level: 'c', Permission: "r", Run: bind(s.getMetadata)}, nil
	case comp == "metadata" && method == "PUT":
		return rest.Operation{Name: "Set Queue Metadata", Level: 'c', ForAccount: true, Permission: "w", Run: bind(s.setMetadata)}, nil
	case comp == "acl" && (method == "GET" || method == "HEAD"):
		return rest.Operation{Name: "Get Queue ACL", Level: 'c', ForAccount: true, Run: bind(s.getACL)}, nil
	case comp == "acl" && method == "PUT":
		return rest.Operation{Name: "Set Queue ACL", Level: 'c', ForAccount: true, MaxBody: maxPolicyBody, Run: bind(s.setACL)}, nil
	default:
		return rest.Operation{}, unknown(r, "", "metadata", "acl")
	}
}

func (s *Service) routeMessages(r *rest.Request, name string) (rest.Operation, error) {
	bind := func(run runner) func(*rest.Request) (*rest.Answer, error) {
		return func(r *rest.Request) (*rest.Answer, error) { return run(r, name) }
	}
	switch method := r.HTTP.Method; {
	case method == "POST":
		return rest.Operation{Name: "Put Message", Level: 'o', Permission: "a", MaxBody: maxMessageBody, Run: bind(s.putMessage)}, nil
	case method == "GET" && strings.EqualFold(r.Query.Get("peekonly"), "true"):
		return rest.Operation{Name: "Peek Messages", Level: 'o', Permission: "r", Run: bind(s.peekMessages)}, nil
	case method == "GET":
		return rest.Operation{Name: "Get Messages", Level: 'o', Permission: "p", Run: bind(s.getMessages)}, nil
	case method == "DELETE":
		return rest.Operation{Name: "Clear Messages", Level: 'o', Permission: "d", Run: bind(s.clearMessages)}, nil
	default:
		return rest.Operation{}, unknown(r, "")
	}
}

func (s *Service) routeMessage(r *rest.Request, name, id string) (rest.Operation, error) {
	switch r.HTTP.Method {
	case "PUT":
		return rest.Operation{Name: "Update Message", Level: 'o', Permission: "u", MaxBody: maxMessageBody,
			Run: func(r *rest.Request) (*rest.Answer, error) { return s.updateMessage(r, name, id) }}, nil
	case "DELETE":
		return rest.Operation{Name: "Delete Message", Level: 'o', Permission: "p",
			Run: func(r *rest.Request) (*rest.Answer, error) { return s.deleteMessage(r, name, id) }}, nil
	default:
		return rest.Operation{}, unknown(r, "")
	}
}

// A runner runs an operation on a queue.
type runner func(r *rest.Request, queue string) (*rest.Answer, error)

// unknown returns the error of a request that is no operation: its comp is none
// of those of the resource, or the method does not belong to it.
func unknown(r *rest.Request, comps ...string) error {
	for _, comp := range comps {
		if r.Query.Get("comp") == comp {
			return rest.Fail(405, "UnsupportedHttpVerb", "The resource doesn't support the specified HTTP verb.")
		}
	}
	return rest.InvalidQuery("comp", r.Query.Get("comp"), "")
}
