package processors

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"kennel/work"
)

func TestCurrencies(t *testing.T) {
	if len(minorDigits) != 17+139+7+2 {
		t.Errorf("%d currencies, want 165", len(minorDigits))
	}
	for code, want := range map[string]int{"EUR": 2, "JPY": 0, "KWD": 3, "CLF": 4, "XCG": 2, "ISK": 0, "UYW": 4, "VED": 2} {
		if got, ok := minorDigits[code]; !ok || got != want {
			t.Errorf("%s has %d digits, %t, want %d", code, got, ok, want)
		}
	}
	for _, code := range append(strings.Fields("XAG XAU XBA XBB XBC XBD XDR XPD XPT XSU XTS XUA XXX"), "DEM", "BGN", "HRK", "eur", "") {
		if _, ok := minorDigits[code]; ok {
			t.Errorf("%q can be billed", code)
		}
	}
}

// charged is an item with one member replaced.
func charged(name, value string) json.RawMessage {
	members := [][2]string{{"id", `"1"`}, {"account", `"acme"`}, {"sku", `"disk"`}, {"quantity", `"3"`}, {"unitPrice", `0.25`}, {"currency", `"EUR"`}}
	var parts []string
	for _, m := range members {
		if m[0] == name {
			m[1] = value
		}
		if m[1] != "" {
			parts = append(parts, fmt.Sprintf("%q:%s", m[0], m[1]))
		}
	}
	return json.RawMessage("{" + strings.Join(parts, ",") + "}")
}

func TestBillingValidate(t *testing.T) {
	for _, item := range []json.RawMessage{
		charged("", ""),
		charged("quantity", `"-3"`),
		charged("quantity", `1e2`),
		charged("account", `"a\u0062"`),
		charged("account", `"Ł ,\""`),
		charged("currency", `"\u0045UR"`),
		json.RawMessage(" {\n\"currency\" : \"EUR\" , \"id\":\"1\",\t\"sku\":\"s\",\"account\":\"a\",\"quantity\":1,\"unitPrice\":1 }\r\n"),
	} {
		if err := (Billing{}).Validate(item); err != nil {
			t.Errorf("%s: %v", item, err)
		}
	}
	for _, c := range []struct {
		item json.RawMessage
		want string
	}{
		{charged("quantity", `1e400`), `quantity "1e400" is too large: it has more than 18 digits before the decimal point`},
		{charged("quantity", `NaN`), `quantity "NaN" is not a decimal number`},
		{charged("quantity", `""`), `quantity "" is not a decimal number`},
		{charged("quantity", `"1_000"`), `quantity "1_000" is not a decimal number`},
		{charged("unitPrice", `" 1"`), `unitPrice " 1" is not a decimal number`},
		{charged("unitPrice", `null`), `unitPrice "null" is not a decimal number`},
		{charged("unitPrice", `[1]`), `unitPrice "[1]" is not a decimal number`},
		{charged("unitPrice", `{"a":[1,"}"]}`), `is not a decimal number`},
		{charged("unitPrice", `1.0000000000000000001`), `unitPrice "1.0000000000000000001" has more than 18 significant digits`},
		{charged("unitPrice", ``), `unitPrice is missing`},
		{charged("quantity", ``), `quantity is missing`},
		{charged("account", ``), `account is missing`},
		{charged("account", `""`), `account is empty`},
		{charged("account", `7`), `account is not a string`},
		{charged("account", `"`+strings.Repeat("x", maxText+1)+`"`), `account is longer than 200 bytes`},
		{charged("account", "\"a\xff\""), `not valid Unicode`},
		{charged("account", `"\ud800"`), `not valid Unicode`},
		{charged("account", `"\q"`), `not valid JSON`},
		{charged("sku", ``), `sku is missing`},
		{charged("currency", `"eur"`), `currency "eur" is not an active code of ISO 4217`},
		{charged("currency", `"XAU"`), `currency "XAU" is not an active code of ISO 4217 with a minor unit`},
		{charged("currency", `"`+strings.Repeat("é", 60)+`"`), `currency "` + strings.Repeat("é", 25) + `"… is not`},
		{json.RawMessage(`{"id":"1","qty":1}`), `member "qty" is unknown; the members are id, account, sku, quantity, unitPrice, currency`},
		{json.RawMessage(`{"id":"1","Account":"a"}`), `member "Account" is unknown`},
		{json.RawMessage(`{"id":"1","account":"a","\u0061ccount":"a"}`), `member "account" is repeated`},
		{json.RawMessage(`["id"]`), `not a JSON object`},
		{json.RawMessage(``), `not a JSON object`},
		{json.RawMessage(`{}`), `id is missing`},
		{json.RawMessage(`{"id":"1",}`), `not valid JSON`},
		{json.RawMessage(`{"id":"1"} {}`), `not valid JSON`},
		{json.RawMessage(`{"id":"1"`), `not valid JSON`},
		{json.RawMessage(`{"id":`), `not valid JSON`},
		{json.RawMessage(`{"id" "1"}`), `not valid JSON`},
	} {
		if err := (Billing{}).Validate(c.item); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.item, err, c.want)
		}
		if _, err := (Billing{}).Process(t.Context(), work.Item{ID: "1", Data: c.item}); !errors.Is(err, work.ErrRejected) {
			t.Errorf("%s: processed with %v, want %v", c.item, err, work.ErrRejected)
		}
	}
}

