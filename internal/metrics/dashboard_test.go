package metrics

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"kennel/internal/instances"
)

// ofScraper are labels that Prometheus adds, besides those of a process.
var ofScraper = []string{"job", "instance"}

// known has the series of a set in which everything occurs, as the labels of
// each. Histograms have the names that queries use.
func known(t *testing.T) map[string][]map[string]string {
	t.Helper()
	s := full()
	s.ByProcess = true
	for i := range s.Reports {
		instances.WorkSection.Add(&s.Reports[i], map[string]instances.Work{"work-express": {Done: 1, Ages: make([]int64, 10)}})
	}
	s.Queues["work-express"] = instances.QueueSample{}
	series := make(map[string][]map[string]string)
	for name, b := range parsed(t, s) {
		for _, one := range b.samples {
			labels := make(map[string]string)
			for _, l := range one.labels {
				labels[l.name] = l.value
			}
			series[name+one.suffix] = append(series[name+one.suffix], labels)
		}
	}
	return series
}

// checkQuery checks a query of PromQL: each metric exists, each selector selects
// a series, and series are grouped by labels that they have.
func checkQuery(query string, series map[string][]map[string]string) error {
	tokens := regexp.MustCompile(`"(?:[^"\\]|\\.)*"|\[[^\]]*\]|[A-Za-z_:][A-Za-z0-9_:]*|[0-9.]+|=~|!~|!=|==|>=|<=|\S`).FindAllString(query, -1)
	token := func(i int) string {
		if i < len(tokens) {
			return tokens[i]
		}
		return ""
	}
	isName := regexp.MustCompile(`^[A-Za-z_:][A-Za-z0-9_:]*$`).MatchString
	var metrics, grouped []string
	for i := 0; i < len(tokens); i++ {
		switch name := tokens[i]; {
		case !isName(name) || slices.Contains([]string{"and", "or", "unless", "bool", "offset", "group_left", "group_right"}, name):
		case slices.Contains([]string{"by", "without", "on", "ignoring"}, name):
			for i++; token(i) != ")"; i++ {
				if token(i) == "" {
					return fmt.Errorf("%s has no list of labels", name)
				}
				if isName(token(i)) {
					grouped = append(grouped, token(i))
				}
			}
		case token(i+1) == "(" || token(i+1) == "by" || token(i+1) == "without": // a function
		default:
			selected := series[name]
			if len(selected) == 0 {
				return fmt.Errorf("there is no metric %s", name)
			}
			metrics = append(metrics, name)
			if token(i+1) != "{" {
				continue
			}
			for i += 2; token(i) != "}"; i++ {
				if token(i) == "," {
					continue
				}
				label, operator, value := token(i), token(i+1), strings.Trim(token(i+2), `"`)
				if i += 2; !isName(label) || token(i) == "" {
					return fmt.Errorf("the selector of %s is not complete", name)
				}
				if slices.Contains(ofScraper, label) {
					continue
				}
				wanted, err := regexp.Compile("^(?:" + value + ")$")
				if err != nil {
					return err
				}
				if operator == "=" || operator == "!=" {
					wanted = regexp.MustCompile("^" + regexp.QuoteMeta(value) + "$")
				}
				selected = slices.DeleteFunc(slices.Clone(selected), func(labels map[string]string) bool {
					text, ok := labels[label]
					return !ok || wanted.MatchString(text) == strings.HasPrefix(operator, "!")
				})
				if len(selected) == 0 {
					return fmt.Errorf("no series of %s has %s%s%q", name, label, operator, value)
				}
			}
		}
	}
	for _, label := range grouped {
		for _, name := range metrics {
			if _, ok := series[name][0][label]; !ok && !slices.Contains(ofScraper, label) {
				return fmt.Errorf("%s has no label %s", name, label)
			}
		}
	}
	if len(metrics) == 0 {
		return fmt.Errorf("there is no metric in it")
	}
	return nil
}

