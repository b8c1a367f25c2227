package project

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"kennel/internal/names"
	"kennel/internal/program"
)

// Partition adds a copy of the function ProcessWork for each partition queue
// but the first, up to n: ProcessWork1 with queue work-1, and so on, as soon as
// the project has this function.
func (p *Project) Partition(n int) error {
	p.partitions, p.copies = n, nil
	if !slices.Contains(p.Functions, names.PartitionFunction) {
		return nil
	}
	source, err := os.ReadFile(p.source(names.PartitionFunction))
	if err != nil {
		return err
	}
	first := queueName(0)
	if bytes.Count(source, first) != 1 {
		return fmt.Errorf("functions/%s/function.json must contain %s once, the queue of the first partition", names.PartitionFunction, first)
	}
	p.copies = make(map[string][]byte)
	for i := 1; i < n; i++ {
		name := names.FunctionOfPartition(i)
		if slices.Contains(p.Functions, name) {
			return fmt.Errorf("functions/%s is in the way of a copy of %s: rename it", name, names.PartitionFunction)
		}
		p.Functions = append(p.Functions, name)
		p.copies[name] = bytes.Replace(source, first, queueName(i), 1)
	}
	slices.Sort(p.Functions)
	return nil
}

func queueName(i int) []byte { return []byte(`"` + names.PartitionQueue(i) + `"`) }

// source is the path of a function's function.json.
func (p *Project) source(function string) string {
	return filepath.Join(p.Root, "functions", function, "function.json")
}

// stageFunction stages the function.json of a function.
func (p *Project) stageFunction(c *changes, name string) error {
	to := name + "/function.json"
	text, copied := p.copies[name]
	if !copied && p.Prefix == "" {
		return c.copy(to, p.source(name), 0o644)
	}
	var err error
	if !copied {
		text, err = os.ReadFile(p.source(name))
	}
	if err == nil {
		text, err = withPrefix(text, p.Prefix)
	}
	if err != nil {
		return fmt.Errorf("stage the function %s: %w", name, err)
	}
	return c.write(to, 0o644, writerOf(text))
}

// queueMember finds the queue of a binding.
var queueMember = regexp.MustCompile(`(?i)("queueName"\s*:\s*")([^"]*)"`)

// withPrefix returns a function.json whose queues in the storage of the app have a
// prefix. Names with a % are settings, which have it or not, and queues of another
// connection are not ours.
func withPrefix(text []byte, prefix string) ([]byte, error) {
	if prefix == "" {
		return text, nil
	}
	var file struct{ Bindings []program.Binding }
	if err := json.Unmarshal(bytes.TrimPrefix(text, []byte("\ufeff")), &file); err != nil {
		return nil, err
	}
	ours := make(map[string]bool)
	for _, b := range file.Bindings {
		if b.Connection == "" || strings.EqualFold(b.Connection, program.StorageConnection) {
			ours[b.QueueName] = !strings.Contains(b.QueueName, "%")
		}
	}
	return queueMember.ReplaceAllFunc(text, func(member []byte) []byte {
		parts := queueMember.FindSubmatch(member)
		if !ours[string(parts[2])] {
			return member
		}
		return fmt.Appendf(nil, "%s%s\"", parts[1], names.WithPrefix(prefix, string(parts[2])))
	}), nil
}