func TestBillingProcess(t *testing.T) {
	for _, c := range []struct{ quantity, price, currency, want string }{
		{`3`, `"0.25"`, "EUR", "0.75"},
		{`"-3"`, `0.25`, "EUR", "-0.75"},
		{`0.5`, `0.01`, "EUR", "0.00"},
		{`1.5`, `0.01`, "EUR", "0.02"},
		{`2.5`, `0.01`, "EUR", "0.02"},
		{`-2.5`, `0.01`, "EUR", "-0.02"},
		{`2.5`, `1`, "JPY", "2"},
		{`1`, `0.0005`, "KWD", "0.000"},
		{`3`, `0.0005`, "KWD", "0.002"},
		{`1`, `9999999999999999.99`, "EUR", "9999999999999999.99"},
		{`1`, `99999999999999999`, "EUR", ""},
		{`-999999999999999999`, `999999999999999999`, "JPY", ""},
		{`9007199254740993`, `1`, "JPY", "9007199254740993"}, // not a float64
		{`0.1`, `3`, "EUR", "0.30"},
	} {
		data := fmt.Sprintf(`{"id":"1","account":"ac\u006de","sku":"s","quantity":%s,"unitPrice":%s,"currency":%q}`, c.quantity, c.price, c.currency)
		got, err := Billing{}.Process(t.Context(), work.Item{ID: "1", Data: json.RawMessage(data)})
		if c.want == "" {
			if !errors.Is(err, work.ErrRejected) || !strings.Contains(err.Error(), "more than 18 digits") {
				t.Errorf("%s: %s, %v, want %v", data, got, err, work.ErrRejected)
			}
			continue
		}
		if want := fmt.Sprintf(`{"account":"ac\u006de","currency":%q,"amount":%q}`, c.currency, c.want); string(got) != want || err != nil {
			t.Errorf("%s: %s, %v, want %s", data, got, err, want)
		}
	}
	long := charged("account", `"`+strings.Repeat(`\u00e9`, maxText/2)+`"`)
	if got, err := (Billing{}).Process(t.Context(), work.Item{ID: "1", Data: long}); err != nil || len(got) > work.MaxResult {
		t.Errorf("the longest account has a result of %d bytes, %v, want at most %d", len(got), err, work.MaxResult)
	}
}

