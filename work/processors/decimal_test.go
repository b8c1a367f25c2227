package processors

import (
	"encoding/json"
	"errors"
	"math/big"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"kennel/work"
)

func TestParseDecimal(t *testing.T) {
	for _, c := range []struct {
		text string
		want decimal
		err  error
	}{
		{"0", decimal{}, nil},
		{"-0", decimal{}, nil},
		{"0.000", decimal{}, nil},
		{"0e400", decimal{}, nil},
		{"12", decimal{digits: 12}, nil},
		{"-0.05", decimal{negative: true, digits: 5, scale: 2}, nil},
		{"1.50", decimal{digits: 15, scale: 1}, nil},
		{"100", decimal{digits: 100}, nil},
		{"1e2", decimal{digits: 100}, nil},
		{"1.25E+1", decimal{digits: 125, scale: 1}, nil},
		{"25e-3", decimal{digits: 25, scale: 3}, nil},
		{"1e-12", decimal{digits: 1, scale: 12}, nil},
		{"999999999999999999", decimal{digits: 999999999999999999}, nil},
		{"999999.999999999999", decimal{digits: 999999999999999999, scale: 12}, nil},
		{"100000000000000000", decimal{digits: 100000000000000000}, nil},
		{"1" + strings.Repeat("0", 40) + "e-40", decimal{digits: 1}, nil},
		{"0." + strings.Repeat("0", 40) + "1e41", decimal{digits: 1}, nil},
		{"1." + strings.Repeat("0", 40), decimal{digits: 1}, nil},

		{"1000000000000000000", decimal{}, errLarge},
		{"1e18", decimal{}, errLarge},
		{"1e400", decimal{}, errLarge},
		{"1e99999999999999999999", decimal{}, errLarge},
		{"1234567890123456789", decimal{}, errDigits},
		{"0.1234567890123456789", decimal{}, errDigits},
		{"0.0000000000001", decimal{}, errFraction},
		{"1e-400", decimal{}, errFraction},
		{"1e-99999999999999999999", decimal{}, errFraction},
	} {
		got, err := parseDecimal(c.text)
		if got != c.want || err != c.err {
			t.Errorf("%s is %+v, %v, want %+v, %v", c.text, got, err, c.want, c.err)
		}
	}
	for _, text := range []string{
		"", " ", " 1", "1 ", "1_000", "1,000", "+1", "-", "--1", ".5", "5.", "1.e1", "01", "-01", "00", "1e", "1e+", "1e1.5",
		"1e 1", "0x10", "1p3", "NaN", "Inf", "-Infinity", "١٢", "1\x00", "1.2.3", "1e5e5", "true", "null",
	} {
		if got, err := parseDecimal(text); err != errNumber {
			t.Errorf("%q is %+v, %v, want %v", text, got, err, errNumber)
		}
	}
}

// exact is the independent value of a text, which is a number of JSON.
func exact(text string) *big.Rat {
	r, ok := new(big.Rat).SetString(text)
	if !ok {
		panic(text)
	}
	return r
}

// exactUnits is the independent product in minor units, half to even.
func exactUnits(a, b *big.Rat, minor int) *big.Int {
	scaled := new(big.Rat).Mul(a, b)
	scaled.Mul(scaled, exact("1e"+strconv.Itoa(minor)))
	floor, rest := new(big.Int).DivMod(scaled.Num(), scaled.Denom(), new(big.Int)) // 0 ≤ rest < denominator
	switch rest.Lsh(rest, 1).Cmp(scaled.Denom()) {
	case 1:
		floor.Add(floor, big.NewInt(1))
	case 0:
		floor.Add(floor, new(big.Int).And(floor, big.NewInt(1)))
	}
	return floor
}

// checkTimes compares the product of two numbers with the exact one.
func checkTimes(t *testing.T, x, y string, minor int) {
	t.Helper()
	a, err1 := parseDecimal(x)
	b, err2 := parseDecimal(y)
	if err1 != nil || err2 != nil {
		t.Fatalf("%s: %v; %s: %v", x, err1, y, err2)
	}
	units, ok := a.times(b, minor)
	want := exactUnits(exact(x), exact(y), minor)
	fits := len(new(big.Int).Abs(want).String()) <= maxDigits
	if ok != fits || ok && want.Cmp(big.NewInt(units)) != 0 {
		t.Errorf("%s × %s with %d digits is %d, %t, want %d, %t", x, y, minor, units, ok, want, fits)
	}
	if other, otherOK := b.times(a, minor); other != units || otherOK != ok {
		t.Errorf("%s × %s with %d digits depends on the order", x, y, minor)
	}
}

