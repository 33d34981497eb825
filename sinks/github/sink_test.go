package github_test

import (
	"context"
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/sinks/api"
	"github.com/forebay-io/forebay/sinks/github"
	"github.com/forebay-io/forebay/sinks/spec"
	"github.com/forebay-io/forebay/sinks/template"
	"github.com/forebay-io/forebay/stream/sink"
	"github.com/forebay-io/forebay/stream/sink/sinktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var loopback = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}

// does is a destination for each thing that one can do.
var does = map[github.Do]map[string]any{
	github.Issue:    {"repo": repo, "title": "event {{event.id}}", "body": "of {{event.entity}}", "labels": []any{"bug"}, "assignees": []any{"octocat"}},
	github.Comment:  {"repo": repo, "issue": 7, "body": "event {{event.id}}"},
	github.Labels:   {"repo": repo, "issue": "{{7}}", "labels": []any{"triage"}},
	github.Dispatch: {"repo": repo, "event_type": "forebay", "client_payload": map[string]any{"id": "{{event.id}}"}},
}

func must(t testing.TB, url, token string, do github.Do, params map[string]any) *github.Sink {
	t.Helper()
	set, err := template.NewSet(github.Params(do), params, nil)
	if err != nil {
		t.Fatal(err)
	}
	s, err := github.New(github.Config{Token: schemas.NewSecret(token), Do: do, BaseURL: url + "/api/v3/", Common: spec.Common{Params: set, AllowNetworks: loopback}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	return s
}

func serve(t *testing.T, h http.Handler) string {
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	return server.URL
}

func TestConformance(t *testing.T) {
	for do, params := range does {
		t.Run(string(do), func(t *testing.T) {
			sinktest.Run(t, sinktest.Harness{
				Wait: api.LimitWait, Answer: func(int) string { return `{"status":"success"}` },
				Make: func(t testing.TB, d sinktest.Target) sink.Sink { return must(t, d.URL, d.Secret, do, params) },
				Key: func(r *http.Request, body []byte) string {
					id := r.Header.Get("Idempotency-Key")
					if do != github.Labels && !strings.Contains(string(body), id) {
						return "" // what it is known by at GitHub
					}
					return id
				},
				Lookup: func(w http.ResponseWriter, r *http.Request) bool {
					if r.Method != http.MethodGet {
						return false
					}
					answer(w, 200, []any{})
					return true
				},
			})
		})
	}
}

func TestOnce(t *testing.T) {
	for do, params := range does {
		t.Run(string(do), func(t *testing.T) {
			e := sinktest.Effect{
				Fake: func() sinktest.Fake { return &fake{} }, Calls: 1,
				Make: func(t testing.TB, url string) sink.Sink { return must(t, url, token, do, params) },
			}
			if do == github.Issue || do == github.Comment { // which look
				e.Calls, e.Late = 2, func() sinktest.Fake { return &fake{lag: sinktest.Lateness} }
			}
			sinktest.Once(t, e)
		})
	}
}

func TestIdempotencyByWhatIsDone(t *testing.T) {
	t.Parallel()
	for do, want := range map[github.Do]sink.Idempotency{
		github.Issue: sink.Idempotent, github.Comment: sink.Idempotent, github.Labels: sink.Idempotent, github.Dispatch: sink.Unsafe,
	} {
		if got := must(t, "https://github.example", token, do, does[do]).Idempotency(); got != want {
			t.Errorf("%s is %s, want %s", do, got, want)
		}
	}
}

func TestWhatIsSent(t *testing.T) {
	t.Parallel()
	f := &fake{}
	url := serve(t, f)
	a := sinktest.Action(1)
	for _, do := range []github.Do{github.Issue, github.Comment, github.Labels, github.Dispatch} {
		if out, err := must(t, url, token, do, does[do]).Do(t.Context(), a); err != nil || out.Code/100 != 2 {
			t.Fatalf("%s: %+v, %v", do, out, err)
		}
	}
	mark := "\n\n<!-- forebay:" + string(a.ID) + " -->"
	if got := f.issues[0]; got.Title != "event delivery-1" || *got.Body != "of orders/7"+mark || cmp.Diff([]string{"bug", "octocat"}, got.Labels) != "" {
		t.Errorf("issue: %+v, %s", got, *got.Body)
	}
	if got := *f.comments[0].Body; got != "event delivery-1"+mark {
		t.Errorf("comment: %s", got)
	}
	want := []map[string]any{{"event_type": "forebay", "client_payload": map[string]any{"id": "delivery-1", "forebay": map[string]any{"action_id": string(a.ID), "attempt": 1.0}}}}
	if diff := cmp.Diff(want, f.dispatches); diff != "" {
		t.Error(diff)
	}
	calls := []string{"POST /api/v3/repos/octo-org/hello/issues", "POST /api/v3/repos/octo-org/hello/issues/7/comments", "POST /api/v3/repos/octo-org/hello/issues/7/labels", "POST /api/v3/repos/octo-org/hello/dispatches"}
	if diff := cmp.Diff(calls, f.calls); diff != "" {
		t.Errorf("a first attempt does not look: %s", diff)
	}
	for name, want := range map[string]string{"Accept": "application/vnd.github+json", "X-Github-Api-Version": "2022-11-28", "User-Agent": "Forebay/dev", "Content-Type": "application/json; charset=utf-8"} {
		if got := f.headers.Get(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

func TestNoLabelsNoCall(t *testing.T) {
	t.Parallel()
	f := &fake{}
	s := must(t, serve(t, f), token, github.Labels, map[string]any{"repo": repo, "issue": 7, "labels": "{{body.labels}}"})
	a := sinktest.Action(1)
	a.Event.Data = []byte(`{"labels":[]}`)
	if out, err := s.Do(t.Context(), a); err != nil || len(f.calls) != 0 {
		t.Errorf("%+v, %v, %v", out, err, f.calls)
	}
}

// The look goes through pages, past what only mentions the marker, and no further back than the first attempt.
func TestRetryFindsItsOwn(t *testing.T) {
	t.Parallel()
	for _, do := range []github.Do{github.Issue, github.Comment} {
		f := &fake{page: 2}
		s := must(t, serve(t, f), token, do, does[do])
		a := sinktest.Action(1)
		list := &f.issues
		if do == github.Comment {
			list = &f.comments
		}
		now := time.Now().UTC()
		mark := "<!-- forebay:" + string(a.ID) + " -->"
		f.put(list, "quoted", "they wrote: "+mark+" and more", now)
		f.put(list, "replied", "> x\n> \n> "+mark+"\n\nSo they wrote.", now)
		f.put(list, "another's", "x\n\n<!-- forebay:act_other -->", now)
		if _, err := s.Do(t.Context(), a); err != nil {
			t.Fatal(err)
		}
		mine := (*list)[len(*list)-1] // a bot has been at it
		mine.Body = new(*mine.Body + "\r\n\n---\nTriaged by a bot.\n")
		f.put(list, "later", "", now)
		(*list)[len(*list)-1].Body = nil
		before := len(*list)
		a.Attempt, a.FirstAt = 2, now
		out, err := s.Do(t.Context(), a)
		if err != nil || out.Code != 200 || !strings.Contains(string(out.Response), "/issues/4 of an earlier attempt is there") || len(*list) != before {
			t.Errorf("%s: %+v %s, %v: %d, want %d", do, out, out.Response, err, len(*list), before)
		}
		a.FirstAt = now.Add(time.Hour) // what is there is from before
		if _, err := s.Do(t.Context(), a); err != nil || len(*list) != before+1 {
			t.Errorf("%s, from before the first attempt: %v, %d", do, err, len(*list))
		}
	}
}

// Issues that are only changed since the first attempt are older: they end the look.
func TestLookEndsAtOlderIssues(t *testing.T) {
	t.Parallel()
	f := &fake{page: 1}
	for i := range 30 {
		f.put(&f.issues, "old", "", time.Now().Add(-24*time.Hour))
		f.issues[i].Updated = time.Now()
	}
	a := sinktest.Action(1)
	a.Attempt, a.FirstAt = 2, time.Now()
	if _, err := must(t, serve(t, f), token, github.Issue, does[github.Issue]).Do(t.Context(), a); err != nil || len(f.calls) != 2 {
		t.Errorf("%v after %v", err, f.calls)
	}
}

// Comments made after the last attempt that may have made one end the look.
func TestLookEndsWithTheDoubt(t *testing.T) {
	t.Parallel()
	f := &fake{page: 1}
	for range 30 {
		f.put(&f.comments, "", "x", time.Now())
	}
	a := sinktest.Action(1)
	a.Event.RecordedTime, a.Doubt, a.DoubtEnd = time.Now().Add(-2*time.Hour), true, time.Now().Add(-time.Hour)
	if _, err := must(t, serve(t, f), token, github.Comment, does[github.Comment]).Do(t.Context(), a); err != nil || len(f.calls) != 2 || f.Done() != 1 {
		t.Errorf("%v after %v", err, f.calls)
	}
}

func TestLookThatTellsNothing(t *testing.T) {
	t.Parallel()
	f := &fake{page: 1}
	for range 21 {
		f.put(&f.comments, "", "x", time.Now())
	}
	a := sinktest.Action(1)
	a.Attempt, a.FirstAt = 2, time.Now()
	s := must(t, serve(t, f), token, github.Comment, does[github.Comment])
	_, err := s.Do(t.Context(), a)
	if sink.ClassOf(err) != sink.ClassRejected || !sink.Untouched(err) || !strings.Contains(err.Error(), "whether an earlier attempt has made its comment cannot be told") || f.Done() != 0 {
		t.Errorf("%v, %d", err, f.Done())
	}
	again := a
	again.Twice = true
	if _, err := s.Do(t.Context(), again); err != nil || f.Done() != 1 {
		t.Errorf("twice: %v, %d", err, f.Done())
	}
	for body, want := range map[string]string{"{}": "cannot be read"} {
		url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodGet {
				t.Error("it acted")
			}
			_, _ = w.Write([]byte(body))
		}))
		_, err := must(t, url, token, github.Comment, does[github.Comment]).Do(t.Context(), a)
		if sink.ClassOf(err) != sink.ClassBusy || !sink.Untouched(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.9q: %v", body, err)
		}
	}
}

func TestRateLimits(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	set, err := template.NewSet(github.Params(github.Labels), does[github.Labels], nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name    string
		code    int
		headers map[string]string
		body    string
		class   sink.Class
		wait    time.Duration
	}{
		{"secondary", 403, map[string]string{"Retry-After": "30", "X-RateLimit-Remaining": "4000"}, "", sink.ClassThrottled, 30 * time.Second},
		{"secondary, 429", 429, map[string]string{"Retry-After": "30"}, "", sink.ClassThrottled, 30 * time.Second},
		{"primary", 403, map[string]string{"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": fmt.Sprint(now.Unix() + 1740)}, "", sink.ClassThrottled, 29 * time.Minute},
		{"primary, 429", 429, map[string]string{"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": fmt.Sprint(now.Unix() + 1740)}, "", sink.ClassThrottled, 29 * time.Minute},
		{"primary, over", 403, map[string]string{"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": fmt.Sprint(now.Unix() - 5)}, "", sink.ClassThrottled, 0},
		{"primary without an end", 403, map[string]string{"X-RateLimit-Remaining": "0"}, "", sink.ClassThrottled, time.Minute},
		{"secondary without headers", 403, nil, `{"documentation_url":"https://docs.github.com/rest/using-the-rest-api/rate-limits-for-the-rest-api#about-secondary-rate-limits"}`, sink.ClassThrottled, time.Minute},
		{"429 without anything", 429, nil, "", sink.ClassThrottled, time.Minute},
		// Bodies as GitHub has sent them; what they mean says docs.github.com/rest/using-the-rest-api/troubleshooting-the-rest-api.
		{"secondary, by its message", 403, map[string]string{"X-RateLimit-Remaining": "4456"}, `{"message":"You have exceeded a secondary rate limit. Please wait a few minutes before you try again."}`, sink.ClassThrottled, time.Minute},
		{"secondary, 429, by its message", 429, map[string]string{"X-RateLimit-Remaining": "4456"}, `{"message":"You have exceeded a secondary rate limit and have been temporarily blocked from content creation. Please retry your request again later.","documentation_url":"https://docs.github.com/rest/overview/resources-in-the-rest-api#secondary-rate-limits"}`, sink.ClassThrottled, time.Minute},
		{"secondary, of the old name", 403, nil, `{"message":"You have triggered an abuse detection mechanism. Please wait a few minutes before you try again."}`, sink.ClassThrottled, time.Minute},
		{"primary, without its headers", 403, nil, `{"message":"API rate limit exceeded for installation ID 1.","documentation_url":"https://docs.github.com/rest/overview/resources-in-the-rest-api#rate-limiting"}`, sink.ClassThrottled, time.Minute},
		{"content too quickly", 422, map[string]string{"X-RateLimit-Remaining": "4456"}, `{"message":"Validation Failed","errors":[{"resource":"IssueComment","code":"custom","field":"body","message":"was submitted too quickly"}],"documentation_url":"https://docs.github.com/rest/issues/comments#create-an-issue-comment"}`, sink.ClassThrottled, time.Minute},
		{"content too quickly, with a wait", 422, map[string]string{"Retry-After": "90"}, `{"message":"Validation Failed","errors":[{"resource":"Issue","code":"custom","field":"base","message":"was submitted too quickly"}]}`, sink.ClassThrottled, 90 * time.Second},
		{"content too quickly, by its code", 422, nil, `{"message":"Validation Failed","errors":[{"resource":"Issue","code":"abuse","field":"base"}]}`, sink.ClassThrottled, time.Minute},
		{"not valid, in words", 422, map[string]string{"X-RateLimit-Remaining": "4456"}, `{"message":"Validation Failed","errors":[{"resource":"Issue","code":"missing_field","field":"title"}],"documentation_url":"https://docs.github.com/rest/issues/issues#create-an-issue"}`, sink.ClassRejected, 0},
		{"not valid, as a text", 422, nil, `{"message":"Validation Failed","errors":["Base does not exist"]}`, sink.ClassRejected, 0},
		{"may not", 403, map[string]string{"X-RateLimit-Remaining": "4456"}, `{"message":"Resource not accessible by personal access token","documentation_url":"https://docs.github.com/rest/issues/comments#create-an-issue-comment"}`, sink.ClassDenied, 0},
		{"denied", 403, map[string]string{"X-RateLimit-Remaining": "4000"}, `{"documentation_url":"https://docs.github.com/rest/issues/labels"}`, sink.ClassDenied, 0},
		{"bad token", 401, map[string]string{"X-RateLimit-Remaining": "0"}, "", sink.ClassDenied, 0},
		{"not there", 404, nil, "", sink.ClassRejected, 0},
		{"gone", 410, nil, "", sink.ClassRejected, 0},
		{"not valid", 422, nil, "", sink.ClassRejected, 0},
		{"down", 502, nil, "", sink.ClassBusy, 0},
		{"a proxy's login page", 200, nil, "<!DOCTYPE html><title>Log in</title>", sink.ClassBusy, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			url := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				for name, value := range tt.headers {
					w.Header().Set(name, value)
				}
				w.WriteHeader(tt.code)
				_, _ = w.Write([]byte(tt.body))
			}))
			s, err := github.New(github.Config{Token: schemas.NewSecret(token), Do: github.Labels, BaseURL: url, Common: spec.Common{Params: set, AllowNetworks: loopback}, Now: func() time.Time { return now }})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close(t.Context())
			out, err := s.Do(t.Context(), sinktest.Action(1))
			class := sink.ClassOf(err)
			if class != tt.class || out.RetryAfter != tt.wait || out.Code != tt.code {
				t.Errorf("%+v, %v, want %s after %v", out, err, tt.class, tt.wait)
			}
			if got := sink.Holds(class, out.Code); got != (tt.class == sink.ClassThrottled) && out.Code != 200 {
				t.Errorf("holds the destination: %v", got)
			}
		})
	}
}

