package provider_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forebay-io/forebay/ingest/provider"
	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
)

// expressed is a source whose every value is an expression.
func expressed() provider.Config {
	cfg := orders()
	cfg.Event = &provider.EventConfig{
		ID: "cel:header['x-event-id'] + '/' + string(body.attempt)", Type: "cel:body.kind.startsWith('order.') ? body.kind : 'order.' + body.kind",
		Entity: []string{"/shop", "cel:body.order.id"},
		Version: &provider.VersionConfig{From: "cel:body.order.rev * 10 + body.order.minor", Kind: "monotonic",
			Rank: &provider.RankConfig{From: "cel:body.lines.all(l, l.done) ? 'done' : 'open'", Order: []string{"open", "done"}}},
		Deleted: &provider.DeletedConfig{From: "cel:has(body.order.gone) && body.order.gone > 0"},
	}
	return cfg
}

func TestExpressionsStandWherePointersStand(t *testing.T) {
	t.Parallel()
	s := compile(t, expressed())
	for body, want := range map[string]string{
		`{"attempt":1,"kind":"order.paid","shop":"s","order":{"id":7,"rev":4,"minor":2},"lines":[{"done":true},{"done":true}]}`://
		"e/1 | order.paid | s/7 | monotonic 00000000000000000042+00002 | delta",
		`{"attempt":2,"kind":"sent","shop":"s","order":{"id":"7/b","rev":0,"minor":0,"gone":1},"lines":[{"done":true},{"done":false}]}`://
		"e/2 | order.sent | s/7%2Fb | monotonic 00000000000000000000+00001 | delta deleted",
	} {
		e, err := s.Event(request(body, "X-Event-Id: e"), received)
		if err != nil {
			t.Fatal(err)
		}
		if got := brief(e); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// withVersion is the source whose version is the expression.
func withVersion(expression, kind, as string) provider.Config {
	cfg := orders()
	cfg.Event.Version = &provider.VersionConfig{From: "cel:" + expression, Kind: kind, As: as}
	return cfg
}

// A double has 53 bits: numbers above 2^53 differ only where nobody made doubles of them.
func TestExpressionNumbersAreExact(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ expression, kind, as, n, want string }{
		{"body.n", "sequence", "", "9007199254740993", "00009007199254740993"},
		{"body.n", "sequence", "", "9223372036854775807", "09223372036854775807"},
		{"body.n", "sequence", "", "-0", "00000000000000000000"},
		{"body.n", "sequence", "", `"42"`, "00000000000000000042"}, // as a pointer takes it
		{"body.n + 1", "monotonic", "integer", "9007199254740992", "00009007199254740993"},
		{"uint(body.n)", "monotonic", "", "7", "00000000000000000007"},
		{"int(body.n)", "monotonic", "", `"7"`, "00000000000000000007"},
		{"size(body.n)", "monotonic", "", `[0,0,0]`, "00000000000000000003"},
		{"body.n.filter(x, x > 1)[0]", "monotonic", "", `[0.5,1,9007199254740993]`, "00009007199254740993"},
		{"body.n", "timestamp", "", "1557933618", "2019-05-15T15:20:18.000000000Z"},
		{"body.n", "timestamp", "", `"2019-05-15T15:20:18.123456789Z"`, "2019-05-15T15:20:18.123456789Z"},
		{"timestamp(body.n)", "timestamp", "", `"2019-05-15T17:20:18.5+02:00"`, "2019-05-15T15:20:18.500000000Z"},
		{"body.n", "monotonic", "text", `"01ARZ3NDEKTSV4RRFFQ69G5FAV"`, "=01ARZ3NDEKTSV4RRFFQ69G5FAV"},
		{"'r' + string(body.n)", "monotonic", "text", `90071992547409931`, "=r90071992547409931"},
	} {
		e, err := compile(t, withVersion(tt.expression, tt.kind, tt.as)).Event(request(`{"type":"t","order":{"id":1},"n":`+tt.n+`}`, "X-Event-Id: i"), received)
		if err != nil || e.Version.Sortable() != tt.want {
			t.Errorf("%s of %s: %+v %v, want %s", tt.expression, tt.n, e, err, tt.want)
		}
	}
	// An id of 64 bits without a sign is exact, too; what no integer of CEL holds does no harm while nothing reads it.
	cfg := orders()
	cfg.Event.ID = "cel:string(body.id)"
	e, err := compile(t, cfg).Event(request(`{"id":18446744073709551615,"big":123456789012345678901234567890,"type":"t","order":{"id":1,"rev":1}}`), received)
	if err != nil || e.ID != "18446744073709551615" {
		t.Errorf("%+v %v", e, err)
	}
}

func TestExpressionMakesUnusable(t *testing.T) {
	t.Parallel()
	const loop = "body.list.map(x, body.list.map(y, body.list.map(z, x)))[0][0][0]"
	long := strings.Repeat("x", 5000)
	hundred := "[" + strings.Repeat("1,", 99) + "1]"
	for _, tt := range []struct{ name, expression, kind, as, body, want string }{
		{"missing", "body.order.rev", "sequence", "", `{}`, provider.ExpressionFailed},
		{"null", "body.n", "sequence", "", `{"n":null}`, provider.MissingField},
		{"empty text", "body.n", "sequence", "", `{"n":""}`, provider.MissingField},
		{"decimal as version", "body.n", "sequence", "", `{"n":1.5}`, provider.WrongType},
		{"exponent", "body.n", "monotonic", "", `{"n":1e3}`, provider.WrongType},
		{"decimal of a branch", "true ? dyn(2.0) : dyn(1)", "monotonic", "", `{}`, provider.WrongType},
		{"beyond int64", "body.n", "monotonic", "", `{"n":9223372036854775808}`, provider.BadVersion},
		{"beyond uint64", "body.n", "monotonic", "", `{"n":18446744073709551616}`, provider.WrongType},
		{"beyond a double", "string(body.n)", "monotonic", "text", `{"n":1e999}`, provider.ExpressionFailed},
		{"overflow", "body.n + 1", "monotonic", "", `{"n":9223372036854775807}`, provider.ExpressionFailed},
		{"negative", "body.n", "sequence", "", `{"n":-1}`, provider.BadVersion},
		{"no time", "timestamp(body.n)", "timestamp", "", `{"n":"now"}`, provider.ExpressionFailed},
		{"time that no version holds", "timestamp(body.n)", "timestamp", "", `{"n":"0001-01-01T00:00:00Z"}`, provider.BadVersion},
		{"integer as text", "body.n", "monotonic", "text", `{"n":1}`, provider.WrongType},
		{"text with a space", "body.n", "monotonic", "text", `{"n":"a b"}`, provider.BadVersion},
		{"text of 65 bytes", "body.n", "monotonic", "text", `{"n":"` + long[:65] + `"}`, provider.BadVersion},
		{"long text", "body.n", "monotonic", "text", `{"n":"` + long + `"}`, provider.TooLong},
		{"cost", loop, "monotonic", "", `{"list":` + hundred + `}`, provider.ExpressionCost},
		{"cost of a long list", "body.list.all(x, x > 0) ? 1 : 2", "monotonic", "", `{"list":[` + strings.Repeat("1,", 30_000) + `1]}`, provider.ExpressionCost},
		{"cost of texts in a loop", "size(body.list.map(x, body.n + x))", "monotonic", "", `{"n":"` + strings.Repeat("x", 200<<10) + `","list":["a","b","c","d","e","f"]}`, provider.ExpressionCost},
		{"cost of comparing", "body.list.all(x, body.far == body.other) ? 1 : 2", "monotonic", "", `{"list":` + hundred + `,"far":[[[` + strings.Repeat("[1],", 1000) + `1]]],"other":[[[` + strings.Repeat("[1],", 1000) + `1]]]}`, provider.ExpressionCost},
		{"cost of searching", "body.list.all(x, x in body.far) ? 1 : 2", "monotonic", "", `{"list":` + hundred + `,"far":[` + strings.Repeat("0,", 2000) + `1]}`, provider.ExpressionCost},
		{"cost of a pattern", "body.n.matches(body.re) ? 1 : 2", "monotonic", "", `{"re":"` + strings.Repeat("(a?){30}", 50) + `","n":"` + strings.Repeat("a", 20_000) + `"}`, provider.ExpressionCost},
		{"cost of a long text", "(body.n + body.n).contains('xy') ? 1 : 2", "monotonic", "", `{"n":"` + strings.Repeat("x", 2<<20) + `"}`, provider.ExpressionCost},
		{"pattern that grows", "'a'.matches(body.n) ? 1 : 2", "sequence", "", `{"n":"((a{100}){100}){10}"}`, provider.ExpressionFailed},
		{"no JSON", "body.n", "sequence", "", `x`, provider.NotJSON},
		{"key twice, elsewhere", "body.n", "sequence", "", `{"n":1,"far":[{"a":1,"a":1}]}`, provider.DuplicateKey},
		{"bad string, elsewhere", "body.n", "sequence", "", `{"n":1,"far":"\ud800"}`, provider.BadString},
		{"too many values", "body.n", "sequence", "", `{"n":1,"far":[` + strings.Repeat("0,", 1<<18) + `0]}`, provider.TooLong},
		{"no header", "header['x-rev']", "sequence", "", `{}`, provider.ExpressionFailed},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cfg := withVersion(tt.expression, tt.kind, tt.as)
			cfg.Event.Type, cfg.Event.Entity = "header:X-Type", []string{} // nothing else of the body
			e, err := compile(t, cfg).Event(request(tt.body, "X-Event-Id: i", "X-Type: t"), received)
			bad, ok := errors.AsType[*provider.Unusable](err)
			if !ok || bad.Reason != tt.want {
				t.Fatalf("%v, want %s (a version: %t)", err, tt.want, e != nil)
			}
			if len(bad.Detail) > 250 || strings.Contains(bad.Detail, "xxx") {
				t.Errorf("detail %q", bad.Detail)
			}
		})
	}
}

