package sdktests

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// accountKey is the key of every account: base64, as short as the environment of
// Azurite needs it for thousands of accounts.
const accountKey = "a2V5"

// The kinds of accounts of which the tests of azblob know, by the prefix of
// their environment variables, and the last letter of our names for them.
var kinds = map[string]string{"": "a", "SECONDARY_": "b", "PREMIUM_": "c", "SOFT_DELETE_": "d", "DATALAKE_": "e", "IMMUTABLE_": "f"}

// account returns the name of an account of the i-th function.
func account(i int, kind string) string { return fmt.Sprintf("f%04d%s", i, kinds[kind]) }

// accounts returns the names of the accounts of n functions.
func accounts(n int) []string {
	var names []string
	for i := range n {
		for kind := range kinds {
			names = append(names, account(i, kind))
		}
	}
	return names
}

// environment is all that the tests of the i-th function see.
func environment(i int, proxyURL, authority, home string) []string {
	env := []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + home, "TMPDIR=" + home,
		"AZURE_RECORD_MODE=live", "PROXY_MANUAL_START=true", "PROXY_CERT=" + authority,
		"HTTPS_PROXY=" + proxyURL, "HTTP_PROXY=" + proxyURL, "SSL_CERT_FILE=" + authority, "SSL_CERT_DIR=" + home,

		"AZURE_SERVICE_DIRECTORY=KENNEL", "KENNEL_TENANT_ID=" + tenant, "KENNEL_CLIENT_ID=client", "KENNEL_CLIENT_SECRET=secret",
		"AZURE_TENANT_ID=" + tenant, "AZURE_CLIENT_ID=client", "AZURE_CLIENT_SECRET=secret",
		"SUBSCRIPTION_ID=subscription", "RESOURCE_GROUP_NAME=group", // of a service that the proxy does not have
		"AZURE_STORAGE_ENCRYPTION_SCOPE=scope",

		"TABLES_STORAGE_ACCOUNT_NAME=" + account(i, ""), "TABLES_PRIMARY_STORAGE_ACCOUNT_KEY=" + accountKey,
		"TABLES_COSMOS_ACCOUNT_NAME=" + account(i, "SECONDARY_"), "TABLES_PRIMARY_COSMOS_ACCOUNT_KEY=" + accountKey,
	}
	for kind := range kinds {
		env = append(env, kind+"AZURE_STORAGE_ACCOUNT_NAME="+account(i, kind), kind+"AZURE_STORAGE_ACCOUNT_KEY="+accountKey)
	}
	return env
}

// result is what became of the tests of a function.
type result struct {
	outcomes map[string]string // PASS, FAIL or SKIP by the full name of each test without sub-tests
	live     bool              // called storage
	output   string
}

const (
	testTime = 170 * time.Second // of a process: the slowest test waits for two minutes
	perOther = 20 * time.Second  // for each further test of the process
)

// A bench runs tests against one side.
type bench struct {
	proxy             *proxy
	address           string // of the proxy
	authority, home   string
	chunk             int // how many functions share a process, and accounts
	processes         int // at a time
	mu                sync.Mutex
	accounts, maximum int // used, and known to the side
}

// runAll runs the functions, those that wait first and each in a process of its
// own, so that they wait at the same time.
func (b *bench) runAll(ctx context.Context, list []function) []result {
	results := make([]result, len(list))
	var waiting, others [][]int
	for i, f := range list {
		last := len(others) - 1
		switch {
		case f.waits:
			waiting = append(waiting, []int{i})
		case last >= 0 && len(others[last]) < b.chunk && f.together(list[others[last][0]]):
			others[last] = append(others[last], i)
		default:
			others = append(others, []int{i})
		}
	}
	next := make(chan []int)
	var workers sync.WaitGroup
	for range b.processes {
		workers.Go(func() {
			for chunk := range next {
				b.run(ctx, list, chunk, results)
				for _, i := range chunk { // what a panic kept from running runs alone
					if len(chunk) > 1 && len(results[i].outcomes) == 0 {
						b.run(ctx, list, []int{i}, results)
					}
				}
			}
		})
	}
	for _, chunk := range append(waiting, others...) {
		next <- chunk
	}
	close(next)
	workers.Wait()
	return results
}

// together reports whether one pattern can name both functions.
func (f function) together(other function) bool {
	return f.binary == other.binary && strings.Contains(f.name, "/") == strings.Contains(other.name, "/")
}

// fresh returns a number of accounts that no process has used.
func (b *bench) fresh() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.accounts++
	return b.accounts % b.maximum
}

var (
	started = regexp.MustCompile(`(?m)^\x16?=== RUN +(\S+)`)
	ended   = regexp.MustCompile(`(?m)^\s*\x16?--- (PASS|FAIL|SKIP): (\S+)`)
)

// run runs some functions of a package in a process.
func (b *bench) run(ctx context.Context, list []function, chunk []int, results []result) {
	limit := testTime + time.Duration(len(chunk)-1)*perOther
	ctx, cancel := context.WithTimeout(ctx, limit+10*time.Second)
	defer cancel()
	var names []string
	prefix := ""
	for _, i := range chunk {
		dir, name := path.Split(list[i].name)
		if dir != "" {
			prefix = "^" + strings.TrimSuffix(dir, "/") + "$/"
		}
		names = append(names, name)
	}
	pattern := prefix + "^(" + strings.Join(names, "|") + `)(#\d+)?$`
	number := b.fresh()
	first := list[chunk[0]]
	cmd := exec.CommandContext(ctx, first.binary, "-test.run", pattern, "-test.v=test2json", "-test.timeout", limit.String())
	cmd.Dir = first.dir
	cmd.Env = environment(number, b.address, b.authority, b.home)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.Run() // what failed is in the output
	text := out.String()
	all := make(map[string]string)
	for _, m := range started.FindAllStringSubmatch(text, -1) {
		all[m[1]] = "FAIL" // unless it ends otherwise
	}
	for _, m := range ended.FindAllStringSubmatch(text, -1) {
		all[m[2]] = m[1]
	}
	live := false
	for kind := range kinds {
		live = live || b.proxy.requests(account(number, kind)) > 0
	}
	for _, i := range chunk {
		own := maps.Clone(all)
		maps.DeleteFunc(own, func(name, _ string) bool {
			rest, ok := strings.CutPrefix(name, list[i].name)
			return !ok || rest != "" && rest[0] != '/' && rest[0] != '#'
		})
		results[i] = result{withoutParents(own), live, text}
	}
}

// withoutParents removes the tests with sub-tests.
func withoutParents(all map[string]string) map[string]string {
	for _, name := range slices.Sorted(maps.Keys(all)) { // a test before its sub-tests
		children := maps.Clone(all)
		maps.DeleteFunc(children, func(other, _ string) bool { return !strings.HasPrefix(other, name+"/") })
		if len(children) == 0 {
			continue
		}
		if all[name] == "FAIL" && !slices.Contains(slices.Collect(maps.Values(children)), "FAIL") {
			for child := range children { // it failed before or after them
				all[child] = "FAIL"
			}
		}
		delete(all, name)
	}
	return all
}
