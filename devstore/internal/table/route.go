package table

import (
	"net/http"
	"strings"

	"kennel/devstore/internal/rest"
)

// maxBody is how long a body may be: that of a transaction as Azure limits it,
// and that of an entity, which is larger in JSON than it is in the store.
const maxBody = 4 << 20

// Route implements [rest.Service].
func (s *Service) Route(r *rest.Request) (rest.Operation, error) {
	p, err := s.plan(r)
	return p.operation, err
}

// A plan is what a request asks for.
type plan struct {
	operation rest.Operation
	address   address
	verb      verb
}

func (s *Service) plan(r *rest.Request) (plan, error) {
	method, err := methodOf(r.HTTP)
	if err != nil {
		return plan{}, err
	}
	a, err := parseAddress(r.Path)
	if err != nil {
		return plan{}, err
	}
	p := plan{address: a, operation: rest.Operation{Container: a.table, Level: 'o'}}
	switch {
	case a.batch && method == "POST":
		p.set("Entity Group Transaction", "raud", maxBody, s.batch)
		p.operation.Container = r.Query.Get("tn") // a signature for one table names it
	case a.batch:
	case a.tables:
		s.planTables(&p, method)
	case a.table == "":
		p.operation, _ = s.properties.Operation(r)
	case r.Query.Get("comp") == "acl" && !a.entity:
		s.planPolicies(&p, method)
	case a.entity:
		s.planEntity(&p, r, method)
	case method == "GET":
		p.set("Query Entities", "r", 0, s.queryEntities)
	case method == "POST":
		p.setWrite(s, "Insert Entity", "a", insert)
	}
	if p.operation.Name == "" {
		return plan{}, rest.Fail(405, "MethodNotAllowed", "The requested method is not allowed on the specified resource.")
	}
	return p, nil
}

func (p *plan) set(name, permission string, maxBody int64, run func(*rest.Request, address) (*rest.Answer, error)) {
	o := &p.operation
	o.Name, o.Permission, o.MaxBody = name, permission, maxBody
	o.Run = func(r *rest.Request) (*rest.Answer, error) { return run(r, p.address) }
}

func (p *plan) setWrite(s *Service, name, permission string, v verb) {
	p.verb = v
	p.set(name, permission, maxBody, func(r *rest.Request, a address) (*rest.Answer, error) { return s.write(r, v, a) })
}

func (s *Service) planTables(p *plan, method string) {
	p.operation.Level, p.operation.ForAccount = 'c', true
	one := p.address.table != ""
	switch {
	case method == "GET" && one:
		p.set("Query Tables", "l", 0, s.getTable)
	case method == "GET":
		p.set("Query Tables", "l", 0, s.queryTables)
	case method == "POST" && !one:
		p.set("Create Table", "cw", maxBody, s.createTable)
	case method == "DELETE" && one:
		p.set("Delete Table", "d", maxBody, s.deleteTable)
	}
}

func (s *Service) planPolicies(p *plan, method string) {
	p.operation.Level, p.operation.ForAccount = 'c', true
	switch method {
	case "GET", "HEAD":
		p.set("Get Table ACL", "", 0, s.getPolicies)
	case "PUT":
		p.set("Set Table ACL", "", maxBody, s.setPolicies)
	}
}

func (s *Service) planEntity(p *plan, r *rest.Request, method string) {
	conditional := strings.TrimSpace(r.Header("If-Match")) != ""
	switch method {
	case "GET":
		p.set("Query Entities", "r", 0, s.getEntity)
	case "PUT":
		name := "Insert Or Replace Entity"
		if conditional {
			name = "Update Entity"
		}
		p.setWrite(s, name, "u", replace)
	case "MERGE", "PATCH":
		name := "Insert Or Merge Entity"
		if conditional {
			name = "Merge Entity"
		}
		p.setWrite(s, name, "u", merge)
	case "DELETE":
		p.setWrite(s, "Delete Entity", "d", remove)
	}
}

// methodOf returns the method of a request, which callers behind some proxies
// send in a header.
func methodOf(r *http.Request) (string, error) {
	switch values := r.Header["X-Http-Method"]; {
	case len(values) == 0:
		return r.Method, nil
	case len(values) > 1:
		return "", rest.Fail(400, "XMethodIncorrectCount", "More than one X-HTTP-Method is specified.")
	case r.Method != "POST":
		return "", rest.Fail(400, "XMethodNotUsingPost", "The request uses X-HTTP-Method with an HTTP verb other than POST.")
	default:
		switch method := strings.ToUpper(values[0]); method {
		case "PUT", "MERGE", "PATCH", "DELETE":
			return method, nil
		}
		return "", rest.Fail(400, "XMethodIncorrectValue", "The specified X-HTTP-Method is invalid.")
	}
}
