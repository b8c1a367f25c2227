package api

import (
	"net/http"

	"kennel/docs"
)

var yamlType = []string{"application/yaml"}

// OpenAPI serves GET /api/openapi.yaml: the description of the API, from which
// clients are generated.
func OpenAPI(w http.ResponseWriter, r *http.Request) {
	w.Header()["Content-Type"] = yamlType
	w.Write(docs.OpenAPI)
}
