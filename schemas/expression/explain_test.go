package expression_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forebay-io/forebay/schemas/expression"
)

// lines writes a part and those in it, one a line.
func lines(p expression.Part, depth int) (list []string) {
	text := fmt.Sprintf("%s%s: %s", strings.Repeat("  ", depth), p.Text, p.Result)
	if p.Error != "" {
		text += " (" + p.Error + ")"
	}
	for _, v := range p.Values {
		text += fmt.Sprintf(" %s=%s", v.Name, v.Value)
	}
	list = append(list, text)
	for _, in := range p.Parts {
		list = append(list, lines(in, depth+1)...)
	}
	return list
}

func TestExplain(t *testing.T) {
	t.Parallel()
	body := `{"action":"opened","issue":{"title":"a && b","user":null,"labels":[{"name":"bug"}]},"long":"` + strings.Repeat("x", 300) + `","n":1}`
	for text, want := range map[string][]string{
		"event.type.endsWith('.opened') && ( body.issue.title == 'a && b' || sender.kind == 'automation' )": {
			"event.type.endsWith('.opened') && ( body.issue.title == 'a && b' || sender.kind == 'automation' ): true",
			`  event.type.endsWith('.opened'): true event.type="com.github.issues.opened"`,
			`  body.issue.title == 'a && b' || sender.kind == 'automation': true`,
			`    body.issue.title == 'a && b': true body.issue.title="a \u0026\u0026 b"`,
			`    sender.kind == 'automation': false sender.kind="human"`,
		},
		"body.issue.user.login == 'ann'": {`body.issue.user.login == 'ann': error (fails at character 16: a value is missing, of another type or out of range) body.issue.user.login=`},
		"body.issue.labels.exists(l, l.name == 'bug') && body.issue.labels[0].name != ''": {
			"body.issue.labels.exists(l, l.name == 'bug') && body.issue.labels[0].name != '': true",
			`  body.issue.labels.exists(l, l.name == 'bug'): true body.issue.labels=[{"name":"bug"}]`,
			`  body.issue.labels[0].name != '': true body.issue.labels[0].name="bug"`,
		},
		"body.n == 1 ? true : body.n == 2 && false":    {"body.n == 1 ? true : body.n == 2 && false: true body.n=1"},
		"body.?issue.?state.orValue('open') == 'open'": {`body.?issue.?state.orValue('open') == 'open': true body.?issue.?state=`},
		"body.?issue.?title.orValue('') == ''":         {`body.?issue.?title.orValue('') == '': false body.?issue.?title="a \u0026\u0026 b"`},
		"body[?'n'].orValue(2) == 1":                   {`body[?'n'].orValue(2) == 1: true body[?"n"]=1`},
		"body.issue.?user.hasValue()":                  {`body.issue.?user.hasValue(): true body.issue.?user=null`},
		"body.?issue.title.orValue('') != ''":          {`body.?issue.title.orValue('') != '': true body.?issue.title="a \u0026\u0026 b"`},
		"size(body.long) == 300":                       {`size(body.long) == 300: true body.long="` + strings.Repeat("x", 199) + "..."},
		"(body.n == 1) && (body.n == 2)":               {"(body.n == 1) && (body.n == 2): false", "  body.n == 1: true body.n=1", "  body.n == 2: false body.n=1"},
		"has(body.n) && !(headers['x-event'] == '')":   {"has(body.n) && !(headers['x-event'] == ''): true", `  has(body.n): true body.n=1`, `  !(headers['x-event'] == ''): true headers["x-event"]="first"`},
	} {
		in := &expression.Input{Event: event(body)}
		if diff := cmp.Diff(want, lines(expression.Explain(text, in), 0)); diff != "" {
			t.Errorf("%s: %s", text, diff)
		}
	}
}
