// Package auth finds out who calls devstore, and whether it may: by a signature
// with the account's key, by a shared access signature, or by a token.
package auth

import (
	"net/http"
	"strings"

	"kennel/devstore/internal/rest"
)

// Authorize checks that the caller may have the operation run, and gives the
// request its Grant. An error is a *rest.Error.
func Authorize(c Caller) error {
	kind, credential, _ := strings.Cut(c.Request.Header("Authorization"), " ")
	switch {
	case kind == "":
		return c.withoutHeader()
	case strings.EqualFold(kind, "SharedKey"), strings.EqualFold(kind, "SharedKeyLite"):
		return c.sharedKey(strings.EqualFold(kind, "SharedKeyLite"), credential)
	case strings.EqualFold(kind, "Bearer"):
		if err := c.bearer(credential); err != nil || !c.Request.Query.Has("sduoid") {
			return err
		}
		return c.signature() // for this user alone
	default:
		return failed("The kind of authorization is %q, not SharedKey, SharedKeyLite or Bearer.", kind)
	}
}

func (c Caller) withoutHeader() error {
	if c.Request.Query.Has("sig") {
		return c.signature()
	}
	if c.Operation.Public {
		return nil
	}
	e := rest.Fail(401, "NoAuthenticationInformation", "Server failed to authenticate the request. Please refer to the information in the www-authenticate header.")
	e.Header = http.Header{"Www-Authenticate": {"Bearer authorization_uri=https://login.microsoftonline.com/common/oauth2/authorize resource_id=https://storage.azure.com"}}
	return e
}
