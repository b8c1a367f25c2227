package properties

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Limits of Azure.
const (
	maxRules   = 5
	maxOrigins = 64
	maxHeaders = 64 // by their full name; two more may end in a wildcard
	maxPrefix  = 2
	maxName    = 256
	maxDays    = 365
)

// A document is the XML of the properties, as a caller sends it and as it is
// returned. Texts are checked and normalized by its check method.
type document struct {
	XMLName               xml.Name   `xml:"StorageServiceProperties"`
	Logging               *logging   `xml:"Logging"`
	HourMetrics           *metrics   `xml:"HourMetrics"`
	MinuteMetrics         *metrics   `xml:"MinuteMetrics"`
	Cors                  *cors      `xml:"Cors"`
	DefaultServiceVersion *string    `xml:"DefaultServiceVersion"`
	DeleteRetentionPolicy *retention `xml:"DeleteRetentionPolicy"`
	StaticWebsite         *website   `xml:"StaticWebsite"`
	Other                 []other    `xml:",any"`
}

// other is an element that does not belong where it stands.
type other struct {
	XMLName xml.Name
}

type logging struct {
	Version         *string    `xml:"Version"`
	Read            *string    `xml:"Read"`
	Write           *string    `xml:"Write"`
	Delete          *string    `xml:"Delete"`
	RetentionPolicy *retention `xml:"RetentionPolicy"`
	Other           []other    `xml:",any"`
}

type metrics struct {
	Version         *string    `xml:"Version"`
	Enabled         *string    `xml:"Enabled"`
	IncludeAPIs     *string    `xml:"IncludeAPIs"`
	RetentionPolicy *retention `xml:"RetentionPolicy"`
	Other           []other    `xml:",any"`
}

type retention struct {
	Enabled              *string `xml:"Enabled"`
	Days                 *string `xml:"Days"`
	AllowPermanentDelete *string `xml:"AllowPermanentDelete"`
	Other                []other `xml:",any"`
}

type website struct {
	Enabled                  *string `xml:"Enabled"`
	IndexDocument            *string `xml:"IndexDocument"`
	DefaultIndexDocumentPath *string `xml:"DefaultIndexDocumentPath"`
	ErrorDocument404Path     *string `xml:"ErrorDocument404Path"`
	Other                    []other `xml:",any"`
}

type cors struct {
	Rules []rule  `xml:"CorsRule"`
	Other []other `xml:",any"`
}

type rule struct {
	AllowedMethods  *string `xml:"AllowedMethods"`
	AllowedOrigins  *string `xml:"AllowedOrigins"`
	AllowedHeaders  *string `xml:"AllowedHeaders"`
	ExposedHeaders  *string `xml:"ExposedHeaders"`
	MaxAgeInSeconds *string `xml:"MaxAgeInSeconds"`
	Other           []other `xml:",any"`
}

// initial returns what an account has before its properties are set.
func initial(service Service) *document {
	no := func() *retention { return &retention{Enabled: text("false")} }
	d := &document{
		Logging: &logging{Version: text("1.0"), Read: text("false"), Write: text("false"), Delete: text("false"), RetentionPolicy: no()},
		HourMetrics: &metrics{Version: text("1.0"), Enabled: text("true"), IncludeAPIs: text("true"),
			RetentionPolicy: &retention{Enabled: text("true"), Days: text("7")}},
		MinuteMetrics: &metrics{Version: text("1.0"), Enabled: text("false"), RetentionPolicy: no()},
		Cors:          &cors{},
	}
	if service == Blob {
		d.DeleteRetentionPolicy = no()
		d.StaticWebsite = &website{Enabled: text("false")}
	}
	return d
}

func text(s string) *string { return &s }

// parse reads and checks a document.
func parse(service Service, body []byte) (*document, error) {
	decoder := xml.NewDecoder(bytes.NewReader(body))
	var d document
	if err := decoder.Decode(&d); err != nil {
		return nil, err
	}
	for {
		token, err := decoder.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		if _, ok := token.(xml.StartElement); ok {
			return nil, errors.New("there are multiple root elements")
		}
	}
	d.XMLName = xml.Name{}
	return &d, d.check(service)
}

// render returns the XML of a document.
func (d *document) render() []byte {
	text, _ := xml.Marshal(d) // strings can always be written
	return append([]byte(`<?xml version="1.0" encoding="utf-8"?>`), text...)
}

