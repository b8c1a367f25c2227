package policy

import (
	"cmp"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// instruction is one instruction of a Dockerfile.
type instruction struct {
	line  int
	name  string            // in upper case
	flags map[string]string // without the dashes
	args  string
}

// parseDockerfile reads the part of the language that the Dockerfile uses:
// comments, continued lines and flags.
func parseDockerfile(text string) (list []instruction) {
	joined, began := "", 0
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue // also between continued lines
		}
		if joined == "" {
			began = i + 1
		}
		var more bool
		if line, more = strings.CutSuffix(line, `\`); more {
			joined += line
			continue
		}
		words := strings.Fields(joined + line)
		in := instruction{line: began, name: strings.ToUpper(words[0]), flags: make(map[string]string)}
		words = words[1:]
		for len(words) > 0 && strings.HasPrefix(words[0], "--") {
			name, value, _ := strings.Cut(words[0][2:], "=")
			in.flags[name] = value
			words = words[1:]
		}
		in.args = strings.Join(words, " ")
		list, joined = append(list, in), ""
	}
	return list
}

// exec returns the words of an instruction in exec form. Engines take a form
// with a mistake for a shell command.
func (in instruction) exec() (words []string, err error) {
	text := strings.TrimSpace(strings.TrimPrefix(in.args, "CMD ")) // of HEALTHCHECK
	if err := json.Unmarshal([]byte(text), &words); err != nil || len(words) == 0 {
		return nil, fmt.Errorf("%s is no exec form, and the image has no shell: use [\"/handler\", …]", text)
	}
	return words, nil
}

// stages splits the instructions at each FROM.
func stages(list []instruction) (stages [][]instruction) {
	for _, in := range list {
		if in.name == "FROM" || len(stages) == 0 {
			stages = append(stages, nil)
		}
		last := len(stages) - 1
		stages[last] = append(stages[last], in)
	}
	return stages
}

// What each stage may contain, with the flags of an instruction. Nothing else
// is needed, and what is not allowed here includes ADD, CMD, ENV and SHELL.
var (
	inBuild = map[string][]string{"FROM": {"platform"}, "WORKDIR": nil, "COPY": nil, "ARG": nil, "RUN": {"mount"}}
	inImage = map[string][]string{
		"FROM": nil, "ARG": nil, "LABEL": nil, "COPY": {"from"}, "USER": nil, "EXPOSE": nil, "STOPSIGNAL": nil,
		"HEALTHCHECK": {"interval", "timeout", "start-period", "retries"}, "ENTRYPOINT": nil,
	}
	onceInImage = []string{"USER", "EXPOSE", "STOPSIGNAL", "HEALTHCHECK", "ENTRYPOINT"}
)

var (
	golangImage  = regexp.MustCompile(`^golang:(\d+)\.(\d+)\.(\d+)(?:@sha256:[0-9a-f]{64})? AS build$`)
	goDirective  = regexp.MustCompile(`(?m)^go (\d+)\.(\d+)\.(\d+)$`)
	numericUser  = regexp.MustCompile(`^([1-9]\d*):([1-9]\d*)$`)
	variable     = regexp.MustCompile(`\$\{?(\w+)`)
	linkedSymbol = regexp.MustCompile(`-X \$\([^)]*\)\.(\w+)=`)
)

// lintDockerfile returns the mistakes in a Dockerfile. sent reports whether a
// path is in the build context.
func lintDockerfile(text, goMod, makefile, workerAddress string, sent func(string) bool) (mistakes []string) {
	wrong := func(in instruction, format string, args ...any) {
		mistakes = append(mistakes, fmt.Sprintf("line %d, %s: ", in.line, in.name)+fmt.Sprintf(format, args...))
	}
	parts := stages(parseDockerfile(text))
	if len(parts) != 2 {
		return []string{fmt.Sprintf("%d stages, want one that builds, and the image", len(parts))}
	}
	once := make(map[string]instruction)
	for i, allowed := range []map[string][]string{inBuild, inImage} {
		declared := []string{"BUILDPLATFORM"} // for FROM
		for _, in := range parts[i] {
			flags, ok := allowed[in.name]
			if !ok {
				wrong(in, "not allowed in this stage, see inBuild and inImage")
				continue
			}
			for _, flag := range slices.Sorted(maps.Keys(in.flags)) {
				if !slices.Contains(flags, flag) {
					wrong(in, "unknown flag --%s", flag)
				}
			}
			for _, v := range variable.FindAllStringSubmatch(in.args+in.flags["platform"], -1) {
				if !slices.Contains(declared, v[1]) {
					wrong(in, "$%s is empty: this stage has no ARG %[1]s before", v[1])
				}
			}
			if in.name == "ARG" {
				declared = append(declared, in.args)
			}
			if _, again := once[in.name]; again && slices.Contains(onceInImage, in.name) {
				wrong(in, "it is there twice, and only the last counts")
			}
			if i == 1 {
				once[in.name] = in
			}
		}
	}
	for _, name := range onceInImage {
		if _, ok := once[name]; !ok {
			return append(mistakes, "the image has no "+name)
		}
	}

	// The stage that builds.
	from := parts[0][0]
	image, mod := golangImage.FindStringSubmatch(from.args), goDirective.FindStringSubmatch(goMod)
	if image == nil || mod == nil {
		wrong(from, "%q: want golang:X.Y.Z AS build, a pinned version, and go X.Y.Z in go.mod", from.args)
	} else if number(image[3]) < number(mod[3]) || !slices.Equal(image[1:3], mod[1:3]) {
		wrong(from, "Go %s, want the version of go.mod or a later patch of it: %s", strings.Join(image[1:], "."), strings.Join(mod[1:], "."))
	}
	for _, in := range parts[0] {
		switch in.name {
		case "COPY":
			sources := strings.Fields(in.args)
			for _, source := range sources[:max(0, len(sources)-1)] {
				if source != "." && !sent(source) {
					wrong(in, "%s does not exist, or .dockerignore has it", source)
				}
			}
		case "RUN":
			for _, flag := range []string{"CGO_ENABLED=0 ", " go build -trimpath -buildvcs=false ", "-s -w "} {
				if !strings.Contains(in.args, flag) || !strings.Contains(makefile, strings.TrimSpace(flag)) {
					wrong(in, "Dockerfile or Makefile lacks %q", flag)
				}
			}
			if got, want := linkedSymbols(in.args), linkedSymbols(makefile); len(got) == 0 || !slices.Equal(got, want) {
				wrong(in, "it stamps %q, the Makefile %q", got, want)
			}
		}
	}

	// The image.
	if from := parts[1][0]; from.args != "scratch" {
		wrong(from, "%q, want scratch: no shell and no other program", from.args)
	}
	for _, in := range parts[1] {
		if in.name == "COPY" && in.flags["from"] != "build" {
			wrong(in, "want --from=build: the image contains only what was built")
		}
	}
	if in := once["USER"]; !numericUser.MatchString(in.args) {
		wrong(in, "%s, want numbers of a user and a group other than 0", in.args)
	}
	if in := once["STOPSIGNAL"]; in.args != "SIGTERM" {
		wrong(in, "%s, want SIGTERM, which ends a worker in order", in.args)
	}
	_, port, _ := strings.Cut(workerAddress, ":")
	if in := once["EXPOSE"]; in.args != port {
		wrong(in, "%s, want %s, at which a probe requests the health", in.args, port)
	}
	for name, want := range map[string][]string{
		"ENTRYPOINT":  {"/handler", "worker", "--listen", ":" + port},
		"HEALTHCHECK": {"/handler", "probe"},
	} {
		if words, err := once[name].exec(); err != nil {
			wrong(once[name], "%v", err)
		} else if !slices.Equal(words, want) {
			wrong(once[name], "%q, want %q", words, want)
		}
	}
	return mistakes
}

func linkedSymbols(text string) (names []string) {
	for _, m := range linkedSymbol.FindAllStringSubmatch(text, -1) {
		names = append(names, m[1])
	}
	return names
}

func number(text string) int {
	n, _ := strconv.Atoi(text) // the expressions admit digits only
	return n
}

// TestDockerfile checks the Dockerfile by our rules, and that each rule finds
// its mistake.
func TestDockerfile(t *testing.T) {
	all, err := texts()
	if err != nil {
		t.Fatal(err)
	}
	goMod, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	sent := buildContext(t)
	lint := func(text string) string {
		return strings.Join(lintDockerfile(text, string(goMod), all["Makefile"], workerAddress(t), sent), "\n")
	}
	text := all["Dockerfile"]
	if mistakes := lint(text); mistakes != "" {
		t.Error(mistakes)
	}
	if mistakes := lint(strings.Replace(text, "golang:1.26.8", "golang:1.26.8@sha256:"+strings.Repeat("0a", 32), 1)); mistakes != "" {
		t.Errorf("with a digest: %s", mistakes)
	}
	for _, tt := range []struct{ old, new, want string }{
		{"FROM scratch", "FROM alpine", `"alpine", want scratch`},
		{"FROM scratch", "", "1 stages"},
		{"golang:1.26.8", "golang", "a pinned version"},
		{"golang:1.26.8", "golang:latest", "a pinned version"},
		{"golang:1.26.8", "golang:1.26.8@sha256:123", "a pinned version"},
		{"golang:1.26.8", "golang:1.26", "a pinned version"},
		{"golang:1.26.8", "golang:1.25.8", "want the version of go.mod"},
		{"golang:1.26.8", "golang:1.27.0", "want the version of go.mod"},
		{"WORKDIR /src", "SHELL [\"/bin/bash\"]", "SHELL: not allowed"},
		{"COPY . .", "ADD . .", "ADD: not allowed"},
		{"COPY . .", "COPY go.mod cmd.go ./", "cmd.go does not exist"},
		{"COPY . .", "COPY go.mod README.md ./", "README.md does not exist, or .dockerignore has it"},
		{"COPY . .", "COPY --chmod=777 . .", "unknown flag --chmod"},
		{"ARG TARGETARCH\n", "", "$TARGETARCH is empty"},
		{"FROM scratch\nARG VERSION", "FROM scratch", "$VERSION is empty"},
		{"CGO_ENABLED=0 ", "", `lacks "CGO_ENABLED=0 "`},
		{"-trimpath ", "", `lacks " go build -trimpath`},
		{".commit=$COMMIT", ".build=$COMMIT", "it stamps"},
		{"USER 65532:65532\n", "", "the image has no USER"},
		{"USER 65532:65532", "USER nonroot", "nonroot, want numbers"},
		{"USER 65532:65532", "USER 0:65532", "0:65532, want numbers"},
		{"EXPOSE 8080", "EXPOSE 8081", "8081, want 8080"},
		{`":8080"`, `":8081"`, "ENTRYPOINT: "},
		{`":8080"]`, `":8080"`, "is no exec form"},
		{`CMD ["/handler", "probe"]`, "CMD /handler probe", "is no exec form"},
		{`"probe"`, `"prob"`, "HEALTHCHECK: "},
		{"--retries", "--tries", "unknown flag --tries"},
		{"STOPSIGNAL SIGTERM", "STOPSIGNAL SIGKILL", "want SIGTERM"},
		{"STOPSIGNAL SIGTERM", "RUN true", "RUN: not allowed"},
		{"EXPOSE 8080", "EXPOSE 8080\nUSER 0:0", "it is there twice"},
		{"COPY --from=build /src", "COPY /src", "want --from=build"},
	} {
		if n := strings.Count(text, tt.old); n != 1 {
			t.Errorf("the Dockerfile contains %q %d times, want once", tt.old, n)
		}
		if mistakes := lint(strings.Replace(text, tt.old, tt.new, 1)); !strings.Contains(mistakes, tt.want) {
			t.Errorf("%q in place of %q: mistakes %q, want %q", tt.new, tt.old, mistakes, tt.want)
		}
	}
}

// workerAddress is the address that a worker and a probe use without --listen.
func workerAddress(t *testing.T) string {
	t.Helper()
	found := ""
	for _, f := range sources(t)["internal/app"] {
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			if v, ok := n.(*ast.ValueSpec); ok && v.Names[0].Name == "defaultProbes" {
				if text, ok := v.Values[0].(*ast.BasicLit); ok && text.Kind == token.STRING {
					unquoted, _ := strconv.Unquote(text.Value) // the parser accepted it
					found = cmp.Or(found, unquoted)
				}
			}
			return true
		})
	}
	if found == "" {
		t.Fatal("package internal/app has no constant defaultProbes")
	}
	return found
}