// A mapping without expressions reads what its pointers ask for and no more, whatever else is in the body; one whose
// expressions leave the body alone does not look at it at all.
func TestOnlyExpressionsOverTheBodyReadAllOfIt(t *testing.T) {
	t.Parallel()
	const body = `{"type":"t","order":{"id":1,"rev":1},"far":{"a":1,"a":2,"b":"\ud800"}}`
	if _, err := compile(t, orders()).Event(request(body, "X-Event-Id: i"), received); err != nil {
		t.Error(err)
	}
	cfg := orders()
	cfg.Event.ID = "cel:header['x-event-id']"
	if _, err := compile(t, cfg).Event(request(body, "X-Event-Id: i"), received); err != nil {
		t.Error(err)
	}
	cfg.Event = &provider.EventConfig{ID: "cel:header['x-event-id']", Type: "header:X-Type", Entity: []string{}}
	if _, err := compile(t, cfg).Event(request("\x00 no JSON", "X-Event-Id: i", "X-Type: t"), received); err != nil {
		t.Error(err)
	}
}

func TestExpressionReadsHeaders(t *testing.T) {
	t.Parallel()
	cfg := orders()
	cfg.Verify = &verify.Params{Scheme: verify.SchemeToken, Header: "X-Token"}
	cfg.Event.ID = "cel:header['x-event-id'] + ' ' + string(header.exists(h, h in ['authorization', 'cookie', 'x-token']))"
	e, err := compile(t, cfg).Event(request(`{"type":"t","order":{"id":1,"rev":1}}`, "X-Event-ID: first", "X-Event-ID: second",
		"Authorization: secret", "Cookie: secret", "X-Token: secret"), received)
	if err != nil || e.ID != "first false" {
		t.Errorf("%+v %v", e, err)
	}
}

