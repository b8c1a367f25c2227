package project

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"kennel/internal/names"
)

// Partition adds a copy of the function ProcessWork for each partition queue
// but the first, up to n: ProcessWork1 with queue work-1, and so on. A project
// without this function is not changed.
func (p *Project) Partition(n int) error {
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
	if !copied {
		return c.copy(to, p.source(name), 0o644)
	}
	return c.write(to, 0o644, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
}
