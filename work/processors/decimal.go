package processors

import (
	"errors"
	"math/bits"

	"kennel/work"
)

// Limits of a decimal. Zeros before the first and after the last other digit do
// not count. With them the product of two decimals has at most 36 digits, fewer
// than 128 bits hold.
const (
	maxDigits   = 18 // significant digits, and digits before the point
	maxFraction = 12 // digits after the point
)

// decimal is an exact decimal number: digits / 10^scale. Its digits end in no
// zero that is after the point.
type decimal struct {
	negative bool
	digits   uint64 // < 10^maxDigits
	scale    int    // ≤ maxFraction
}

// The errors of parseDecimal continue the name of a member.
var (
	errNumber   = errors.New(`is not a decimal number such as 12, -0.05 or 1.5e3`)
	errDigits   = errors.New("has more than 18 significant digits")
	errLarge    = errors.New("is too large: it has more than 18 digits before the decimal point")
	errFraction = errors.New("has more than 12 digits after the decimal point")
)

// parseDecimal parses a number in the syntax of JSON. It never rounds.
func parseDecimal[T string | []byte](text T) (decimal, error) {
	var d decimal
	i := 0
	if i < len(text) && text[i] == '-' {
		d.negative = true
		i++
	}
	begin := i
	significant, zeros := 0, 0 // zeros that no other digit has followed yet
	read := func() (n int) {
		for ; i < len(text) && '0' <= text[i] && text[i] <= '9'; i++ {
			n++
			switch {
			case text[i] != '0':
				if significant += zeros + 1; significant <= maxDigits {
					d.digits = d.digits*powers[zeros+1] + uint64(text[i]-'0')
				}
				zeros = 0
			case significant > 0:
				zeros++
			}
		}
		return n
	}
	n := read()
	if n == 0 || n > 1 && text[begin] == '0' {
		return decimal{}, errNumber
	}
	fraction := 0
	if i < len(text) && text[i] == '.' {
		i++
		if fraction = read(); fraction == 0 {
			return decimal{}, errNumber
		}
	}
	exponent, ok := parseExponent(text[i:])
	switch {
	case !ok:
		return decimal{}, errNumber
	case significant == 0:
		return decimal{}, nil
	case significant > maxDigits:
		return decimal{}, errDigits
	}
	switch shift := exponent - fraction + zeros; { // what the digits are multiplied with, as a power of 10
	case significant+shift > maxDigits:
		return decimal{}, errLarge
	case -shift > maxFraction:
		return decimal{}, errFraction
	case shift >= 0:
		d.digits *= powers[shift]
	default:
		d.scale = -shift
	}
	return d, nil
}

// parseExponent parses the rest of a number after its digits. An exponent that
// is beyond every limit is returned as a smaller one, still beyond them: an
// item has fewer digits.
func parseExponent[T string | []byte](text T) (exponent int, ok bool) {
	if len(text) == 0 {
		return 0, true
	}
	if text[0] != 'e' && text[0] != 'E' {
		return 0, false
	}
	i, negative := 1, false
	if len(text) > 1 && (text[1] == '+' || text[1] == '-') {
		i, negative = 2, text[1] == '-'
	}
	if i == len(text) {
		return 0, false
	}
	for ; i < len(text); i++ {
		if text[i] < '0' || text[i] > '9' {
			return 0, false
		}
		exponent = min(10*exponent+int(text[i]-'0'), 4*work.MaxItem)
	}
	if negative {
		exponent = -exponent
	}
	return exponent, true
}

// times returns the product of a and b as a number of minor units, rounded half
// to even. ok is false if it has more than maxDigits digits.
func (a decimal) times(b decimal, minor int) (units int64, ok bool) {
	hi, lo := bits.Mul64(a.digits, b.digits)
	switch drop := a.scale + b.scale - minor; {
	case drop > 0:
		hi, lo = roundOff(hi, lo, drop)
	case drop < 0:
		if hi != 0 {
			return 0, false
		}
		hi, lo = bits.Mul64(lo, powers[-drop])
	}
	if hi != 0 || lo >= powers[maxDigits] {
		return 0, false
	}
	if a.negative != b.negative {
		return -int64(lo), true
	}
	return int64(lo), true
}

// roundOff divides by 10^n, n > 0, and rounds half to even. All digits but the
// last are cut off first; of them only matters whether all were zero.
func roundOff(hi, lo uint64, n int) (uint64, uint64) {
	more := false
	for n--; n > 0; {
		step := min(n, maxDigits)
		var cut uint64
		hi, lo, cut = divide(hi, lo, powers[step])
		more = more || cut != 0
		n -= step
	}
	hi, lo, last := divide(hi, lo, 10)
	if last > 5 || last == 5 && (more || lo&1 == 1) {
		var carry uint64
		lo, carry = bits.Add64(lo, 1, 0)
		hi += carry
	}
	return hi, lo
}

func divide(hi, lo, by uint64) (quotientHi, quotientLo, remainder uint64) {
	quotientHi, remainder = hi/by, hi%by
	quotientLo, remainder = bits.Div64(remainder, lo, by)
	return quotientHi, quotientLo, remainder
}

// powers has the powers of 10 up to 10^maxDigits.
var powers = func() (p [maxDigits + 1]uint64) {
	p[0] = 1
	for i := range maxDigits {
		p[i+1] = 10 * p[i]
	}
	return p
}()

// appendUnits appends a number of minor units, which is written as an integer,
// as a decimal with all digits of the minor unit: -5 with 2 of them is -0.05.
func appendUnits(b, units []byte, minor int) []byte {
	if units[0] == '-' {
		b, units = append(b, '-'), units[1:]
	}
	point := len(units) - minor
	if point <= 0 {
		b = append(b, '0')
	} else {
		b = append(b, units[:point]...)
	}
	if minor > 0 {
		b = append(b, '.')
	}
	for ; point < 0; point++ {
		b = append(b, '0')
	}
	return append(b, units[point:]...)
}
