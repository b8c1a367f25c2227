package bicep

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

// value evaluates an expression.
func (e *evaluation) value(x any) any {
	switch x := x.(type) {
	case literal:
		return x.value
	case string:
		return x
	case name:
		return e.lookup(string(x))
	case text:
		var b strings.Builder
		for _, part := range x {
			b.WriteString(e.text(part))
		}
		return b.String()
	case list:
		values := []any{}
		for _, item := range x {
			values = append(values, e.value(item))
		}
		return values
	case loop:
		return e.loop(x, e.value)
	case object:
		o := make(map[string]any)
		for _, p := range x {
			key := e.text(p.key)
			if _, twice := o[key]; twice {
				fail("%s: an object has %s twice", e.path, key)
			}
			o[key] = e.value(p.value)
		}
		return o
	case choice:
		if e.truth(x.condition) {
			return e.value(x.yes)
		}
		return e.value(x.no)
	case member:
		return e.member(e.value(x.of), x.name, x.safe)
	case index:
		return e.index(e.value(x.of), e.value(x.at))
	case unary:
		return e.unary(x)
	case binary:
		return e.binary(x)
	case call:
		return e.call(x)
	case lambda:
		return func(item any) any {
			locals := e.locals
			defer func() { e.locals = locals }()
			e.locals = append(slices.Clone(locals), local{x.param, item})
			return e.value(x.body)
		}
	}
	fail("%s: %T is no expression", e.path, x)
	return nil
}

func (e *evaluation) member(of any, name string, safe bool) any {
	switch of := of.(type) {
	case map[string]any:
		v, ok := of[name]
		if !ok && !safe {
			fail("%s: an object has no %s", e.path, name)
		}
		return v
	case later:
		return of + later("."+name)
	case *Resource:
		switch {
		case name == "id":
			return of.ID()
		case name == "name":
			return of.Name
		case of.absent && e.file.declared[of.Symbol] != nil && !e.file.declared[of.Symbol].existing:
			fail("%s: %s.%s, but %[2]s is not deployed", e.path, of.Symbol, name)
		}
		return later(of.Symbol + "." + name)
	case *module:
		if name == "outputs" && of.outputs != nil {
			return of.outputs
		}
	}
	fail("%s: %s of a value without members", e.path, name)
	return nil
}

func (e *evaluation) index(of, at any) any {
	if name, ok := at.(string); ok {
		return e.member(of, name, false)
	}
	list, i := of.([]any), at.(int)
	if i < 0 || i >= len(list) {
		fail("%s: there is no item %d", e.path, i)
	}
	return list[i]
}

func (e *evaluation) unary(x unary) any {
	v := e.value(x.x)
	if x.op == "!" {
		return !v.(bool)
	}
	return -v.(int)
}

func (e *evaluation) binary(x binary) any {
	a := e.value(x.x)
	switch x.op {
	case "??":
		if a == nil {
			return e.value(x.y)
		}
		return a
	case "&&":
		return a.(bool) && e.truth(x.y)
	}
	return a == e.value(x.y)
}