// merge returns the document with the elements of another in place of its own.
// What the other leaves out stays.
func (d *document) merge(set *document) *document {
	merged := *d
	replace(&merged.Logging, set.Logging)
	replace(&merged.HourMetrics, set.HourMetrics)
	replace(&merged.MinuteMetrics, set.MinuteMetrics)
	replace(&merged.Cors, set.Cors)
	replace(&merged.DefaultServiceVersion, set.DefaultServiceVersion)
	replace(&merged.DeleteRetentionPolicy, set.DeleteRetentionPolicy)
	replace(&merged.StaticWebsite, set.StaticWebsite)
	return &merged
}

func replace[T any](old **T, set *T) {
	if set != nil {
		*old = set
	}
}

func (d *document) check(service Service) error {
	checks := []error{
		unknown("StorageServiceProperties", d.Other),
		d.Logging.check(),
		d.HourMetrics.check("HourMetrics"),
		d.MinuteMetrics.check("MinuteMetrics"),
		d.Cors.check(),
	}
	if service == Blob {
		checks = append(checks, checkVersion(d.DefaultServiceVersion), d.DeleteRetentionPolicy.check("DeleteRetentionPolicy"), d.StaticWebsite.check())
	} else if d.DefaultServiceVersion != nil || d.DeleteRetentionPolicy != nil || d.StaticWebsite != nil {
		checks = append(checks, errors.New("DefaultServiceVersion, DeleteRetentionPolicy and StaticWebsite belong to the blob service"))
	}
	return first(checks...)
}

func (l *logging) check() error {
	if l == nil {
		return nil
	}
	if l.RetentionPolicy == nil {
		return missing("Logging", "RetentionPolicy")
	}
	return first(
		unknown("Logging", l.Other),
		analytics("Logging", l.Version),
		boolean("Logging", "Read", l.Read),
		boolean("Logging", "Write", l.Write),
		boolean("Logging", "Delete", l.Delete),
		l.RetentionPolicy.check("Logging"),
	)
}

func (m *metrics) check(name string) error {
	if m == nil {
		return nil
	}
	if m.RetentionPolicy == nil {
		return missing(name, "RetentionPolicy")
	}
	err := first(
		unknown(name, m.Other),
		analytics(name, m.Version),
		boolean(name, "Enabled", m.Enabled),
		m.RetentionPolicy.check(name),
	)
	if err == nil && (*m.Enabled == "true" || m.IncludeAPIs != nil) {
		err = boolean(name, "IncludeAPIs", m.IncludeAPIs)
	}
	return err
}

func (r *retention) check(name string) error {
	if r == nil {
		return nil
	}
	if err := first(unknown(name, r.Other), boolean(name, "Enabled", r.Enabled)); err != nil {
		return err
	}
	if r.AllowPermanentDelete != nil {
		if name != "DeleteRetentionPolicy" {
			return errors.New("AllowPermanentDelete belongs to DeleteRetentionPolicy")
		}
		if err := boolean(name, "AllowPermanentDelete", r.AllowPermanentDelete); err != nil {
			return err
		}
	}
	if *r.Enabled == "false" {
		r.Days = nil
		return nil
	}
	if r.Days == nil {
		return missing(name, "Days")
	}
	days, err := strconv.Atoi(strings.TrimSpace(*r.Days))
	if err != nil || days < 1 || days > maxDays {
		return fmt.Errorf("the element Days of %s must be from 1 to %d", name, maxDays)
	}
	r.Days = text(strconv.Itoa(days))
	return nil
}

func (w *website) check() error {
	if w == nil {
		return nil
	}
	if err := first(unknown("StaticWebsite", w.Other), boolean("StaticWebsite", "Enabled", w.Enabled)); err != nil {
		return err
	}
	if w.IndexDocument != nil && w.DefaultIndexDocumentPath != nil {
		return errors.New("StaticWebsite has both IndexDocument and DefaultIndexDocumentPath")
	}
	return nil
}

func (c *cors) check() error {
	if c == nil {
		return nil
	}
	if err := unknown("Cors", c.Other); err != nil {
		return err
	}
	if len(c.Rules) > maxRules {
		return fmt.Errorf("the element Cors may have %d rules at most", maxRules)
	}
	for i := range c.Rules {
		if err := c.Rules[i].check(); err != nil {
			return err
		}
	}
	return nil
}

