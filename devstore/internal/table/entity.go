package table

import (
	"encoding/base64"
	"math"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"kennel/devstore/internal/rest"
)

// Azure's limits.
const (
	maxKey        = 1 << 10 // bytes in UTF-16
	maxValue      = 64 << 10
	maxEntity     = 1 << 20
	maxProperties = 252
	maxName       = 255 // characters
)

// An entity is what a caller sends.
type entity struct {
	partition, row       string
	hasPartition, hasRow bool
	properties           []property // without nulls
}

// A field is a member of the JSON of an entity.
type field struct {
	name       string
	value      scalar
	annotation string // the name of its type
	hasValue   bool
}

// parseEntity reads the JSON of an entity and checks it against the limits of
// properties. Those of keys depend on the operation.
func parseEntity(body []byte) (*entity, error) {
	var space [few]field // most entities have no more
	fields, err := parseFields(space[:], body)
	if err != nil {
		return nil, err
	}
	e := entity{properties: make([]property, 0, len(fields))}
	for _, f := range fields {
		if !f.hasValue || f.value.form == isNull || f.name == "Timestamp" {
			continue
		}
		v, ok := f.parse()
		if !ok {
			return nil, errInput
		}
		switch f.name {
		case "PartitionKey":
			e.partition, e.hasPartition = v.text, true
		case "RowKey":
			e.row, e.hasRow = v.text, true
		default:
			e.properties = append(e.properties, property{f.name, v})
			continue
		}
		if v.kind != kindString {
			return nil, rest.Fail(400, "PrimaryKeyPropertyIsInvalidType", "The values for the keys of an entity must be strings.")
		}
	}
	return &e, e.checkProperties()
}

// few is how many fields are found without an index.
const few = 16

// parseFields reads an object whose members are simple values, into the space if
// there is enough. Metadata that the service itself returns is left out.
func parseFields(space []field, body []byte) ([]field, error) {
	object, ok := openObject(body)
	if !ok {
		return nil, errInput
	}
	fields := space[:0]
	index := make(map[string]int) // of fields after the first few
	for object.more() {
		text := object.name()
		v, simple := object.value()
		if !simple {
			return nil, errInput
		}
		name, annotates := strings.CutSuffix(text, "@odata.type")
		if !annotates && strings.HasPrefix(text, "odata.") {
			continue
		}
		i, found := findField(fields, index, name)
		if !found {
			if i = len(fields); i >= few {
				index[name] = i
			}
			fields = append(fields, field{name: name})
		}
		switch f := &fields[i]; {
		case annotates && v.form == isText:
			f.annotation = v.text
		case annotates:
			f.annotation = ""
		case f.hasValue:
			return nil, rest.Fail(400, "DuplicatePropertiesSpecified", "A property is specified more than one time.")
		default:
			f.value, f.hasValue = v, true
		}
	}
	return fields, nil
}

func findField(fields []field, index map[string]int, name string) (int, bool) {
	for i := range min(len(fields), few) {
		if fields[i].name == name {
			return i, true
		}
	}
	i, ok := index[name]
	return i, ok
}

// parse returns the value of a field that is not null.
func (f field) parse() (value, bool) {
	if f.annotation == "" {
		return f.infer()
	}
	text, quoted := f.value.text, f.value.form == isText
	switch k := kindOf(f.annotation); k {
	case kindString:
		return textValue(text), quoted
	case kindInt32, kindInt64:
		size := 64
		if k == kindInt32 {
			size = 32
		}
		n, err := strconv.ParseInt(text, 10, size)
		return value{kind: k, bits: n}, err == nil
	case kindDouble:
		return parseDouble(text)
	case kindBoolean:
		return boolValue(f.value.yes), f.value.form == isBoolean
	case kindDateTime:
		t, ok := parseTicks(text)
		return value{kind: k, bits: t}, ok && quoted
	case kindGUID:
		b, ok := parseGUID(text)
		return value{kind: k, text: b}, ok
	case kindBinary:
		b, err := base64.StdEncoding.DecodeString(text)
		return value{kind: k, text: string(b)}, err == nil && quoted
	default:
		return value{}, false
	}
}