func TestTimes(t *testing.T) {
	for _, c := range []struct{ x, y string }{
		{"0.5", "0.01"}, {"1.5", "0.01"}, {"2.5", "0.01"}, {"-2.5", "0.01"}, {"-0.5", "0.01"},
		{"2.5000000001", "0.01"}, {"2.499999999999", "0.01"}, {"0.000000000001", "0.000000000001"},
		{"999999999999999999", "999999999999999999"}, {"999999.999999999999", "999999.999999999999"},
		{"999999999999999999", "1"}, {"999999999999999999", "0.01"}, {"99999999999999999.5", "10"}, {"999999999999999.995", "1"},
		{"-999999999999999.995", "1"}, {"9999999999999999.95", "1"}, {"99999999999999999.5", "0.1"}, {"0", "-1"}, {"0.05", "0.5"}, {"1e17", "1e17"},
	} {
		for _, minor := range []int{0, 2, 3, 4} {
			checkTimes(t, c.x, c.y, minor)
		}
	}
}

func TestTimesAtRandom(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	number := func() string {
		digits := strconv.FormatUint(r.Uint64N(powers[1+r.IntN(maxDigits)]), 10)
		if r.IntN(3) == 0 { // ends that meet a half
			digits = strings.TrimLeft(digits[:len(digits)/2]+"5", "0")
		}
		text := digits + "e-" + strconv.Itoa(r.IntN(maxFraction+1))
		if r.IntN(4) == 0 {
			text = "-" + text
		}
		return text
	}
	for range 5_000 {
		checkTimes(t, number(), number(), []int{0, 2, 3, 4}[r.IntN(4)])
	}
}

func TestAppendUnits(t *testing.T) {
	for _, c := range []struct {
		units string
		minor int
		want  string
	}{
		{"0", 0, "0"}, {"0", 2, "0.00"}, {"5", 2, "0.05"}, {"-5", 2, "-0.05"}, {"12", 2, "0.12"}, {"-1234", 2, "-12.34"},
		{"1234", 0, "1234"}, {"-1", 0, "-1"}, {"1", 4, "0.0001"}, {"1234567", 3, "1234.567"},
	} {
		if got := appendUnits(nil, []byte(c.units), c.minor); string(got) != c.want {
			t.Errorf("%s with %d digits is %s, want %s", c.units, c.minor, got, c.want)
		}
	}
}

func FuzzDecimal(f *testing.F) {
	for _, text := range []string{"0", "-12.50", "1e400", "1e-13", "0.5e1", "01", "1_0", "NaN", "1e", "999999999999999999", "100000000000000000000e-3"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > work.MaxItem {
			return
		}
		d, err := parseDecimal(text)
		var n json.Number
		isNumber := text != "" && text[0] != '"' && text != "null" && strings.TrimSpace(text) == text && json.Unmarshal([]byte(text), &n) == nil
		switch {
		case isNumber == errors.Is(err, errNumber):
			t.Fatalf("%q: %v, and encoding/json: %t", text, err, isNumber)
		case err != nil:
			if d != (decimal{}) {
				t.Fatalf("%q is %+v, %v", text, d, err)
			}
			return
		}
		if d.digits >= powers[maxDigits] || d.scale < 0 || d.scale > maxFraction || d.scale > 0 && d.digits%10 == 0 {
			t.Fatalf("%q is %+v, beyond the limits", text, d)
		}
		got := exact(strconv.FormatUint(d.digits, 10) + "e-" + strconv.Itoa(d.scale))
		if d.negative {
			got.Neg(got)
		}
		if _, exponent, _ := strings.Cut(strings.ToLower(text), "e"); len(exponent) > 6 {
			return // math/big takes long
		}
		if want := exact(text); got.Cmp(want) != 0 {
			t.Fatalf("%q is %s, want %s", text, got, want)
		}
	})
}
