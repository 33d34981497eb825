package slack_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/sinks/api"
	"github.com/forebay-io/forebay/sinks/slack"
	"github.com/forebay-io/forebay/sinks/spec"
	"github.com/forebay-io/forebay/sinks/template"
	"github.com/forebay-io/forebay/stream/sink"
	"github.com/forebay-io/forebay/stream/sink/sinktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

const channel = "C0123456789"

func must(t testing.TB, url, token string, params map[string]any) *slack.Sink {
	t.Helper()
	set, err := template.NewSet(slack.Params(), params, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := slack.New(slack.Config{Token: schemas.NewSecret(token), BaseURL: url + "/api", Common: spec.Common{Params: set, AllowNetworks: loopback}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	return s
}

func simple() map[string]any { return map[string]any{"channel": channel, "text": "event {{event.id}}"} }

func serve(t *testing.T, h http.Handler) string {
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server.URL
}

func TestConformance(t *testing.T) {
	sinktest.Run(t, sinktest.Harness{
		Wait: api.LimitWait,
		Make: func(t testing.TB, d sinktest.Target) sink.Sink { return must(t, d.URL, d.Secret, simple()) },
		Key: func(_ *http.Request, body []byte) string {
			var m map[string]any
			_ = json.Unmarshal(body, &m)
			return actionOf(m)
		},
		Answer: func(int) string { return `{"ok":true,"ts":"1.0"}` },
		Lookup: func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != "/api/conversations.history" {
				return false
			}
			answer(w, map[string]any{"ok": true, "messages": []any{}})
			return true
		},
	})
}

func TestOnce(t *testing.T) {
	sinktest.Once(t, sinktest.Effect{
		Fake: func() sinktest.Fake { return newFake() },
		Late: func() sinktest.Fake {
			f := newFake()
			f.lag = sinktest.Lateness
			return f
		},
		Make:  func(t testing.TB, url string) sink.Sink { return must(t, url, token, simple()) },
		Calls: 2,
	})
}

func TestRetryFindsItsMessageInAThread(t *testing.T) {
	t.Parallel()
	f, a := newFake(), sinktest.Action(1)
	s := must(t, serve(t, f), token, map[string]any{"channel": channel, "text": "x", "thread_ts": "1503435956.000247"})
	for n := range 2 {
		a.Attempt, a.FirstAt = n+1, time.Now()
		if _, err := s.Do(t.Context(), a); err != nil || f.Done() != 1 || f.looks != n {
			t.Errorf("attempt %d: %v, %d messages after %d looks", n+1, err, f.Done(), f.looks)
		}
	}
}

// TestMarkdownOfEventsCallsNobody: in a markdown block, too, however it is made.
func TestMarkdownOfEventsCallsNobody(t *testing.T) {
	t.Parallel()
	a := sinktest.Action(1)
	a.Event.Data = []byte(`{"kind":"markdown","title":"<!channel> **a** & <@U0123456>"}`)
	const want = "&lt;!channel&gt; **a** &amp; &lt;@U0123456&gt;"
	for _, blocks := range []any{
		[]any{map[string]any{"type": "markdown", "text": "{{body.title}}"}}, []any{map[string]any{"type": "{{body.kind}}", "text": "{{body.title}}"}},
		"{{[{'type': 'markdown', 'text': body.title}]}}", "{{[{'type': body.kind, 'text': body.title}]}}", []any{"{{{'type': 'markdown', 'text': body.title}}}"},
	} {
		f := newFake()
		if _, err := must(t, serve(t, f), token, map[string]any{"channel": channel, "text": "x", "blocks": blocks}).Do(t.Context(), a); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]any{map[string]any{"type": "markdown", "text": want}}, f.messages[0]["blocks"]); diff != "" {
			t.Errorf("%v: %s", blocks, diff)
		}
	}
}

