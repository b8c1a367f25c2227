package properties

import (
	"bytes"
	"errors"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"kennel/devstore/internal/rest"
)

// records is a log in memory.
type records [][]byte

func (r *records) Append(record []byte) { *r = append(*r, bytes.Clone(record)) }

func request(method, query, body string) *rest.Request {
	values, _ := url.ParseQuery(query)
	return &rest.Request{
		HTTP:    httptest.NewRequest(method, "http://127.0.0.1:10000/dev?"+query, nil),
		Account: "dev",
		Query:   values,
		Body:    []byte(body),
		Now:     time.Date(2026, 3, 4, 5, 6, 7, 8, time.UTC),
	}
}

func run(t *testing.T, s *Store, r *rest.Request) (*rest.Answer, *rest.Error) {
	t.Helper()
	o, ok := s.Operation(r)
	if !ok {
		t.Fatalf("%s %s is no operation", r.HTTP.Method, r.HTTP.URL)
	}
	answer, err := o.Run(r)
	if err == nil {
		return answer, nil
	}
	var e *rest.Error
	if !errors.As(err, &e) {
		t.Fatalf("error %v is no rest.Error", err)
	}
	return nil, e
}

const propertiesQuery = "restype=service&comp=properties"

func set(t *testing.T, s *Store, body string) *rest.Error {
	t.Helper()
	answer, err := run(t, s, request("PUT", propertiesQuery, body))
	if err == nil && answer.Status != 202 {
		t.Errorf("status = %d, want 202", answer.Status)
	}
	return err
}

func get(t *testing.T, s *Store) string {
	t.Helper()
	answer, err := run(t, s, request("GET", propertiesQuery, ""))
	if err != nil {
		t.Fatal(err)
	}
	return string(answer.Body)
}

func contains(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%s\ndoes not contain %s", text, part)
		}
	}
}

func TestUnsetPropertiesAreThoseOfANewAccount(t *testing.T) {
	got := get(t, New(Blob, rest.Memory{}))
	contains(t, got, `<?xml version="1.0" encoding="utf-8"?><StorageServiceProperties><Logging><Version>1.0</Version><Read>false</Read>`,
		`<HourMetrics><Version>1.0</Version><Enabled>true</Enabled><IncludeAPIs>true</IncludeAPIs><RetentionPolicy><Enabled>true</Enabled><Days>7</Days>`,
		`<Cors></Cors>`, `<DeleteRetentionPolicy><Enabled>false</Enabled></DeleteRetentionPolicy>`, `<StaticWebsite><Enabled>false</Enabled></StaticWebsite>`)
	if got := get(t, New(Queue, rest.Memory{})); strings.Contains(got, "DeleteRetentionPolicy") {
		t.Errorf("queues have a retention of deleted blobs: %s", got)
	}
}

