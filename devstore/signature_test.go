package devstore_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/url"
	"strings"

	"kennel/devstore"
)

// accountSignature returns the escaped signature of the query of an account SAS
// for the default account.
func accountSignature(query string) string {
	q, _ := url.ParseQuery(query) // a constant of a test
	text := strings.Join([]string{devstore.DefaultAccount, q.Get("sp"), q.Get("ss"), q.Get("srt"), q.Get("st"), q.Get("se"), q.Get("sip"), q.Get("spr"), q.Get("sv"), "", ""}, "\n")
	key, _ := base64.StdEncoding.DecodeString(devstore.DefaultKey) // a constant too
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte(text))
	return url.QueryEscape(base64.StdEncoding.EncodeToString(mac.Sum(nil)))
}