// One issue that is gone says nothing of the others.
func TestIsNoEndpoint(t *testing.T) {
	t.Parallel()
	if _, ok := any(must(t, "https://github.example", token, github.Issue, does[github.Issue])).(sink.Endpoint); ok {
		t.Error("a 410 of one issue would pause the destination")
	}
}

func TestTemplatesThatFail(t *testing.T) {
	t.Parallel()
	f := &fake{}
	url := serve(t, f)
	for _, tt := range []struct {
		do     github.Do
		params map[string]any
		want   string
	}{
		{github.Comment, map[string]any{"repo": "{{'../../user'}}", "issue": 7, "body": "x"}, "params.repo is not the owner and name"},
		{github.Comment, map[string]any{"repo": "{{'a/..'}}", "issue": 7, "body": "x"}, "leads elsewhere"},
		{github.Comment, map[string]any{"repo": repo, "issue": "{{'7/labels'}}", "body": "x"}, "params.issue is not the number"},
		{github.Comment, map[string]any{"repo": repo, "issue": "{{-7}}", "body": "x"}, "params.issue is not the number"},
		{github.Comment, map[string]any{"repo": repo, "issue": 7, "body": "{{body.nope}}"}, "params.body {{body.nope}} fails"},
		{github.Dispatch, map[string]any{"repo": repo, "event_type": "x", "client_payload": "{{body.rev}}"}, "params.client_payload is not an object"},
		{github.Dispatch, map[string]any{"repo": repo, "event_type": "x", "client_payload": map[string]any{"forebay": 1}}, "has a key forebay"},
	} {
		_, err := must(t, url, token, tt.do, tt.params).Do(t.Context(), sinktest.Action(1))
		if sink.ClassOf(err) != sink.ClassTemplate || !sink.Untouched(err) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v: %v", tt.params, err)
		}
	}
	if len(f.calls) != 0 {
		t.Errorf("called: %v", f.calls)
	}
}