func TestElementsLeftOutStay(t *testing.T) {
	var log records
	s := New(Blob, &log)
	for _, body := range []string{
		`<StorageServiceProperties><Logging><Version>1.0</Version><Delete>True</Delete><Read>1</Read><Write>false</Write><RetentionPolicy><Enabled>true</Enabled><Days>005</Days></RetentionPolicy></Logging></StorageServiceProperties>`,
		`<StorageServiceProperties><Cors><CorsRule><AllowedOrigins>a.example,&lt;b&gt;</AllowedOrigins><AllowedMethods>GET, PUT</AllowedMethods><AllowedHeaders>x-ms-meta-data*,x</AllowedHeaders><ExposedHeaders/><MaxAgeInSeconds>500</MaxAgeInSeconds></CorsRule></Cors></StorageServiceProperties>`,
		`<StorageServiceProperties><DeleteRetentionPolicy><Enabled>true</Enabled><Days>5</Days></DeleteRetentionPolicy></StorageServiceProperties>`,
		`<StorageServiceProperties/>`,
	} {
		if err := set(t, s, body); err != nil {
			t.Fatal(err, err.Details)
		}
	}
	got := get(t, s)
	contains(t, got, `<Read>true</Read><Write>false</Write><Delete>true</Delete><RetentionPolicy><Enabled>true</Enabled><Days>5</Days>`,
		`<AllowedMethods>GET, PUT</AllowedMethods><AllowedOrigins>a.example,&lt;b&gt;</AllowedOrigins><AllowedHeaders>x-ms-meta-data*,x</AllowedHeaders><ExposedHeaders></ExposedHeaders><MaxAgeInSeconds>500</MaxAgeInSeconds>`,
		`<DeleteRetentionPolicy><Enabled>true</Enabled><Days>5</Days>`)

	// An empty list of rules is not left out.
	if err := set(t, s, `<StorageServiceProperties><Cors/></StorageServiceProperties>`); err != nil {
		t.Fatal(err)
	}
	contains(t, get(t, s), `<Cors></Cors>`)

	again := New(Blob, rest.Memory{})
	for _, record := range log {
		if err := again.Apply(record); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := get(t, again), get(t, s); got != want {
		t.Errorf("the log holds\n%s\nwant\n%s", got, want)
	}
	snapshot := New(Blob, rest.Memory{})
	if err := s.Snapshot(snapshot.Apply); err != nil {
		t.Fatal(err)
	}
	if got, want := get(t, snapshot), get(t, s); got != want {
		t.Errorf("the snapshot holds\n%s\nwant\n%s", got, want)
	}
	s.Reset()
	if got, want := get(t, s), get(t, New(Blob, rest.Memory{})); got != want {
		t.Errorf("after Reset:\n%s", got)
	}
}

func TestSetRefuses(t *testing.T) {
	const (
		retention = `<RetentionPolicy><Enabled>false</Enabled></RetentionPolicy>`
		rule      = `<CorsRule><AllowedOrigins>*</AllowedOrigins><AllowedMethods>GET</AllowedMethods><AllowedHeaders>*</AllowedHeaders><ExposedHeaders>*</ExposedHeaders><MaxAgeInSeconds>0</MaxAgeInSeconds></CorsRule>`
	)
	for name, test := range map[string]struct {
		service Service
		inner   string
	}{
		"days above 365":        {Blob, `<DeleteRetentionPolicy><Enabled>true</Enabled><Days>366</Days></DeleteRetentionPolicy>`},
		"days of 0":             {Blob, `<DeleteRetentionPolicy><Enabled>true</Enabled><Days>0</Days></DeleteRetentionPolicy>`},
		"no days":               {Blob, `<DeleteRetentionPolicy><Enabled>true</Enabled></DeleteRetentionPolicy>`},
		"empty policy":          {Blob, `<DeleteRetentionPolicy/>`},
		"metrics, 366 days":     {Table, `<MinuteMetrics><Version>1.0</Version><Enabled>true</Enabled><IncludeAPIs>true</IncludeAPIs><RetentionPolicy><Enabled>true</Enabled><Days>366</Days></RetentionPolicy></MinuteMetrics>`},
		"metrics without APIs":  {Queue, `<HourMetrics><Version>1.0</Version><Enabled>true</Enabled>` + retention + `</HourMetrics>`},
		"metrics, no policy":    {Queue, `<HourMetrics><Version>1.0</Version><Enabled>false</Enabled></HourMetrics>`},
		"logging, version":      {Queue, `<Logging><Version>2.0</Version><Delete>true</Delete><Read>true</Read><Write>true</Write>` + retention + `</Logging>`},
		"logging, no boolean":   {Queue, `<Logging><Version>1.0</Version><Delete>yes</Delete><Read>true</Read><Write>true</Write>` + retention + `</Logging>`},
		"six rules":             {Table, `<Cors>` + strings.Repeat(rule, 6) + `</Cors>`},
		"rule without age":      {Queue, `<Cors>` + strings.Replace(rule, `<MaxAgeInSeconds>0</MaxAgeInSeconds>`, ``, 1) + `</Cors>`},
		"rule, negative age":    {Queue, `<Cors>` + strings.Replace(rule, `>0<`, `>-1<`, 1) + `</Cors>`},
		"rule, unknown method":  {Queue, `<Cors>` + strings.Replace(rule, `GET`, `LIST`, 1) + `</Cors>`},
		"rule, long origin":     {Queue, `<Cors>` + strings.Replace(rule, `<AllowedOrigins>*`, `<AllowedOrigins>`+strings.Repeat("a", 257), 1) + `</Cors>`},
		"rule, many origins":    {Queue, `<Cors>` + strings.Replace(rule, `<AllowedOrigins>*`, `<AllowedOrigins>a`+strings.Repeat(",a", 64), 1) + `</Cors>`},
		"rule, three prefixes":  {Queue, `<Cors>` + strings.Replace(rule, `<AllowedHeaders>*`, `<AllowedHeaders>a*,b*,c*`, 1) + `</Cors>`},
		"website of queues":     {Queue, `<StaticWebsite><Enabled>false</Enabled></StaticWebsite>`},
		"website, two indices":  {Blob, `<StaticWebsite><Enabled>true</Enabled><IndexDocument>i</IndexDocument><DefaultIndexDocumentPath>i</DefaultIndexDocumentPath></StaticWebsite>`},
		"permanent delete":      {Blob, `<MinuteMetrics><Version>1.0</Version><Enabled>false</Enabled><RetentionPolicy><Enabled>false</Enabled><AllowPermanentDelete>true</AllowPermanentDelete></RetentionPolicy></MinuteMetrics>`},
		"version before first":  {Blob, `<DefaultServiceVersion>2007-01-01</DefaultServiceVersion>`},
		"unknown element":       {Blob, `<Color>blue</Color>`},
		"unknown inner element": {Blob, `<Cors><Rule/></Cors>`},
		"two roots":             {Blob, `</StorageServiceProperties><StorageServiceProperties>`},
		"cut off":               {Blob, `<Cors>`},
	} {
		t.Run(name, func(t *testing.T) {
			var log records
			s := New(test.service, &log)
			err := set(t, s, `<StorageServiceProperties>`+test.inner+`</StorageServiceProperties>`)
			if err == nil {
				t.Fatal("was accepted")
			}
			if err.Status != 400 || err.Code != "InvalidXmlDocument" {
				t.Errorf("error = %v, want 400 InvalidXmlDocument", err)
			}
			if len(log) != 0 {
				t.Error("a refused request is in the log")
			}
		})
	}
	for _, body := range []string{"", "<Properties/>", "\x00", "nothing"} {
		if err := set(t, New(Blob, rest.Memory{}), body); err == nil || err.Code != "InvalidXmlDocument" {
			t.Errorf("body %q: error = %v, want InvalidXmlDocument", body, err)
		}
	}
}

func TestStatsAreThoseOfTheSecondary(t *testing.T) {
	s := New(Queue, rest.Memory{})
	r := request("GET", "restype=service&comp=stats", "")
	if _, err := run(t, s, r); err == nil || err.Status != 400 || err.Code != "InvalidQueryParameterValue" {
		t.Errorf("at the primary: %v, want 400 InvalidQueryParameterValue", err)
	}
	r.Secondary = true
	answer, err := run(t, s, r)
	if err != nil {
		t.Fatal(err)
	}
	contains(t, string(answer.Body), `<Status>live</Status><LastSyncTime>Wed, 04 Mar 2026 05:06:07 GMT</LastSyncTime>`)
}

func TestOtherRequestsAreNoOperation(t *testing.T) {
	s := New(Table, rest.Memory{})
	for _, query := range []string{"", "comp=list", "restype=service", "restype=service&comp=other", "comp=properties"} {
		if o, ok := s.Operation(request("GET", query, "")); ok {
			t.Errorf("GET ?%s is %s", query, o.Name)
		}
	}
	o, _ := s.Operation(request("PUT", propertiesQuery, ""))
	if o.Name != "Set Table Service Properties" || o.Permission != "w" || o.Level != 's' {
		t.Errorf("operation = %+v", o)
	}
}

func FuzzSet(f *testing.F) {
	f.Add(initial(Blob).render())
	f.Add([]byte(`<StorageServiceProperties><Cors><CorsRule><AllowedMethods>GET</AllowedMethods></CorsRule></Cors></StorageServiceProperties>`))
	f.Fuzz(func(t *testing.T, body []byte) {
		d, err := parse(Blob, body)
		if err != nil {
			return
		}
		text := d.render()
		again, err := parse(Blob, text)
		if err != nil {
			t.Fatalf("%s\nbecame\n%s\nwhich is refused: %v", body, text, err)
		}
		if got := again.render(); !bytes.Equal(got, text) {
			t.Errorf("%s\nbecame\n%s", text, got)
		}
	})
}

func FuzzApply(f *testing.F) {
	f.Add(record("dev", initial(Queue)))
	f.Add([]byte{1, 3, 'd'})
	f.Fuzz(func(t *testing.T, record []byte) {
		s := New(Queue, rest.Memory{})
		if s.Apply(record) == nil && len(s.accounts) != 1 {
			t.Errorf("applied, but the store holds %d accounts", len(s.accounts))
		}
	})
}