// TestDashboard: each query of the dashboard fits the metrics, and so does each
// legend; and a dashboard has a panel for each family of the app.
func TestDashboard(t *testing.T) {
	text, err := os.ReadFile("../../docs/dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Templating struct {
			List []struct{ Name, Type, Query string }
		}
		Panels []struct {
			ID                       int
			Type, Title, Description string
			Targets                  []struct{ Expr, LegendFormat string }
			GridPos                  struct{ H, W, X, Y int }
		}
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	series := known(t)
	variables := map[string]bool{"__rate_interval": true}
	for _, v := range board.Templating.List {
		variables[v.Name] = true
		if found := regexp.MustCompile(`^label_values\((.*), (\w+)\)$`).FindStringSubmatch(v.Query); found != nil {
			if err := checkQuery(found[1], series); err != nil || !slices.Contains(ofScraper, found[2]) {
				t.Errorf("variable %s: %v", v.Name, err)
			}
		} else if v.Type == "query" {
			t.Errorf("variable %s has another query than label_values", v.Name)
		}
	}
	for _, name := range regexp.MustCompile(`\$\{?(\w+)`).FindAllStringSubmatch(string(text), -1) {
		if !variables[name[1]] {
			t.Errorf("there is no variable %s", name[1])
		}
	}
	all := ""
	ids := make(map[int]bool)
	taken := make(map[[2]int]string)
	for _, p := range board.Panels {
		if ids[p.ID] || p.Title == "" || p.Type != "row" && (len(p.Targets) == 0 || p.Description == "") {
			t.Errorf("panel %d, %q: want an id of its own, a title, a description and a query", p.ID, p.Title)
		}
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" || x >= 24 {
					t.Fatalf("panel %q is over %q, or outside", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		for _, target := range p.Targets {
			if err := checkQuery(target.Expr, series); err != nil {
				t.Errorf("panel %q: %s: %v", p.Title, target.Expr, err)
			}
			for _, label := range regexp.MustCompile(`{{(\w+)}}`).FindAllStringSubmatch(target.LegendFormat, -1) {
				if _, aggregated, _ := strings.Cut(target.Expr, " by "); aggregated != "" && !strings.Contains(aggregated, label[1]) {
					t.Errorf("panel %q: the legend shows %s, by which %s does not group", p.Title, label[1], target.Expr)
				}
			}
			all += target.Expr + "\n"
		}
	}
	for _, f := range families {
		if !strings.Contains(all, f.name) {
			t.Errorf("no panel shows %s", f.name)
		}
	}
}

// TestAlerts: the alerts in docs/operations.md fit the metrics, too.
func TestAlerts(t *testing.T) {
	text, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	series := known(t)
	series["up"] = []map[string]string{{}}
	_, runbook, _ := strings.Cut(string(text), "\n## Alerts\n")
	runbook, _, _ = strings.Cut(runbook, "\n## ")
	alerts := regexp.MustCompile(`{alert: (\w+), expr: '([^']+)'`).FindAllStringSubmatch(string(text), -1)
	for _, alert := range alerts {
		if err := checkQuery(alert[2], series); err != nil {
			t.Errorf("%s: %v", alert[2], err)
		}
		if !strings.Contains(runbook, "`"+alert[1]+"`") {
			t.Errorf("the section Alerts of docs/operations.md does not state what to do after %s", alert[1])
		}
	}
	if len(alerts) < 3 {
		t.Errorf("%d alerts are found", len(alerts))
	}
}

// TestCheckQuery: the checks of queries find what they are for.
func TestCheckQuery(t *testing.T) {
	series := known(t)
	for query, want := range map[string]string{
		`sum by (queue) (rate(kennel_queue_messages_total{job=~"$job",outcome="done"}[5m]))`:         "",
		`histogram_quantile(0.5, sum by (le) (rate(kennel_message_age_seconds_bucket[5m])))`:         "",
		`max(kennel_queue_depth{queue=~"work-.*",queue!="work-0"}) > bool 0 or kennel_problems == 1`: "",
		`sum(kennel_queue_message_total)`:                                  "no metric kennel_queue_message_total",
		`rate(kennel_message_age_seconds[5m])`:                             "no metric kennel_message_age_seconds",
		`sum by (gate) (kennel_hands)`:                                     "no label gate",
		`sum(kennel_hands) by (gate)`:                                      "no label gate",
		`kennel_queue_messages_total{outcome="dead"}`:                      "no series",
		`kennel_queue_messages_total{kinds="done"}`:                        "no series",
		`kennel_queue_depth{kind!~"ready|in_flight|delayed|dead_letters"}`: "no series",
		`kennel_hands{queue`:                                               "not complete",
		`sum by (queue`:                                                    "no list",
		`1 + 1`:                                                            "no metric",
	} {
		err := checkQuery(query, series)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", query, err, want)
		}
	}
}