// The owner of a repository may be an Enterprise Managed User, whose login ends with the enterprise's short code.
func TestOwners(t *testing.T) {
	t.Parallel()
	f := &fake{}
	url := serve(t, f)
	for _, repo := range []string{"octo-org/hello", "octo_acme/hello"} {
		params := map[string]any{"repo": repo, "issue": 7, "labels": []any{"triage"}}
		_, _ = must(t, url, token, github.Labels, params).Do(t.Context(), sinktest.Action(1)) // the fake has the first one alone
		if call := f.calls[len(f.calls)-1]; call != "POST /api/v3/repos/"+repo+"/issues/7/labels" {
			t.Errorf("%s: %s", repo, call)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	set, err := template.NewSet(nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, cfg := range map[string]github.Config{
		"no token":   {Do: github.Issue, Common: spec.Common{Params: set}},
		"no params":  {Do: github.Issue, Token: schemas.NewSecret(token)},
		"nothing":    {Common: spec.Common{Params: set}, Token: schemas.NewSecret(token)},
		"no such do": {Do: "merge", Common: spec.Common{Params: set}, Token: schemas.NewSecret(token)},
		"plain http": {Do: github.Issue, Common: spec.Common{Params: set}, Token: schemas.NewSecret(token), BaseURL: "http://10.0.0.1"},
	} {
		if s, err := github.New(cfg); err == nil || schemas.KindOf(err) != schemas.Invalid || strings.Contains(err.Error(), token) {
			t.Errorf("%s: %v, %v", name, s, err)
		}
	}
	names := map[string]bool{}
	for _, p := range github.Params("merge") {
		if names[p.Name] || p.Required {
			t.Errorf("where it is not known what is done, %s is required or there twice", p.Name)
		}
		names[p.Name] = true
	}
	if !names["title"] || !names["client_payload"] {
		t.Errorf("where it is not known what is done, there are only %v", names)
	}
}

// textsBecome has a comment and an issue say what an event says, behind lead, where | stands for a space of no width.
func textsBecome(t *testing.T, lead string, texts map[string]string) {
	t.Helper()
	f := &fake{}
	url := serve(t, f)
	comment := must(t, url, token, github.Comment, map[string]any{"repo": repo, "issue": "7", "body": lead + "{{body.text}}"})
	issue := must(t, url, token, github.Issue, map[string]any{"repo": repo, "title": "t", "body": lead + "{{body.text}}"})
	for text, want := range texts {
		a := sinktest.Action(1)
		data, err := json.Marshal(map[string]string{"text": text})
		if err != nil {
			t.Fatal(err)
		}
		a.Event.Data = data
		for _, s := range []*github.Sink{comment, issue} {
			if _, err := s.Do(t.Context(), a); err != nil {
				t.Fatal(err)
			}
		}
		for _, made := range []thing{f.issues[len(f.issues)-1], f.comments[len(f.comments)-1]} {
			if got, _, _ := strings.Cut(*made.Body, "\n\n<!-- forebay"); got != lead+strings.ReplaceAll(want, "|", "\u200b") {
				t.Errorf("%q became %q, want %q", text, got, want)
			}
		}
	}
}

// TestMentionsOfEventsCallNobody: what an event brings into a text mentions nobody, what the template says does.
func TestMentionsOfEventsCallNobody(t *testing.T) {
	t.Parallel()
	textsBecome(t, "@team says: ", map[string]string{
		"@octocat": "@|octocat", "cc @octo-org/all, (@x) and\n@y": "cc @|octo-org/all, (@|x) and\n@|y", "user@example.com": "user@example.com",
		"a @ b": "a @ b", "ends with @": "ends with @|", "@@x": "@|@|x", "": "", "`@x`": "`@|x`", "\xff@x": "\ufffd@|x",
		// GitHub's \W is ASCII's, and the underscores of an emphasis are gone when it looks.
		"\u00fc@x": "\u00fc@|x", "_@x_": "_@|x_", "a_b@example.com": "a_b@example.com",
		// References to characters; raw HTML takes some without their semicolon.
		"&#64;x": "&#64;|x", "&#0064;x": "&#0064;|x", "&#x40;x": "&#x40;|x", "&#X0040;x": "&#X0040;|x", "&commat;x": "&commat;|x", "u&#64;example.com": "u&#64;example.com",
		"<p>&#64x</p>": "<p>&#64|x</p>", "<p>&#x40x</p>": "<p>&#x40|x</p>", "<p>&#32@x, &nbsp@x</p>": "<p>&#32@|x, &nbsp@|x</p>", "@&#120;": "@|&#120;",
		"&#640;x, &#x40a;x, &#65;x, &amp;#64;x": "&#640;x, &#x40a;x, &#65;x, &amp;#64;x",
		// The template may go on with the rest of one.
		"&": "&|", "&#": "&#|", "&#6": "&#6|", "&#64": "&#64|", "&#x4": "&#x4|", "&comm": "&comm|", "AT&T": "AT&T", "?a=1&t": "?a=1&t", "&comma": "&comma|", "&commat": "&commat|", "R&D @ home": "R&D @ home",
	})
}

// TestCommandsOfEventsRunNothing: an event's text begins no line with a /command, behind whatever a bot may trim; the template's own does.
func TestCommandsOfEventsRunNothing(t *testing.T) {
	t.Parallel()
	textsBecome(t, "/triage\n", map[string]string{
		"/deploy prod": "|/deploy prod", "hello\n/merge": "hello\n|/merge", "\r\n  \t/approve\r\n/lgtm": "\r\n  \t|/approve\r\n|/lgtm",
		"x\u2028/a\u0085/b\v/c\f/d": "x\u2028|/a\u0085|/b\v|/c\f|/d", "\u00a0\ufeff\u3000/merge": "\u00a0\ufeff\u3000|/merge", "\x1c\x1f/merge": "\x1c\x1f|/merge",
		"see src/main.go and a /path": "see src/main.go and a /path", "// a comment": "// a comment", "1/2\n/ 3": "1/2\n/ 3",
		"\n/@team": "\n/@|team",
	})
}

// FuzzMentions renders a text as far as a mention goes, and looks for one as GitHub does.
func FuzzMentions(f *testing.F) {
	for _, text := range []string{"cc @octocat", "a@b.c", "\u00fc@x", "_@x_", "&#0064;x", "&#x40x", "&commat;x", "&nbsp@x", "&#3@x", "@&#120;"} {
		f.Add(text)
	}
	params := github.Params(github.Comment)
	body := params[slices.IndexFunc(params, func(p template.Param) bool { return p.Name == "body" })]
	unmention := body.Escape(nil, body.Name)
	mention := regexp.MustCompile(`(?:^|[^0-9A-Za-z])@[0-9A-Za-z_]`)
	f.Fuzz(func(t *testing.T, text string) {
		got := unmention(text)
		if rendered := html.UnescapeString(got); mention.MatchString(rendered) {
			t.Errorf("%q became %q, which is rendered as %q", text, got, rendered)
		}
		if strings.ReplaceAll(got, "\u200b", "") != strings.ReplaceAll(text, "\u200b", "") {
			t.Errorf("%q became %q", text, got)
		}
	})
}

// TestLookGoesOnWhereItWas: a look that a rate limit cuts short goes on with its next page.
func TestLookGoesOnWhereItWas(t *testing.T) {
	t.Parallel()
	f := &fake{page: 2}
	for range 5 {
		f.put(&f.comments, "", "x", time.Now())
	}
	limited := false
	var pages []string
	s := must(t, serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			if limited = !limited; !limited {
				w.Header().Set("Retry-After", "60")
				w.WriteHeader(http.StatusForbidden)
				return
			}
			pages = append(pages, r.URL.Query().Get("page"))
		}
		f.ServeHTTP(w, r)
	})), token, github.Comment, does[github.Comment])
	a := sinktest.Action(1)
	a.Attempt, a.FirstAt = 2, time.Now()
	spent := 0
	a.Looks = func() { spent++ }
	for n := 1; ; n++ {
		_, err := s.Do(t.Context(), a)
		if err == nil {
			break
		}
		if sink.ClassOf(err) != sink.ClassThrottled || !sink.Untouched(err) || n > 5 {
			t.Fatal(err)
		}
		a.Attempt++
	}
	if strings.Join(pages, " ") != "1 2 3" || f.Done() != 1 || spent != 5 {
		t.Errorf("pages %v, %d comments, %d calls spent", pages, f.Done(), spent)
	}
}

