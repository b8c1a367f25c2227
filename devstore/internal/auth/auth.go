// Package auth finds out who calls devstore, and whether it may: by a signature
// with the account's key, by a shared access signature, or by a token.
package auth

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"time"

	"kennel/devstore/internal/rest"
)

// maxSkew is how far the clock of a caller that signs with the account's key
// may be from that of the storage.
const maxSkew = 15 * time.Minute

// The letters of the services in shared access signatures.
const (
	Blob  = 'b'
	Queue = 'q'
	Table = 't'
)

// A Caller is the storage's side of a request that is to be authorized.
type Caller struct {
	Request   *rest.Request
	Service   byte // Blob, Queue or Table
	Key       []byte
	Operation rest.Operation

	// Policy returns a stored access policy of the operation's container.
	Policy func(id string) (rest.Policy, bool)
}

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

// failed is the error of a caller who could not be identified. The detail is
// for developers: it holds no key and no signature of ours.
func failed(detail string, args ...any) error {
	e := rest.Fail(403, "AuthenticationFailed", "Server failed to authenticate the request. Make sure the value of Authorization header is formed correctly including the signature.")
	e.Details = []string{"AuthenticationErrorDetail", fmt.Sprintf(detail, args...)}
	return e
}

// signed reports whether a signature is that of the key over one of the texts.
func signed(key []byte, signature string, texts ...string) bool {
	given, err := base64.StdEncoding.DecodeString(signature)
	if err != nil {
		return false
	}
	for _, text := range texts {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(text))
		if hmac.Equal(mac.Sum(nil), given) {
			return true
		}
	}
	return false
}
