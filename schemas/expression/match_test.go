package expression_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/forebay-io/forebay/schemas/expression"
)

// withoutLinks returns a payload without the members that hold addresses, which are most of what GitHub sends.
func withoutLinks(tb testing.TB, text []byte) []byte {
	tb.Helper()
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		tb.Fatal(err)
	}
	var cut func(v any)
	cut = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			maps.DeleteFunc(v, func(key string, _ any) bool { return strings.HasSuffix(key, "url") || key == "_links" })
			for _, x := range v {
				cut(x)
			}
		case []any:
			for _, x := range v {
				cut(x)
			}
		}
	}
	cut(v)
	text, err := json.Marshal(v)
	if err != nil {
		tb.Fatal(err)
	}
	return text
}

// payload returns an example of what GitHub sends, as it is sent.
func payload(tb testing.TB, name string) []byte {
	tb.Helper()
	text, err := os.ReadFile("../../ingest/vectors/payloads/github/" + name + ".json")
	if err != nil {
		tb.Fatal(err)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, text); err != nil {
		tb.Fatal(err)
	}
	return compact.Bytes()
}

// BenchmarkMatch is what a match costs an event, with the reading of its body.
func BenchmarkMatch(b *testing.B) {
	pull, issue, push := payload(b, "pull_request.opened"), payload(b, "issues.labeled"), payload(b, "push")
	small := []byte(`{"action":"opened","issue":{"number":42,"state":"open","title":"` + strings.Repeat("x", 131) + `","labels":[{"name":"bug"}]},"sender":{"type":"User"}}`)
	const draft = "body.action == 'opened' && body.pull_request.draft == false"
	for _, m := range []struct {
		name, match string
		body        []byte
	}{
		{"gate_256B", "body.action in ['opened', 'labeled'] && body.issue.state == 'open' && body.sender.type != 'Bot'", small},
		{"action_1KB", "body.ref_type == 'branch'", withoutLinks(b, payload(b, "create"))},
		{"issue_3KB", "body.issue.labels.exists(l, l.name == 'bug') || body.action == 'labeled'", withoutLinks(b, issue)},
		{"draft_4KB", draft, withoutLinks(b, pull)},
		{"push_6KB", "body.ref == 'refs/heads/main' && !body.deleted && body.repository.private == false", push},
		{"draft_23KB", draft, pull},
		{"type_only", "event.type == 'com.github.issues.opened' && sender.kind != 'automation'", push},
	} {
		b.Run(m.name, func(b *testing.B) {
			x, err := expression.Condition(m.match)
			if err != nil {
				b.Fatal(err)
			}
			e := event("")
			e.Data, e.DataContentType = m.body, "application/json"
			b.SetBytes(int64(len(m.body)))
			b.ReportAllocs()
			for b.Loop() {
				in := expression.Input{Event: e}
				if _, err := in.True(x); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestTogether: expressions that share an Input answer as they do alone, whichever of them has the body read, and the members that others have named
// are not looked for again.
func TestTogether(t *testing.T) { // not parallel: it counts allocations
	texts := []string{"body.action == 'opened'", "body.issue.state == 'open' && body.issue.n > 1", "body.issue.user.login == 'a'", "size(body.issue) == 3", "event.id == 'x'"}
	compile := func() (all []*expression.Expression) {
		for _, text := range texts {
			x, err := expression.Condition(text)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, x)
		}
		return all
	}
	alone, together := compile(), compile()
	expression.Together(together...)
	for _, body := range []string{`{"action":"opened","issue":{"state":"open","n":2,"user":{"login":"a"}}}`, `{"action":"opened","action":"closed","issue":{}}`,
		`{"issue":{"n":1,"n":1,"user":7,"state":"open"}}`, `[]`, `{`} {
		e := event(body)
		for first := range together {
			in := expression.Input{Event: e}
			for i := range together {
				i = (first + i) % len(together)
				got, err := in.True(together[i])
				want, wantErr := (&expression.Input{Event: e}).True(alone[i])
				if got != want || (err == nil) != (wantErr == nil) || err != nil && err.Error() != wantErr.Error() {
					t.Errorf("%s of %s behind %s: %v, %v; alone %v, %v", texts[i], body, texts[first], got, err, want, wantErr)
				}
			}
		}
	}
	allocations := func(all []*expression.Expression) float64 {
		e := event(`{"action":"opened","repository":{"id":7},"issue":{"state":"open","n":2,"user":{"login":"a"}}}`)
		return testing.AllocsPerRun(100, func() {
			in := expression.Input{Event: e}
			for _, x := range all[:3] {
				if is, err := in.True(x); err != nil || !is {
					t.Error(is, err)
				}
			}
		})
	}
	if n, apart := allocations(together), allocations(alone); n >= apart {
		t.Errorf("%.0f allocations, and %.0f where each looks for what it names", n, apart)
	}
}

func BenchmarkTogether(b *testing.B) {
	e := event(string(payload(b, "issues.labeled")))
	e.DataContentType = "application/json"
	var all []*expression.Expression
	for _, text := range []string{"body.action != 'deleted' && event.type.startsWith('com.github.')", "body.issue.title.contains('rm -rf') || body.issue.number == 0", "body.repository.full_name == 'acme/shop'"} {
		x, err := expression.Condition(text)
		if err != nil {
			b.Fatal(err)
		}
		all = append(all, x)
	}
	for _, name := range []string{"apart", "inOne", "together"} {
		b.Run(name, func(b *testing.B) {
			if name == "together" {
				expression.Together(all...)
			}
			b.ReportAllocs()
			for b.Loop() {
				in := &expression.Input{Event: e}
				for _, x := range all {
					if name == "apart" {
						in = &expression.Input{Event: e}
					}
					if _, err := in.True(x); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