var corsMethods = []string{"DELETE", "GET", "HEAD", "MERGE", "PATCH", "POST", "OPTIONS", "PUT"}

func (r *rule) check() error {
	for _, field := range []struct {
		name string
		text *string
	}{
		{"AllowedMethods", r.AllowedMethods}, {"AllowedOrigins", r.AllowedOrigins}, {"AllowedHeaders", r.AllowedHeaders},
		{"ExposedHeaders", r.ExposedHeaders}, {"MaxAgeInSeconds", r.MaxAgeInSeconds},
	} {
		if field.text == nil {
			return missing("CorsRule", field.name)
		}
	}
	for method := range strings.SplitSeq(*r.AllowedMethods, ",") {
		if !slices.Contains(corsMethods, strings.TrimSpace(method)) {
			return fmt.Errorf("AllowedMethods of CorsRule must be of %s", strings.Join(corsMethods, ", "))
		}
	}
	age, err := strconv.ParseInt(strings.TrimSpace(*r.MaxAgeInSeconds), 10, 32)
	if err != nil || age < 0 {
		return errors.New("MaxAgeInSeconds of CorsRule must be a number from 0")
	}
	r.MaxAgeInSeconds = text(strconv.FormatInt(age, 10))
	return first(
		unknown("CorsRule", r.Other),
		checkOrigins(*r.AllowedOrigins),
		checkHeaders("AllowedHeaders", *r.AllowedHeaders),
		checkHeaders("ExposedHeaders", *r.ExposedHeaders),
	)
}

func checkOrigins(list string) error {
	origins := strings.Split(list, ",")
	if len(origins) > maxOrigins {
		return fmt.Errorf("AllowedOrigins of CorsRule may have %d origins at most", maxOrigins)
	}
	for _, origin := range origins {
		if origin = strings.TrimSpace(origin); origin == "" || utf8.RuneCountInString(origin) > maxName {
			return fmt.Errorf("an origin of AllowedOrigins must have from 1 to %d characters", maxName)
		}
	}
	return nil
}

func checkHeaders(name, list string) error {
	if strings.TrimSpace(list) == "" {
		return nil
	}
	full, prefixes := 0, 0
	for header := range strings.SplitSeq(list, ",") {
		header = strings.TrimSpace(header)
		if header == "" || utf8.RuneCountInString(header) > maxName {
			return fmt.Errorf("a header of %s must have from 1 to %d characters", name, maxName)
		}
		switch {
		case header == "*":
		case strings.HasSuffix(header, "*"):
			prefixes++
		default:
			full++
		}
	}
	if full > maxHeaders || prefixes > maxPrefix {
		return fmt.Errorf("%s may have %d headers and %d prefixes at most", name, maxHeaders, maxPrefix)
	}
	return nil
}

var versionForm = regexp.MustCompile(`^20\d\d-[01]\d-[0-3]\d$`)

func checkVersion(version *string) error {
	if version == nil {
		return nil
	}
	if *version = strings.TrimSpace(*version); !versionForm.MatchString(*version) || *version < "2008-10-27" {
		return errors.New("DefaultServiceVersion must be a version from 2008-10-27")
	}
	return nil
}

func analytics(of string, version *string) error {
	if version == nil {
		return missing(of, "Version")
	}
	if *version = strings.TrimSpace(*version); *version != "1.0" {
		return fmt.Errorf("the element Version of %s must be 1.0", of)
	}
	return nil
}

// boolean checks a truth value that must be there and normalizes it.
func boolean(of, name string, value *string) error {
	if value == nil {
		return missing(of, name)
	}
	switch strings.ToLower(strings.TrimSpace(*value)) {
	case "true", "1":
		*value = "true"
	case "false", "0":
		*value = "false"
	default:
		return fmt.Errorf("%s of %s must be true or false", name, of)
	}
	return nil
}

func missing(of, name string) error { return fmt.Errorf("%s of %s is missing", name, of) }

func unknown(of string, elements []other) error {
	if len(elements) == 0 {
		return nil
	}
	return fmt.Errorf("element %s of %s is not known", elements[0].XMLName.Local, of)
}

func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