func TestExpressionReadsForms(t *testing.T) {
	t.Parallel()
	cfg := orders()
	cfg.Event = &provider.EventConfig{ID: "cel:form.Sid", Type: "cel:form['Status']",
		Entity: []string{"cel:form.Account + (has(form.Sub) ? '/' + form.Sub : '')"}}
	s := compile(t, cfg)
	const form = "Content-Type: application/x-www-form-urlencoded"
	e, err := s.Event(request("Sid=S%2F1&Status=sent&Account=A&Other=1&Other=2", form), received)
	if err != nil || brief(e) != "S/1 | sent | A | none | delta" {
		t.Errorf("%+v %v", e, err)
	}
	_, err = s.Event(request("Sid=1&Status=sent&Status=sent&Account=A", form), received)
	if bad, ok := errors.AsType[*provider.Unusable](err); !ok || bad.Reason != provider.ExpressionFailed {
		t.Errorf("a field that is there twice: %v", err)
	}
	// GitHub's other content type: the JSON text is a field. body is null where a form has none.
	gh := compile(t, provider.Config{Preset: "github", Event: &provider.EventConfig{Entity: []string{"cel:body.repository.id"}}})
	e, err = gh.Event(request("payload=%7B%22ref%22%3A%22r%22%2C%22before%22%3A0%2C%22after%22%3A0%2C%22commits%22%3A%5B%5D%2C%22repository%22%3A%7B%22id%22%3A7%7D%7D", form, "X-GitHub-Event: push", "X-GitHub-Delivery: d"), received)
	if err != nil || e.Entity != "7" {
		t.Errorf("%+v %v", e, err)
	}
	slack := compile(t, provider.Config{Preset: "slack", Event: &provider.EventConfig{Entity: []string{"cel:body == null ? form.team_id : string(body.team.id)"}}})
	e, err = slack.Event(request("command=%2Fx&team_id=T", form), received)
	if err != nil || e.Entity != "T" {
		t.Errorf("%+v %v", e, err)
	}
}

