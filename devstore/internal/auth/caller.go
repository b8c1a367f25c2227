package auth

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"

	"kennel/devstore/internal/rest"
)

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
	AnyDate   bool // the clock of the storage is another one than that of callers

	// Policy returns a stored access policy of the operation's container.
	Policy func(id string) (rest.Policy, bool)
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