func TestMessage(t *testing.T) {
	t.Parallel()
	f := newFake()
	url := serve(t, f)
	s := must(t, url, token, map[string]any{
		"channel": "{{body.room}}", "text": "*{{body.title}}* <{{body.url}}|open>", "thread_ts": "{{has(body.ts) ? body.ts : null}}",
		"blocks": []any{
			map[string]any{"type": "section", "text": map[string]any{"type": "mrkdwn", "text": "{{body.title}} & more"}},
			map[string]any{"type": "header", "text": map[string]any{"type": "plain_text", "text": "{{body.title}}"}},
			map[string]any{"type": "actions", "elements": []any{map[string]any{"type": "button", "url": "{{body.url}}", "value": "{{body.n}}"}}},
		},
	})
	a := sinktest.Action(1)
	a.Event.Data = []byte(`{"room":"C0123456789","title":"<!channel> a & b","url":"https://x/?a=1&b=2","n":7}`)
	out, err := s.Do(t.Context(), a)
	if err != nil || out.Code != 200 || !strings.Contains(string(out.Response), `"ok":true`) {
		t.Fatalf("%+v, %v", out, err)
	}
	if _, err := must(t, url, token, map[string]any{
		"channel": channel, "text": "x", "blocks": "{{[{'type': 'section', 'text': {'type': 'mrkdwn', 'text': body.title}}]}}",
	}).Do(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	if text, _ := json.Marshal(f.messages[1]["blocks"]); strings.Contains(string(text), "<!channel>") || !strings.Contains(string(text), "lt;!channel") {
		t.Errorf("blocks that an expression makes are not escaped: %s", text)
	}
	got := f.messages[0]
	delete(got, "ts")
	want := map[string]any{
		"channel": channel, "text": "*&lt;!channel&gt; a &amp; b* <https://x/?a=1&amp;b=2|open>",
		"blocks": []any{
			map[string]any{"type": "section", "text": map[string]any{"type": "mrkdwn", "text": "&lt;!channel&gt; a &amp; b & more"}},
			map[string]any{"type": "header", "text": map[string]any{"type": "plain_text", "text": "<!channel> a & b"}},
			map[string]any{"type": "actions", "elements": []any{map[string]any{"type": "button", "url": "https://x/?a=1&b=2", "value": 7.0}}},
		},
		"metadata": map[string]any{"event_type": "forebay", "event_payload": map[string]any{"action_id": string(a.ID)}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if f.looks != 0 {
		t.Errorf("a first attempt looked %d times", f.looks)
	}
}

// TestTextsOfBlocksFit: Slack takes fewer characters of some texts than of others, and refuses the message for one more.
func TestTextsOfBlocksFit(t *testing.T) {
	t.Parallel()
	a := sinktest.Action(1)
	a.Event.Data = []byte(`{"title":"` + strings.Repeat("ü", 5000) + `"}`)
	const text = `{"type":"plain_text","text":"{{body.title}}"}`
	var blocks []any
	if err := json.Unmarshal([]byte(`[{"type":"header","text":`+text+`},{"type":"section","text":`+text+`,"fields":[`+text+`],"accessory":
		{"type":"button","text":`+text+`}},{"type":"actions","elements":[{"type":"button","text":`+text+`}]},{"type":"divider"}]`), &blocks); err != nil {
		t.Fatal(err)
	}
	made := "{{[{'type': 'header', 'text': {'type': 'plain_text', 'text': body.title}}]}}"
	for want, blocks := range map[string]any{"150 3000 2000 75 75": blocks, "150": made} {
		f := newFake()
		if _, err := must(t, serve(t, f), token, map[string]any{"channel": channel, "text": "x", "blocks": blocks}).Do(t.Context(), a); err != nil {
			t.Fatal(err)
		}
		sent, _ := json.Marshal(f.messages[0]["blocks"])
		var got []string
		for _, key := range []string{"0.text", "1.text", "1.fields.0", "1.accessory.text", "2.elements.0.text"} {
			if text := at(f.messages[0]["blocks"], key+".text"); text != "" {
				got = append(got, fmt.Sprint(utf8.RuneCountInString(text)))
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("characters %v, want %s: %.300s", got, want, sent)
		}
	}
}

// at returns the text at a path in a JSON value; empty: there is none.
func at(v any, path string) string {
	for key := range strings.SplitSeq(path, ".") {
		switch in := v.(type) {
		case []any:
			n, _ := strconv.Atoi(key)
			if n >= len(in) {
				return ""
			}
			v = in[n]
		case map[string]any:
			v = in[key]
		}
	}
	s, _ := v.(string)
	return s
}

func TestRetryFindsItsMessageOnALaterPage(t *testing.T) {
	t.Parallel()
	f := newFake()
	f.size = 2
	a := sinktest.Action(1)
	s := must(t, serve(t, f), token, simple())
	if _, err := s.Do(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	for _, m := range []map[string]any{
		{"text": "no metadata"}, {"text": "another app's", "metadata": map[string]any{"event_type": "forebay", "event_payload": map[string]any{"action_id": 7}}},
		{"text": "another action's", "metadata": map[string]any{"event_type": "forebay", "event_payload": map[string]any{"action_id": "act_other"}}},
		{"text": "another type", "metadata": map[string]any{"event_type": "deploy", "event_payload": map[string]any{"action_id": string(a.ID)}}},
		{"text": "of a list", "metadata": map[string]any{"event_type": "list", "event_payload": []any{}}},
	} {
		m["channel"] = channel
		f.add(m)
	}
	a.Attempt, a.FirstAt = 2, time.Now()
	out, err := s.Do(t.Context(), a)
	if err != nil || out.Code != 200 || !strings.Contains(string(out.Response), "of an earlier attempt is there") || f.Done() != 1 || f.looks != 3 {
		t.Errorf("%+v, %v: %d messages after %d looks", out, err, f.Done(), f.looks)
	}
}

// A message from before the first attempt is not looked for; a doubt goes back to when the event was taken in.
func TestLookIsBounded(t *testing.T) {
	t.Parallel()
	f := newFake()
	a := sinktest.Action(1)
	a.Event.RecordedTime = time.Now().Add(-time.Hour)
	f.add(map[string]any{"channel": channel, "ts": fmt.Sprintf("%d.000001", time.Now().Add(-30*time.Minute).Unix()),
		"metadata": map[string]any{"event_type": "forebay", "event_payload": map[string]any{"action_id": string(a.ID)}}})
	s := must(t, serve(t, f), token, simple())
	a.Doubt = true
	if _, err := s.Do(t.Context(), a); err != nil || f.Done() != 1 {
		t.Errorf("in doubt: %v, %d messages", err, f.Done())
	}
	a.Doubt, a.Attempt, a.FirstAt = false, 2, time.Now()
	if _, err := s.Do(t.Context(), a); err != nil || f.Done() != 2 {
		t.Errorf("since the first attempt: %v, %d messages", err, f.Done())
	}
}

// What was said after the last attempt that may have posted is not looked through, and is no reason to give up.
func TestLookEndsWithTheDoubt(t *testing.T) {
	t.Parallel()
	ago := func(d time.Duration) string { return fmt.Sprintf("%d.000001", time.Now().Add(-d).Unix()) }
	for _, ours := range []bool{true, false} {
		f := newFake()
		f.size = 1
		a := sinktest.Action(1)
		a.Event.RecordedTime, a.Doubt, a.DoubtEnd = time.Now().Add(-2*time.Hour), true, time.Now().Add(-time.Hour)
		if ours {
			f.add(map[string]any{"channel": channel, "ts": ago(61 * time.Minute), "metadata": map[string]any{"event_type": "forebay", "event_payload": map[string]any{"action_id": string(a.ID)}}})
		}
		for range 20 {
			f.add(map[string]any{"channel": channel, "ts": ago(time.Minute)})
		}
		if _, err := must(t, serve(t, f), token, simple()).Do(t.Context(), a); err != nil || f.Done() != 1 || f.looks != 1 {
			t.Errorf("posted before %v: %v, %d messages after %d looks", ours, err, f.Done(), f.looks)
		}
	}
}

// Where it cannot be told whether an earlier attempt has posted, nothing is posted, unless an operator knows that it may be twice.
func TestLookThatTellsNothing(t *testing.T) {
	t.Parallel()
	crowd := newFake()
	crowd.size = 1
	for range 11 {
		crowd.add(map[string]any{"channel": channel})
	}
	noScope := newFake()
	noScope.errors["conversations.history"] = "missing_scope"
	away := newFake()
	away.errors["conversations.history"] = "internal_error"
	for name, tt := range map[string]struct {
		f     *fake
		class sink.Class
		want  string
	}{
		"crowd":    {crowd, sink.ClassRejected, "look there, then `dlq resolve` the action, or `dlq replay --outcome-unknown` it"},
		"no scope": {noScope, sink.ClassDenied, "conversations.history: missing_scope (the token needs the scope channels:history)"},
		"away":     {away, sink.ClassBusy, "internal_error"},
	} {
		a := sinktest.Action(1)
		a.Attempt = 2
		a.FirstAt = time.Now()
		_, err := must(t, serve(t, tt.f), token, simple()).Do(t.Context(), a)
		if sink.ClassOf(err) != tt.class || !strings.Contains(err.Error(), tt.want) || !sink.Untouched(err) || tt.f.Done() != 0 {
			t.Errorf("%s: %v, %d messages", name, err, tt.f.Done())
		}
		a.Twice = true
		want := 1
		if tt.class == sink.ClassBusy { // the post would fail as well
			want = 0
		}
		_, err = must(t, serve(t, tt.f), token, simple()).Do(t.Context(), a)
		if (err == nil) != (want == 1) || tt.f.Done() != want {
			t.Errorf("%s, twice: %v, %d messages", name, err, tt.f.Done())
		}
	}
}

// An operator who knows that it may be done twice has it done once all the same, where a look can tell.
func TestTwiceLooksAllTheSame(t *testing.T) {
	t.Parallel()
	f := newFake()
	s := must(t, serve(t, f), token, simple())
	a := sinktest.Action(1)
	for n := range 2 {
		if n > 0 {
			a.Attempt, a.FirstAt, a.Twice = 2, time.Now(), true
		}
		if _, err := s.Do(t.Context(), a); err != nil || f.Done() != 1 {
			t.Errorf("%v, %d messages", err, f.Done())
		}
	}
}

func TestErrorsOfTheAPI(t *testing.T) {
	t.Parallel()
	f := newFake()
	s := must(t, serve(t, f), token, simple())
	for name, class := range map[string]sink.Class{
		"ratelimited": sink.ClassThrottled, "rate_limited": sink.ClassThrottled, "message_limit_exceeded": sink.ClassThrottled,
		"invalid_auth": sink.ClassDenied, "token_revoked": sink.ClassDenied, "account_inactive": sink.ClassDenied, "missing_scope": sink.ClassDenied,
		"channel_not_found": sink.ClassRejected, "not_in_channel": sink.ClassRejected, "is_archived": sink.ClassRejected, "msg_too_long": sink.ClassRejected,
		"invalid_blocks": sink.ClassRejected, "no_text": sink.ClassRejected, "something_new": sink.ClassRejected,
		"internal_error": sink.ClassBusy, "fatal_error": sink.ClassBusy, "service_unavailable": sink.ClassBusy,
	} {
		f.errors["chat.postMessage"] = name
		out, err := s.Do(t.Context(), sinktest.Action(1))
		if sink.ClassOf(err) != class || out.Code != 200 || !strings.Contains(err.Error(), "chat.postMessage: "+name) {
			t.Errorf("%s: %+v, %v, want class %s", name, out, err, class)
		}
	}
}

// A limit holds the destination, with whatever status and in whatever form Slack tells of it (docs.slack.dev/apis/web-api/rate-limits,
// docs.slack.dev/reference/methods/chat.postMessage).
func TestRateLimitHoldsTheDestination(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		code       int
		after, say string
		want       time.Duration
	}{
		{200, "30", `{"ok":false,"error":"ratelimited"}`, 30 * time.Second},
		{200, "", `{"ok":false,"error":"ratelimited"}`, time.Minute},
		{200, "", `{"ok":false,"error":"rate_limited"}`, time.Minute},
		{200, "", `{"ok":false,"error":"message_limit_exceeded"}`, time.Minute},
		{429, "30", `{"ok":false,"error":"ratelimited"}`, 30 * time.Second},
		{429, "", "", time.Minute},
	} {
		posts := 0
		url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				posts++
			}
			if tt.after != "" {
				w.Header().Set("Retry-After", tt.after)
			}
			w.WriteHeader(tt.code)
			_, _ = w.Write([]byte(tt.say))
		}))
		look := sinktest.Action(1)
		look.Attempt, look.FirstAt = 2, time.Now()
		for _, a := range []sink.Action{sinktest.Action(1), look} {
			out, err := must(t, url, token, simple()).Do(t.Context(), a)
			if class := sink.ClassOf(err); class != sink.ClassThrottled || out.RetryAfter != tt.want || !sink.Holds(class, out.Code) {
				t.Errorf("%d %s, attempt %d: %+v, %v", tt.code, tt.say, a.Attempt, out, err)
			}
		}
		if posts != 1 {
			t.Errorf("%d %s: a look that was refused posts: %d", tt.code, tt.say, posts)
		}
	}
}

