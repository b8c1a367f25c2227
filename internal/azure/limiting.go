package azure

import (
	"context"
	"io"
	"net/http"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"

	"kennel/internal/table"
)

// maxBytes is the key of a context's limit of the answer to its request.
type maxBytes struct{}

// withMaxBytes limits the answer to a request. Reading more of it fails with
// [table.ErrLarge]. Answers that are errors are not limited.
func withMaxBytes(ctx context.Context, n int) context.Context {
	return context.WithValue(ctx, maxBytes{}, n)
}

// limiting is the policy of the SDK's pipeline that applies withMaxBytes. The
// SDK would read an answer to its end, however long it is.
type limiting struct{}

func (limiting) Do(r *policy.Request) (*http.Response, error) {
	limit, _ := r.Raw().Context().Value(maxBytes{}).(int)
	if limit <= 0 {
		return r.Next()
	}
	runtime.SkipBodyDownload(r)
	answer, err := r.Next()
	if err == nil && answer.StatusCode < http.StatusBadRequest {
		answer.Body = &limitedBody{answer.Body, limit}
	}
	return answer, err
}

type limitedBody struct {
	io.ReadCloser
	left int
}

func (b *limitedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= n; b.left < 0 {
		return 0, table.ErrLarge
	}
	return n, err
}