// functions have arguments that are known.
var functions = map[string]func(args []any) any{
	"concat": func(args []any) any {
		all := []any{}
		for _, list := range args {
			all = append(all, list.([]any)...)
		}
		return all
	},
	"union": func(args []any) any {
		if _, ok := args[0].([]any); ok {
			all := []any{}
			for _, list := range args {
				for _, item := range list.([]any) {
					if !slices.Contains(all, item) {
						all = append(all, item)
					}
				}
			}
			return all
		}
		all := make(map[string]any)
		for _, o := range args {
			maps.Copy(all, o.(map[string]any))
		}
		return all
	},
	"items": func(args []any) any {
		all := []any{}
		o := args[0].(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(o)) {
			all = append(all, map[string]any{"key": key, "value": o[key]})
		}
		return all
	},
	"filter": func(args []any) any {
		keep := args[1].(func(any) any)
		return slices.DeleteFunc(slices.Clone(args[0].([]any)), func(item any) bool { return !keep(item).(bool) })
	},
	"toObject": func(args []any) any {
		o, key, value := make(map[string]any), args[1].(func(any) any), args[2].(func(any) any)
		for _, item := range args[0].([]any) {
			o[key(item).(string)] = value(item)
		}
		return o
	},
	"endsWith": func(args []any) any { return strings.HasSuffix(args[0].(string), args[1].(string)) },
	"contains": func(args []any) any {
		if list, ok := args[0].([]any); ok {
			return slices.Contains(list, args[1])
		}
		return strings.Contains(args[0].(string), args[1].(string))
	},
	"map": func(args []any) any {
		all, one := []any{}, args[1].(func(any) any)
		for _, item := range args[0].([]any) {
			all = append(all, one(item))
		}
		return all
	},
	"intersection": func(args []any) any {
		return slices.DeleteFunc(slices.Clone(args[0].([]any)), func(item any) bool { return !slices.Contains(args[1].([]any), item) })
	},
	"split": func(args []any) any {
		all := []any{}
		for _, part := range strings.Split(args[0].(string), args[1].(string)) {
			all = append(all, part)
		}
		return all
	},
	"replace": func(args []any) any {
		return strings.ReplaceAll(args[0].(string), args[1].(string), args[2].(string))
	},
	"startsWith": func(args []any) any { return strings.HasPrefix(args[0].(string), args[1].(string)) },
	"range": func(args []any) any {
		all := []any{}
		for i := range args[1].(int) {
			all = append(all, args[0].(int)+i)
		}
		return all
	},
	"empty": func(args []any) any {
		switch v := args[0].(type) {
		case string:
			return v == ""
		case []any:
			return len(v) == 0
		}
		return len(args[0].(map[string]any)) == 0
	},
	"last":   func(args []any) any { list := args[0].([]any); return list[len(list)-1] },
	"string": func(args []any) any { return fmt.Sprint(args[0]) },
	"join": func(args []any) any {
		var all []string
		for _, part := range args[0].([]any) {
			all = append(all, part.(string))
		}
		return strings.Join(all, args[1].(string))
	},
	"toLower": func(args []any) any { return strings.ToLower(args[0].(string)) },
	"max":     func(args []any) any { return max(args[0].(int), args[1].(int)) },
	"json": func(args []any) (v any) {
		if err := json.Unmarshal([]byte(args[0].(string)), &v); err != nil {
			fail("json: %v", err)
		}
		return v
	},
	"uniqueString": func(args []any) any { return hash(args)[:13] },
	"guid":         func(args []any) any { return hash(args) },
	"resourceId":   func(args []any) any { return group + "/providers/" + join(args) },
	"subscriptionResourceId": func(args []any) any {
		return "/subscriptions/00000000-0000-0000-0000-000000000000/providers/" + join(args)
	},
	"cidrSubnet": func(args []any) any { return fmt.Sprintf("%s/%d#%d", args...) },
	"resourceGroup": func([]any) any {
		return map[string]any{"id": group, "location": "westeurope"}
	},
	"tenant": func([]any) any { return map[string]any{"tenantId": "11111111-1111-1111-1111-111111111111"} },
	"environment": func([]any) any {
		return map[string]any{
			"suffixes":       map[string]any{"storage": "core.windows.net", "keyvaultDns": ".vault.azure.net"},
			"authentication": map[string]any{"loginEndpoint": "https://login.microsoftonline.com/"},
		}
	},
}

const group = "/subscriptions/00000000-0000-0000-0000-000000000000/resourceGroups/kennel"

func join(args []any) string {
	var parts []string
	for _, a := range args {
		parts = append(parts, a.(string))
	}
	return strings.Join(parts, "/")
}

func hash(args []any) string {
	sum := sha256.Sum256([]byte(join(args)))
	return hex.EncodeToString(sum[:16])
}

// load returns the content of a JSON file beside the one that names it.
func (e *evaluation) load(name string) any {
	text, ok := e.source.texts[path.Join(path.Dir(e.path), name)]
	if !ok {
		fail("%s: there is no file %s", e.path, name)
	}
	var content any
	if err := json.Unmarshal([]byte(text), &content); err != nil {
		fail("%s: %s: %v", e.path, name, err)
	}
	return whole(content)
}

// whole returns JSON with its numbers as Bicep has them.
func whole(content any) any {
	switch value := content.(type) {
	case float64:
		return int(value)
	case []any:
		for i := range value {
			value[i] = whole(value[i])
		}
	case map[string]any:
		for name := range value {
			value[name] = whole(value[name])
		}
	}
	return content
}

func (e *evaluation) call(c call) any {
	if c.name == "readEnvironmentVariable" {
		variable := e.text(c.args[0])
		if value, ok := e.env[variable]; ok {
			return value
		}
		if len(c.args) < 2 {
			fail("%s: the environment has no %s", e.path, variable)
		}
		return e.value(c.args[1])
	}
	if c.name == "loadJsonContent" {
		return e.load(e.text(c.args[0]))
	}
	f := functions[c.name]
	if f == nil {
		fail("%s: the function %s is unknown", e.path, c.name)
	}
	args := []any{}
	for _, arg := range c.args {
		v := e.value(arg)
		if _, ok := v.(later); ok && c.name == "empty" {
			return false // Azure fills it in
		} else if ok {
			return later(c.name + "()")
		}
		args = append(args, v)
	}
	return f(args)
}
