package processors

import "strings"

// The active codes of ISO 4217, by the number of digits after the decimal point
// (tables A.1 and A.2 as of February 2026). A currency that was replaced, such
// as BGN, is not active. Metals, units of account and test codes, such as XAU and
// XXX, have no minor unit to round to, so nothing can be billed in them.
const (
	noMinorUnit = "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF"

	hundredths = "AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BMD BND BOB BOV BRL BSD BTN BWP BYN BZD " +
		"CAD CDF CHE CHF CHW CNY COP COU CRC CUP CVE CZK DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS " +
		"GIP GMD GTQ GYD HKD HNL HTG HUF IDR ILS INR IRR JMD KES KGS KHR KPW KYD KZT LAK LBP LKR LRD LSL " +
		"MAD MDL MGA MKD MMK MNT MOP MRU MUR MVR MWK MXN MXV MYR MZN NAD NGN NIO NOK NPR NZD PAB PEN PGK " +
		"PHP PKR PLN QAR RON RSD RUB SAR SBD SCR SDG SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS " +
		"TMT TOP TRY TTD TWD TZS UAH USD USN UYU UZS VED VES WST XAD XCD XCG YER ZAR ZMW ZWG"

	thousandths = "BHD IQD JOD KWD LYD OMR TND"

	tenThousandths = "CLF UYW"
)

// minorDigits has the digits after the decimal point of each currency that can
// be billed.
var minorDigits = func() map[string]int {
	digits := make(map[string]int)
	for n, codes := range map[int]string{0: noMinorUnit, 2: hundredths, 3: thousandths, 4: tenThousandths} {
		for code := range strings.FieldsSeq(codes) {
			digits[code] = n
		}
	}
	return digits
}()
