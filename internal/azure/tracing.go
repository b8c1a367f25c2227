package azure

import (
	"net/http"
	"path"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"kennel/internal/azure/requests"
	"kennel/internal/names"
	"kennel/internal/trace"
)

// tracing is the policy of the SDK's pipeline that records requests within a
// trace. It runs where counting does, so a request that is repeated is another
// span.
type tracing struct{ service, prefix string }

func (t tracing) Do(r *policy.Request) (*http.Response, error) {
	raw := r.Raw()
	if !trace.Records(raw.Context()) {
		return r.Next()
	}
	span := t.start(raw)
	defer span.End()
	answer, err := r.Next()
	switch {
	case err != nil:
		span.Fail(causeOf(err))
	case isFailure(answer.StatusCode) || isDenial(answer.StatusCode):
		span.Fail(answer.Status)
	}
	if answer != nil { // a 404 or 409 is often expected
		span.Number(trace.Status, int64(answer.StatusCode))
		span.Text("azure.service.request.id", answer.Header.Get("x-ms-request-id"))
	}
	return answer, err
}

func (t tracing) start(raw *http.Request) trace.Span {
	operation := requests.Operation(t.service, raw.Method, raw.URL)
	name, kind := t.service+" "+operation, trace.Client
	isPut := t.service == requests.Queue && operation == "put"
	queue, _ := names.WithoutPrefix(t.prefix, path.Base(path.Dir(raw.URL.Path))) // before /messages
	if isPut {
		name, kind = "publish "+queue, trace.Producer
	}
	_, span := trace.Start(raw.Context(), name, kind)
	if isPut {
		span.Text(trace.System, trace.Queues)
		span.Text(trace.Operation, "send")
		span.Text(trace.Queue, queue)
	}
	span.Text(trace.Method, raw.Method)
	span.Text("server.address", raw.URL.Hostname())
	return span
}