func TestExpressionsAreCheckedWhenCompiled(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		change    func(*provider.EventConfig)
		key, want string
	}{
		{func(e *provider.EventConfig) { e.ID = "cel:" }, "event.id", "is not an expression: at character 1"},
		{func(e *provider.EventConfig) { e.ID = "cel:body." }, "event.id", "is not an expression: at character 6: Syntax error"},
		{func(e *provider.EventConfig) { e.Type = "cel:bdy.x" }, "event.type", "at character 1: undeclared reference to 'bdy' (did you mean 'body'?)"},
		{func(e *provider.EventConfig) { e.Entity = []string{"/a", "cel:[body.x]"} }, "event.entity[1]", "type list(dyn)"},
		{func(e *provider.EventConfig) { e.Version.From = "cel:1.5" }, "event.version.from", "type double, and must give one of string, int, uint: decimals are not exact"},
		{func(e *provider.EventConfig) { e.Version.From = "cel:timestamp(body.x)" }, "event.version.from", "type timestamp, and must give one of string, int, uint"},
		{func(e *provider.EventConfig) { e.Version.From = "cel:null" }, "event.version.from", "null is a value that is missing"},
		{func(e *provider.EventConfig) {
			*e.Version = provider.VersionConfig{Kind: "monotonic", As: "text", From: "cel:1"}
		}, "event.version.from", "type int, and must give one of string"},
		{func(e *provider.EventConfig) {
			e.Version.Rank = &provider.RankConfig{From: "cel:true", Order: []string{"true"}}
		}, "event.version.rank.from", "type bool"},
		{func(e *provider.EventConfig) { e.Deleted = &provider.DeletedConfig{From: "cel:b'a'"} }, "event.deleted.from", "type bytes, and must give one of bool, string, int, uint"},
		{func(e *provider.EventConfig) { e.ID = "cel:body.a +\nbdy" }, "event.id", "at line 2, character 1"},
		{func(e *provider.EventConfig) { e.ID = "cel:" + strings.Repeat("1+", 1500) + "1" }, "event.id", "is not an expression"},
	} {
		cfg := orders()
		cfg.Team, cfg.Name, cfg.Secrets = "acme", "in", []schemas.Secret{schemas.NewSecret(whsec)}
		tt.change(cfg.Event)
		_, err := provider.Compile(cfg)
		bad, ok := errors.AsType[*provider.KeyError](err)
		if !ok || bad.Key != tt.key || !strings.Contains(bad.Err.Error(), tt.want) {
			t.Errorf("%v, want %s ... %s", err, tt.key, tt.want)
			continue
		}
		if text := err.Error(); strings.Contains(text, "\n") || len(text) > 300 || !strings.HasPrefix(text, tt.key+" ") {
			t.Errorf("an error of %d bytes: %q", len(text), text)
		}
	}
}

