package alerts

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

const deploy = "../../../deploy"

// The rules for Prometheus are these: in this order, as severe, after as long, in the same words and with the same pages. That they ask the same is
// what TestPlayed and promtool show.
func TestRuleFile(t *testing.T) {
	t.Parallel()
	type entry struct {
		Alert       string
		Expr        string
		For         string
		Labels      map[string]string
		Annotations map[string]string
	}
	var file struct {
		Groups []struct {
			Name  string
			Rules []entry
		}
	}
	text, err := os.ReadFile(filepath.Join(deploy, "alerts", "forebay.rules.yaml"))
	if err == nil {
		err = yaml.Unmarshal(text, &file)
	}
	if err != nil || len(file.Groups) != 1 {
		t.Fatal(err, file)
	}
	var want []entry
	for _, r := range Rules(Defaults()) {
		e := entry{Alert: r.Name, Labels: map[string]string{"severity": r.Severity}, Annotations: map[string]string{"summary": r.Summary, "runbook_url": RunbookURL(r.Name)}}
		if r.For > 0 {
			e.For = strings.TrimSuffix(r.For.String(), "0s")
		}
		want = append(want, e)
	}
	have := file.Groups[0].Rules
	for i := range have {
		have[i].Expr = ""
	}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Error(diff)
	}
}

// Every alert has a name of its own, words, a severity and a page, and no page is left over.
func TestEachAlertIsWhole(t *testing.T) {
	t.Parallel()
	name := regexp.MustCompile(`^Forebay[A-Z][A-Za-z]+$`)
	var pages []string
	for _, r := range Rules(Defaults()) {
		page := filepath.Join(deploy, "runbooks", r.Name+".md")
		if slices.Contains(pages, page) || !name.MatchString(r.Name) || r.Severity != Critical && r.Severity != Warning || !strings.HasSuffix(r.Summary, ".") {
			t.Errorf("%+v", r)
		}
		pages = append(pages, page)
		text, err := os.ReadFile(page)
		if err != nil {
			t.Error(err)
			continue
		}
		for _, part := range []string{"# " + r.Name + "\n", "**Means for users:**", "**Look at:**", "**Do:**", "**Over when:**", "```\nforebay "} {
			if !bytes.Contains(text, []byte(part)) {
				t.Errorf("%s has no %q", page, part)
			}
		}
	}
	found, err := filepath.Glob(filepath.Join(deploy, "runbooks", "Forebay*.md"))
	slices.Sort(pages)
	if diff := cmp.Diff(pages, found); diff != "" || err != nil {
		t.Errorf("pages (-of alerts +there): %v\n%s", err, diff)
	}
}

// Thresholds of a file take the place of the defaults.
func TestThresholds(t *testing.T) {
	t.Parallel()
	families := gathered([]played{
		{"forebay_attention_waiting", map[string]string{"kind": "dead_letter", "team": "acme", "of": "acme.fulfil"}, []*float64{new(8.0)}},
		{"forebay_dead_letters_oldest_seconds", map[string]string{"team": "acme", "of": "acme.fulfil"}, []*float64{new(7201.0)}},
		{"forebay_stream_lag_seconds", map[string]string{"subscription": "acme.fulfil", "topic": "orders"}, []*float64{new(61.0)}},
		{"forebay_key_expires_seconds", map[string]string{"key": "token ann"}, []*float64{new(3599.0)}},
	}, 0)
	for want, of := range map[string]Thresholds{
		"": {Depth: 8, Oldest: 7201 * time.Second, Lag: 61 * time.Second, Expires: 3599 * time.Second},
		"ForebayDeadLettersDeep ForebayDeadLetterOld ForebayLag ForebayKeyExpires": {Depth: 7, Oldest: 2 * time.Hour, Lag: time.Minute, Expires: time.Hour},
	} {
		var s seen
		s.take(families, time.Now())
		var found []string
		for _, r := range Rules(of) {
			if len(r.find(&s)) > 0 {
				found = append(found, r.Name)
			}
		}
		if got := strings.Join(found, " "); got != want {
			t.Errorf("with %+v: %s", of, got)
		}
	}
}