// TestBillIsExact bills random items and compares the report with exact sums.
func TestBillIsExact(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	sums, counts := map[billKey]*big.Int{}, map[billKey]int{}
	report := Billing{}.NewReport("b")
	for i := range 1_000 {
		account := []string{"acme", "=1+1", "a,b", `"q"`, "x\r\ny", "Ł", "-5"}[r.IntN(7)]
		currency := []string{"EUR", "JPY", "KWD", "UYW"}[r.IntN(4)]
		quantity := fmt.Sprintf("%d.%03d", r.Int64N(2_000_000)-1_000_000, r.IntN(1000))
		price := fmt.Sprintf("%d.%05d", r.Int64N(1_000_000), r.IntN(100_000))
		data, err := json.Marshal(map[string]any{"id": "x", "account": account, "sku": "s", "quantity": quantity, "unitPrice": json.Number(price), "currency": currency})
		if err != nil {
			t.Fatal(err)
		}
		result, err := Billing{}.Process(t.Context(), work.Item{ID: "x", Data: data})
		if err != nil {
			t.Fatal(err)
		}
		if err := report.Add(work.Result{ID: fmt.Sprint(i), Outcome: work.ItemDone, Result: result}); err != nil {
			t.Fatal(err)
		}
		key := billKey{account, currency}
		if sums[key] == nil {
			sums[key] = new(big.Int)
		}
		sums[key].Add(sums[key], exactUnits(exact(quantity), exact(price), minorDigits[currency]))
		counts[key]++
	}
	text, err := report.JSON()
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Batch    string
		Totals   []billLine
		Rejected []json.RawMessage
		Failed   *[]json.RawMessage
	}
	if err := json.Unmarshal(text, &got); err != nil || got.Batch != "b" || got.Rejected == nil || len(got.Rejected) > 0 || got.Failed != nil || len(got.Totals) != len(sums) {
		t.Fatalf("%s, %v", text, err)
	}
	for i, line := range got.Totals {
		key := billKey{line.Account, line.Currency}
		want := new(big.Rat).Mul(new(big.Rat).SetInt(sums[key]), exact(fmt.Sprintf("1e-%d", minorDigits[key.currency])))
		if line.Amount != want.FloatString(minorDigits[key.currency]) || line.Items != counts[key] {
			t.Errorf("%+v, want %s of %d items", line, want.FloatString(4), counts[key])
		}
		if i > 0 && (got.Totals[i-1].Account+"\x00"+got.Totals[i-1].Currency) >= line.Account+"\x00"+line.Currency {
			t.Errorf("%+v is after %+v", line, got.Totals[i-1])
		}
	}
	table, err := report.CSV()
	if err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(bytes.NewReader(table)).ReadAll()
	if err != nil || strings.Join(rows[0], ",") != "account,currency,amount,items" || len(rows) != 1+len(got.Totals) {
		t.Fatalf("%d rows, %v, %v", len(rows), rows[0], err)
	}
	for i, line := range got.Totals {
		account := strings.ReplaceAll(line.Account, "\r\n", "\n") // the reader's
		if want := []string{account, line.Currency, line.Amount, fmt.Sprint(line.Items)}; !slices.Equal(rows[i+1], want) {
			t.Errorf("row %q, want %q", rows[i+1], want)
		}
	}
	if again, err := report.JSON(); err != nil || !bytes.Equal(again, text) {
		t.Errorf("the second report differs: %v", err)
	}
}

func TestBillNotDone(t *testing.T) {
	report := Billing{}.NewReport("b")
	for _, r := range []work.Result{
		{ID: "2", Outcome: work.ItemRejected, Error: "no"},
		{ID: "1", Outcome: work.ItemDone, Result: json.RawMessage(`{"account":"a","currency":"JPY","amount":"-999999999999999999"}`)},
		{ID: "3", Outcome: work.ItemFailed, Error: "late"},
		{ID: "4", Outcome: work.ItemDone, Result: json.RawMessage(`{"account":"\u0061","currency":"JPY","amount":"-999999999999999999"}`)},
	} {
		if err := report.Add(r); err != nil {
			t.Fatal(err)
		}
	}
	text, err := report.JSON()
	want := `{"batch":"b","totals":[{"account":"a","currency":"JPY","amount":"-1999999999999999998","items":2}],` +
		`"rejected":[{"id":"2","error":"no"}],"failed":[{"id":"3","error":"late"}]}`
	if diff := cmp.Diff(want, string(text)); diff != "" || err != nil {
		t.Error(err, diff)
	}
	for _, result := range []string{``, `{}`, `{"account":"a","currency":"JPY","amount":"1.5"}`, `{"account":"a","currency":"DEM","amount":"1"}`,
		`{"account":"a","currency":"EUR","amount":"x"}`, `{"account":"a","currency":1,"amount":"1"}`} {
		if err := report.Add(work.Result{ID: "5", Outcome: work.ItemDone, Result: json.RawMessage(result)}); !errors.Is(err, work.ErrCorrupt) {
			t.Errorf("%s: %v, want %v", result, err, work.ErrCorrupt)
		}
	}
}

