package azurite

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// Running returns the Azurite that another program runs at the ports first,
// first+1 and first+2 of 127.0.0.1, as every Azurite does by default, or nil if
// there is none. [Server.Stop] has no effect on it, and [Server.Done] does not
// report its end.
func Running(ctx context.Context, first int) *Server {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	s := &Server{}
	for i, service := range []struct {
		name string
		url  *string
	}{{"Blob", &s.blobURL}, {"Queue", &s.queueURL}, {"Table", &s.tableURL}} {
		*service.url = fmt.Sprintf("http://127.0.0.1:%d/%s", first+i, accountName)
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, *service.url, nil)
		if err != nil {
			return nil
		}
		request.Close = true // requests are rare
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			return nil
		}
		answer.Body.Close() // any status will do: the request is not signed
		if !strings.HasPrefix(answer.Header.Get("Server"), "Azurite-"+service.name) {
			return nil
		}
	}
	return s
}