// TestLookByAnotherClock: however far our clock is ahead of GitHub's, or behind, a look finds what was made; it asks once more for that.
func TestLookByAnotherClock(t *testing.T) {
	t.Parallel()
	for by, calls := range map[time.Duration]int{-time.Hour: 2, -6 * time.Minute: 2, 0: 1, 6 * time.Minute: 2, time.Hour: 2} {
		for _, do := range []github.Do{github.Issue, github.Comment} {
			f, a, theirs := &fake{page: 1}, sinktest.Action(1), time.Now().Add(by)
			a.Doubt, a.DoubtEnd, a.Event.RecordedTime = true, time.Now(), time.Now().Add(-time.Second)
			body := "x\n\n<!-- forebay:" + string(a.ID) + " -->"
			f.put(&f.comments, "", "somebody's", theirs)
			f.put(&f.comments, "", body, theirs)
			f.put(&f.issues, "", body, theirs)
			f.put(&f.issues, "", "somebody's", theirs)
			s := must(t, serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Date", theirs.UTC().Format(http.TimeFormat))
				f.ServeHTTP(w, r)
			})), token, do, does[do])
			if _, err := s.Do(t.Context(), a); err != nil || f.Done() != 2 || len(f.calls) > calls+1 {
				t.Errorf("their clock %s ahead, %s: %d of two, %v, %v", by, do, f.Done(), f.calls, err)
			}
		}
	}
}