func TestAnswersThatAreNotSlacks(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		"<html>login</html>": "cannot be read to its end: invalid character", "{}": "something that is not Slack's", "[]": "the answer has another shape", `{"ok":"yes"}`: "cannot unmarshal",
		"{": "cannot be read to its end",
	} {
		url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) }))
		_, err := must(t, url, token, simple()).Do(t.Context(), sinktest.Action(1))
		if sink.ClassOf(err) != sink.ClassBusy || !strings.Contains(err.Error(), want) {
			t.Errorf("%.20q: %v", body, err)
		}
	}
}

func TestTemplatesThatFail(t *testing.T) {
	t.Parallel()
	f := newFake()
	url := serve(t, f)
	for want, params := range map[string]map[string]any{
		"params.text {{body.nope}} fails":                                {"channel": channel, "text": "{{body.nope}}"},
		"params.channel is not the id of a channel, such as C0123456789": {"channel": "{{'#general'}}", "text": "x"},
		"params.thread_ts is not the timestamp of a message":             {"channel": channel, "text": "x", "thread_ts": "{{'soon'}}"},
		"params.channel is null, empty or not given":                     {"text": "x"},
	} {
		_, err := must(t, url, token, params).Do(t.Context(), sinktest.Action(1))
		if sink.ClassOf(err) != sink.ClassTemplate || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", params, err)
		}
	}
	if len(f.messages) != 0 {
		t.Errorf("%d messages were posted", len(f.messages))
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	set, err := template.NewSet(slack.Params(), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, cfg := range map[string]slack.Config{
		"no token":     {Common: spec.Common{Params: set}},
		"no params":    {Token: schemas.NewSecret(token)},
		"plain http":   {Token: schemas.NewSecret(token), Common: spec.Common{Params: set}, BaseURL: "http://10.0.0.1"},
		"no URL":       {Token: schemas.NewSecret(token), Common: spec.Common{Params: set}, BaseURL: "::"},
		"with a query": {Token: schemas.NewSecret(token), Common: spec.Common{Params: set}, BaseURL: "https://slack.com/api?x=1"},
	} {
		if s, err := slack.New(cfg); err == nil || schemas.KindOf(err) != schemas.Invalid || strings.Contains(err.Error(), token) {
			t.Errorf("%s: %v, %v", name, s, err)
		}
	}
}

// TestEndsChangeTheirMessage: the one that the answer named or, where that is not known, the one that is found; nothing is posted beside it.
func TestEndsChangeTheirMessage(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		posted, known, deleted bool
		thread                 string
		looks                  int
	}{
		"known": {posted: true, known: true}, "found": {posted: true, looks: 1}, "found in a thread": {posted: true, looks: 1, thread: "1503435956.000247"},
		"in a thread": {posted: true, known: true, thread: "1503435956.000247"}, "there is none": {looks: 1}, "deleted": {posted: true, known: true, deleted: true},
	} {
		f, a := newFake(), sinktest.Action(1)
		params := map[string]any{"channel": channel, "text": "{{body.text}}"}
		if c.thread != "" {
			params["thread_ts"] = c.thread
		}
		s := must(t, serve(t, f), token, params)
		a.Event.Data = []byte(`{"text":"asked"}`)
		a.FirstAt = time.Now()
		if c.posted {
			out, err := s.Do(t.Context(), a)
			if err != nil || out.Made == "" {
				t.Fatalf("%s: %+v %v", name, out, err)
			}
			if c.known {
				a.Made = out.Made
			}
		}
		if c.deleted {
			f.messages = nil
		}
		a.Amends, a.ID, a.Attempt = a.ID, "act_end", 2
		a.Event.Data = []byte(`{"text":"ended"}`)
		for range 2 {
			if _, err := s.Do(t.Context(), a); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		if want := c.posted && !c.deleted; f.Done() != len(f.messages) || (len(f.messages) == 1) != want || want && f.messages[0]["text"] != "ended" || f.looks != 2*c.looks {
			t.Errorf("%s: %v after %d looks", name, f.messages, f.looks)
		}
	}
	f, a := newFake(), sinktest.Action(1)
	a.Amends, a.Made = a.ID, channel+"/1.2"
	f.errors["chat.update"] = "edit_window_closed"
	if _, err := must(t, serve(t, f), token, simple()).Do(t.Context(), a); sink.ClassOf(err) != sink.ClassRejected {
		t.Errorf("what nobody may edit: %v", err)
	}
}
