package queue

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/xml"
	"errors"
	"io"
	"strconv"
	"strings"

	"kennel/devstore/internal/rest"
)

// decodeXML reads a body that has one root element.
func decodeXML(body []byte, into any) error {
	decoder := xml.NewDecoder(bytes.NewReader(body))
	if err := decoder.Decode(into); err != nil {
		return err
	}
	for {
		token, err := decoder.Token()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if _, ok := token.(xml.StartElement); ok {
			return errors.New("there are multiple root elements")
		}
	}
}

func writeElement(b *bytes.Buffer, name, text string) {
	if text == "" {
		b.WriteString("<" + name + " />")
		return
	}
	b.WriteString("<" + name + ">")
	_ = xml.EscapeText(b, []byte(text))
	b.WriteString("</" + name + ">")
}

// readNumber reads a query parameter.
func readNumber(r *rest.Request, name string, low, high int64) (int64, error) {
	value := r.Query.Get(name)
	n, err := strconv.ParseInt(strings.TrimSpace(value), 10, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0, rest.InvalidQuery(name, value, "Invalid query parameter value.")
	}
	if err != nil || n < low || n > high {
		return 0, rest.OutOfRange(name, value, low, high)
	}
	return n, nil
}

func missingQuery(name string) error {
	e := rest.Fail(400, "MissingRequiredQueryParameter", "A query parameter that's mandatory for this request is not specified.")
	e.Details = []string{"QueryParameterName", name}
	return e
}

// A receipt is 12 bytes that are always the same, then a time.
var receiptHead = []byte{2, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0}

func formatReceipt(receipt ticks) string {
	b := binary.LittleEndian.AppendUint64(append(make([]byte, 0, 20), receiptHead...), uint64(receipt))
	return base64.StdEncoding.EncodeToString(b)
}

// readReceipt returns 0, the receipt of no message, for one that this service
// did not give.
func readReceipt(r *rest.Request) (ticks, error) {
	value := r.Query.Get("popreceipt")
	if value == "" {
		return 0, missingQuery("popreceipt")
	}
	b, err := base64.StdEncoding.DecodeString(value)
	if err != nil {
		return 0, rest.InvalidQuery("popreceipt", value, "Invalid pop receipt format")
	}
	if len(b) != 20 || !bytes.HasPrefix(b, receiptHead) {
		return 0, nil
	}
	return ticks(binary.LittleEndian.Uint64(b[len(receiptHead):])), nil
}