// decodeCharge is an independent decoder of items, over encoding/json.
func decodeCharge(item []byte) (members map[string]string, ok bool) {
	if !json.Valid(item) || !utf8.Valid(item) {
		return nil, false
	}
	d := json.NewDecoder(bytes.NewReader(item))
	d.UseNumber()
	if start, err := d.Token(); err != nil || start != json.Delim('{') {
		return nil, false
	}
	members = make(map[string]string)
	for d.More() {
		name, err1 := d.Token()
		value, err2 := d.Token()
		key, _ := name.(string)
		if _, repeated := members[key]; err1 != nil || err2 != nil || repeated {
			return nil, false
		}
		switch v := value.(type) {
		case json.Number:
			if key != "quantity" && key != "unitPrice" {
				return nil, false
			}
			members[key] = string(v)
		case string:
			members[key] = v
		default:
			return nil, false
		}
		if strings.ContainsRune(members[key], utf8.RuneError) {
			return nil, false
		}
	}
	for _, name := range []string{"id", "account", "sku"} {
		if n := len(members[name]); n < 1 || n > maxText {
			return nil, false
		}
	}
	_, known := minorDigits[members["currency"]]
	_, err1 := parseDecimal(members["quantity"])
	_, err2 := parseDecimal(members["unitPrice"])
	return members, len(members) == 6 && known && err1 == nil && err2 == nil
}

func FuzzCharge(f *testing.F) {
	f.Add([]byte(charged("", "")))
	f.Add([]byte(charged("account", `"\u00e9\ud83d\ude00"`)))
	f.Add([]byte(charged("unitPrice", `{"a":["}\"",{}]}`)))
	f.Add([]byte(charged("sku", `"\ud800"`)))
	f.Add([]byte(`{"id":"1","id":"2"}`))
	f.Add([]byte("{\"\\u0069d\" : \"1\" }\n"))
	f.Fuzz(func(t *testing.T, item []byte) {
		members, ok := decodeCharge(item)
		c, err := readCharge(item)
		if ok != (err == nil) {
			t.Fatalf("%q: %v, want valid %t", item, err, ok)
		}
		if !ok {
			return
		}
		var account string
		if err := json.Unmarshal(c.account, &account); err != nil || account != members["account"] || string(c.currency) != members["currency"] {
			t.Fatalf("%q has account %q and currency %q, %v", item, c.account, c.currency, err)
		}
		quantity, _ := parseDecimal(members["quantity"])
		unitPrice, _ := parseDecimal(members["unitPrice"])
		if c.quantity != quantity || c.unitPrice != unitPrice {
			t.Fatalf("%q has %+v × %+v", item, c.quantity, c.unitPrice)
		}
		result, err := Billing{}.Process(t.Context(), work.Item{ID: "1", Data: item})
		if errors.Is(err, work.ErrRejected) {
			return
		}
		if err != nil || len(result) > work.MaxResult || !json.Valid(result) {
			t.Fatalf("%q has result %q, %v", item, result, err)
		}
		if err := (Billing{}).NewReport("b").Add(work.Result{ID: "1", Outcome: work.ItemDone, Result: result}); err != nil {
			t.Fatalf("%q: %v", result, err)
		}
	})
}

func BenchmarkBilling(b *testing.B) {
	item := charged("", "")
	result, err := Billing{}.Process(b.Context(), work.Item{ID: "1", Data: item})
	if err != nil {
		b.Fatal(err)
	}
	report := Billing{}.NewReport("b")
	for name, do := range map[string]func() error{
		"Validate": func() error { return Billing{}.Validate(item) },
		"Process":  func() error { _, err := Billing{}.Process(b.Context(), work.Item{ID: "1", Data: item}); return err },
		"Add":      func() error { return report.Add(work.Result{ID: "1", Outcome: work.ItemDone, Result: result}) },
		"Valid":    func() error { json.Valid(item); return nil },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := do(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
