// Package docs holds the description of the HTTP API that the app serves. The
// other documents of the folder are only for people.
package docs

import _ "embed"

// OpenAPI is openapi.yaml. It must not be changed.
//
//go:embed openapi.yaml
var OpenAPI []byte