func TestVersionAsText(t *testing.T) {
	t.Parallel()
	cfg := orders()
	cfg.Event.Version = &provider.VersionConfig{From: "/order/rev", Kind: "monotonic", As: "text"}
	pointer := compile(t, cfg)
	body := func(rev string) *verify.Request {
		return request(`{"type":"t","order":{"id":1,"rev":`+rev+`}}`, "X-Event-Id: i")
	}
	var texts []string
	for _, rev := range []string{`"01ARZ3NDEKTSV4RRFFQ69G5FAV"`, `"01BX5ZZKBKACTAV9WEVGEMMVRZ"`, `"0000012"`, `"0000012-rc"`} {
		e, err := pointer.Event(body(rev), received)
		if err != nil {
			t.Fatal(err)
		}
		if want := (schemas.Version{Kind: schemas.Monotonic, Text: strings.Trim(rev, `"`)}); e.Version != want || e.Validate() == nil != true {
			t.Errorf("%+v, %v", e.Version, e.Validate())
		}
		texts = append(texts, e.Version.Sortable())
	}
	if diff := cmp.Diff([]string{"=01ARZ3NDEKTSV4RRFFQ69G5FAV", "=01BX5ZZKBKACTAV9WEVGEMMVRZ", "=0000012", "=0000012-rc"}, texts); diff != "" {
		t.Error(diff)
	}
	for rev, want := range map[string]string{
		`12`:   provider.WrongType, // a number does not sort as its text does
		`true`: provider.WrongType, `["a"]`: provider.WrongType, `null`: provider.MissingField, `""`: provider.MissingField,
		`"a b"`: provider.BadVersion, `"é"`: provider.BadVersion, `"a\n"`: provider.BadVersion, `"` + strings.Repeat("a", 65) + `"`: provider.BadVersion,
	} {
		_, err := pointer.Event(body(rev), received)
		if bad, ok := errors.AsType[*provider.Unusable](err); !ok || bad.Reason != want {
			t.Errorf("%s: %v, want %s", rev, err, want)
		}
	}
	cfg.Event.Version = &provider.VersionConfig{From: "header:X-Rev", Kind: "monotonic", As: "text",
		Rank: &provider.RankConfig{From: "/state", Order: []string{"open", "paid"}}}
	r := request(`{"type":"t","state":"paid","order":{"id":1}}`, "X-Event-Id: i", "X-Rev: 0007")
	if e, err := compile(t, cfg).Event(r, received); err != nil || e.Version.Sortable() != "=0007 +00002" {
		t.Errorf("%+v %v", e, err)
	}
}

// FuzzExpression: no text compiles to something that panics, and no body makes an expression give what cannot be stored
// or a reason that is not of the list.
func FuzzExpression(f *testing.F) {
	for _, expression := range []string{"body.order.rev * 10 + body.order.minor", "body", "body.a.map(x, string(x))[0]", "header['x-event-id']", "form.a",
		"has(body.x) ? body.x : 'none'", "timestamp(body.a)", "[1, 2u, 3.0].exists(x, x == body.a)", "body.s.matches(body.a)", "type(body.a)", "{'a': body}['a']",
		"duration('1s') + timestamp(0)", "b'a' + bytes(body.s)", "'\\u0000'", "'\\xff'", "size(body)", "-body.a", "body.?a", "dyn(null)", "string(body.big)"} {
		f.Add(expression, []byte(`{"a":[1,18446744073709551616,1e999],"s":"é","order":{"rev":1,"minor":2},"big":-99999999999999999999}`))
	}
	f.Fuzz(func(t *testing.T, expression string, body []byte) {
		cfg := orders()
		cfg.Team, cfg.Name, cfg.Secrets = "acme", "in", []schemas.Secret{schemas.NewSecret(whsec)}
		from := "cel:" + expression
		cfg.Event = &provider.EventConfig{ID: from, Type: from, Entity: []string{from}, Deleted: &provider.DeletedConfig{From: from},
			Version: &provider.VersionConfig{From: from, Kind: "monotonic", As: []string{"", "text"}[len(expression)%2]}}
		s, err := provider.Compile(cfg)
		if err != nil {
			if _, ok := errors.AsType[*provider.KeyError](err); !ok {
				t.Fatalf("%v names no key", err)
			}
			return
		}
		e, err := s.Event(request(string(body), "X-Event-Id: 1"), received)
		if err != nil {
			bad, ok := errors.AsType[*provider.Unusable](err)
			if !ok || !slices.Contains(provider.UnusableReasons(), bad.Reason) {
				t.Fatalf("%v is no reason of the list", err)
			}
			return
		}
		if err := e.Validate(); err != nil {
			t.Fatalf("%+v: %v", e, err)
		}
	})
}

func BenchmarkExpression(b *testing.B) {
	s := compile(b, expressed())
	r := request(`{"attempt":1,"kind":"order.paid","shop":"s","order":{"id":7,"rev":4,"minor":2},"lines":[{"done":true},{"done":true}]}`, "X-Event-Id: e")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Event(r, received); err != nil {
			b.Fatal(err)
		}
	}
}
