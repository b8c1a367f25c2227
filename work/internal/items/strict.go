package items

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxDepth is how deep objects and arrays may be in each other in an item.
const maxDepth = 32

// Up to fewMembers, comparing the members of an object pairwise is faster than a
// set.
const fewMembers = 16

// itemChecker checks items one after the other. It is the names of the members
// of the objects that it is in, and of the item itself at depth 1.
type itemChecker struct {
	depth   int
	special bool     // there are names that are not only ASCII, or have escapes
	names   [][]byte // of all of these objects
	first   [maxDepth + 1]int
	many    [maxDepth + 1]map[string]bool // nil: they are few
}

// check returns the member id of an item that is submitted, which is compact
// and valid JSON. It rejects one that two readers may take for different things,
// because an object has two members of one name, and one that is too deep.
//
// Names of the members of the item itself must not differ only in case either:
// encoding/json takes those for one. Objects in it are data of the submitter,
// which may have such names.
func (c *itemChecker) check(item []byte) (id string, err error) {
	if item[0] != '{' {
		return "", ErrNotObject
	}
	c.depth, c.special, c.names = 0, false, c.names[:0]
	var idText []byte
	for i := 0; i < len(item); i++ {
		switch item[i] {
		case '{', '[':
			if !c.open() {
				return "", fmt.Errorf("the item has objects and arrays more than %d deep in each other", maxDepth)
			}
		case '}', ']':
			c.close()
		case '"':
			quoted := item[i : i+stringLen(item[i:])]
			i += len(quoted) - 1
			if item[i+1] != ':' {
				continue // a value
			}
			name := quoted[1 : len(quoted)-1]
			for _, b := range name {
				if b == '\\' || b >= utf8.RuneSelf {
					c.special = true
				}
			}
			if c.special && bytes.IndexByte(name, '\\') >= 0 {
				text, err := decodeText(quoted)
				if err != nil {
					return "", err
				}
				name = []byte(text)
			}
			if !c.add(name) {
				return "", fmt.Errorf("the item has two members %s", Quote(name))
			}
			if c.depth == 1 && string(name) == "id" {
				idText = item[i+2:]
			}
		}
	}
	if idText == nil {
		return "", errNoID
	}
	if id, err = decodeText(idText[:stringLen(idText)]); err != nil {
		return "", errors.New("the id is not a text")
	}
	return checkID(id)
}

// open begins an object or array, or returns false if it is too deep.
func (c *itemChecker) open() bool {
	if c.depth == maxDepth {
		return false
	}
	c.depth++
	c.first[c.depth], c.many[c.depth] = len(c.names), nil
	return true
}

func (c *itemChecker) close() {
	c.names = c.names[:c.first[c.depth]]
	c.depth--
}

// add adds a name, or returns false if its object has it.
func (c *itemChecker) add(name []byte) bool {
	known := c.names[c.first[c.depth]:]
	if len(known) < fewMembers {
		for _, other := range known {
			if len(name) != len(other) && !c.special { // most of them
				continue
			}
			if bytes.Equal(name, other) || c.depth == 1 && bytes.EqualFold(name, other) {
				return false
			}
		}
		c.names = append(c.names, name)
		return true
	}
	set := c.many[c.depth]
	if set == nil {
		set = make(map[string]bool)
		for _, other := range known {
			set[c.key(other)] = true
		}
		c.many[c.depth] = set
	}
	if set[c.key(name)] {
		return false
	}
	set[c.key(name)] = true
	return true
}

// key returns the same text for names that must not be in one object.
func (c *itemChecker) key(name []byte) string {
	if c.depth > 1 {
		return string(name)
	}
	return strings.Map(func(r rune) rune { // as bytes.EqualFold: İ and i are different
		least := r
		for other := unicode.SimpleFold(r); other != r; other = unicode.SimpleFold(other) {
			least = min(least, other)
		}
		return least
	}, string(name))
}