// infer returns the value of a field without annotation.
func (f field) infer() (value, bool) {
	switch text := f.value.text; f.value.form {
	case isText:
		return textValue(text), true
	case isBoolean:
		return boolValue(f.value.yes), true
	default:
		if n, err := strconv.ParseInt(text, 10, 32); err == nil {
			return value{kind: kindInt32, bits: n}, true
		}
		return parseDouble(text)
	}
}

func parseDouble(text string) (value, bool) {
	switch text {
	case "NaN":
		return doubleValue(math.NaN()), true
	case "Infinity", "INF":
		return doubleValue(math.Inf(1)), true
	case "-Infinity", "-INF":
		return doubleValue(math.Inf(-1)), true
	}
	if text == "" || strings.Trim(text, "0123456789+-.eE") != "" {
		return value{}, false
	}
	f, err := strconv.ParseFloat(text, 64)
	return doubleValue(f), err == nil
}

func (e *entity) checkProperties() error {
	for _, p := range e.properties {
		switch {
		case nameTooLong(p.name):
			return rest.Fail(400, "PropertyNameTooLong", "The property name exceeds the maximum allowed length (255).")
		case !validName(p.name):
			return rest.Fail(400, "PropertyNameInvalid", "The property name is invalid.")
		case (p.value.kind == kindString || p.value.kind == kindBinary) && p.value.size()-4 > maxValue:
			return rest.Fail(400, "PropertyValueTooLarge", "The property value exceeds the maximum allowed size (64KB). If the property value is a string, it is UTF-16 encoded and the maximum number of characters should be 32K or less.")
		case p.value.kind == kindDateTime && p.value.bits < minTicks:
			return rest.Fail(400, "OutOfRangeInput", "The '%s' parameter of value '%s' is out of range.", p.name, timeOf(p.value.bits).Format("01/02/2006 15:04:05"))
		}
	}
	return checkCount(e.properties)
}

func checkCount(properties []property) error {
	if len(properties) > maxProperties {
		return rest.Fail(400, "TooManyProperties", "The entity contains more properties than allowed. Each entity can include up to 252 properties to store data. Each entity also has 3 system properties.")
	}
	return nil
}

// checkSize checks an entity as it would be stored.
func checkSize(partition, row string, properties []property) error {
	if err := checkCount(properties); err != nil {
		return err
	}
	size := 4 + 2*units(partition) + 2*units(row)
	for _, p := range properties {
		size += 8 + 2*units(p.name) + p.value.size()
	}
	if size > maxEntity {
		return rest.Fail(400, "EntityTooLarge", "The entity is larger than the maximum allowed size (1MB).")
	}
	return nil
}

func nameTooLong(name string) bool { return len(name) > maxName && units(name) > maxName }

// validName reports whether a name is an identifier of C#.
func validName(name string) bool {
	for i, r := range name {
		switch {
		case r == '_', unicode.IsLetter(r), unicode.Is(unicode.Nl, r):
		case i > 0 && unicode.In(r, unicode.Nd, unicode.Mn, unicode.Mc, unicode.Pc, unicode.Cf):
		default:
			return false
		}
	}
	return name != ""
}

// validKey reports whether a key has only characters that Azure allows.
func validKey(key string) bool {
	return utf8.ValidString(key) && !strings.ContainsFunc(key, func(r rune) bool {
		return isControl(r) || strings.ContainsRune(`/\#?`, r)
	})
}

// checkKeys checks the keys of an entity that is to be stored.
func checkKeys(partition, row string) error {
	for _, k := range []struct{ name, key string }{{"PartitionKey", partition}, {"RowKey", row}} {
		switch {
		case !validKey(k.key):
			return rest.Fail(400, "OutOfRangeInput", "The '%s' parameter of value '%s' is out of range.", k.name, k.key)
		case 2*units(k.key) > maxKey:
			return rest.Fail(400, "KeyValueTooLarge", "The '%s' property exceeds the maximum allowed key size (1KB). It is a UTF-16 encoded string and the maximum number of characters should be 512 or less.", k.name)
		}
	}
	return nil
}
