package github

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/sinks/api"
	"github.com/forebay-io/forebay/sinks/spec"
	"github.com/forebay-io/forebay/sinks/template"
	"github.com/forebay-io/forebay/stream/sink"
)

// BaseURL is GitHub's own; GitHub Enterprise Server has https://<host>/api/v3.
const BaseURL = "https://api.github.com"

// apiVersion is of the REST API.
const apiVersion = "2022-11-28"

// Config makes a [Sink].
type Config struct {
	// Token is a fine-grained personal access token, or any other that is a bearer's. Required.
	Token schemas.Secret
	// Do is what the destination does. Required.
	Do Do
	// BaseURL is put in front of paths; default [BaseURL].
	BaseURL string
	// Common has Params, those that [Params] declares; they are required.
	spec.Common
	Now func() time.Time // as in [api.Config]
}

// Sink does one thing on repositories. Safe for concurrent use.
type Sink struct {
	*api.Client
	do     Do
	params *template.Set
	now    func() time.Time
	looks  api.Looks[reach]
}

var (
	_ sink.Sink    = (*Sink)(nil)
	_ sink.Checker = (*Sink)(nil)
)

// New makes a sink without connecting. Errors are of kind invalid and show no secret.
func New(cfg Config) (*Sink, error) {
	const op = "make a github destination"
	if cfg.Token.IsZero() || cfg.Params == nil {
		return nil, schemas.Errorf(schemas.Invalid, op, "token or params are missing")
	}
	if !slices.Contains(Dos(), string(cfg.Do)) {
		return nil, schemas.Errorf(schemas.Invalid, op, "do is not one of %s", strings.Join(Dos(), ", "))
	}
	client, err := api.New(api.Config{
		Kind: "github", BaseURL: cmp.Or(cfg.BaseURL, BaseURL), Secrets: append(slices.Clone(cfg.Hidden), cfg.Token),
		Headers: http.Header{
			"Authorization": {"Bearer " + cfg.Token.Reveal()}, "Accept": {"application/vnd.github+json"},
			http.CanonicalHeaderKey("X-GitHub-Api-Version"): {apiVersion},
		},
		AllowNetworks: cfg.AllowNetworks, Timeout: cfg.Timeout, Version: cfg.Version, Now: cfg.Now,
	})
	if err != nil {
		return nil, err
	}
	s := &Sink{Client: client, do: cfg.Do, params: cfg.Params, now: cfg.Now}
	if s.now == nil {
		s.now = time.Now
	}
	return s, nil
}

// Look implements [sink.Looker]: how many bytes of answers a look for an earlier attempt reads at most.
func (s *Sink) Look() int {
	if s.do == Issue || s.do == Comment {
		return api.MaxLook
	}
	return 0
}

// Idempotency returns unsafe for dispatch and idempotent for everything else.
func (s *Sink) Idempotency() sink.Idempotency {
	if s.do == Dispatch {
		return sink.Unsafe
	}
	return sink.Idempotent
}

// Do makes one attempt.
func (s *Sink) Do(ctx context.Context, a sink.Action) (sink.Outcome, error) {
	values, err := s.params.Render(a)
	if err != nil {
		return sink.Outcome{}, err
	}
	call := api.Call{Method: http.MethodPost, Key: a.ID}
	switch s.do {
	case Issue:
		call.Path, call.Body = path(values, "issues"), issueBody(a, values)
	case Comment:
		call.Path = path(values, "issues", values.Text("issue"), "comments")
		call.Body = map[string]any{"body": marked(a, values.Text("body"))}
	case Labels:
		labels := values.Texts("labels")
		if len(labels) == 0 {
			return sink.Outcome{Response: []byte("no label to add: nothing was sent")}, nil
		}
		call.Path, call.Body = path(values, "issues", values.Text("issue"), "labels"), map[string]any{"labels": labels}
	case Dispatch:
		call.Path = path(values, "dispatches")
		if call.Body, err = dispatchBody(a, values); err != nil {
			return sink.Outcome{}, err
		}
	}
	if s.do == Issue || s.do == Comment {
		for _, span := range a.Earlier() {
			if out, found, err := s.findEarlier(ctx, call.Path, a, span); found || a.Stops(err) {
				return out, err
			}
		}
	}
	s.looks.Forget(a)
	answer, err := s.Client.Do(ctx, call)
	if err != nil {
		return sink.Outcome{}, err
	}
	return s.judge(answer)
}

// path returns below the repository.
func path(values template.Values, below ...string) []string {
	owner, name, _ := strings.Cut(values.Text("repo"), "/")
	return append([]string{"repos", owner, name}, below...)
}

// marker returns what a body of ours ends with.
func marker(a sink.Action) string { return "<!-- forebay:" + string(a.ID) + " -->" }

func marked(a sink.Action, body string) string {
	if body == "" {
		return marker(a)
	}
	return body + "\n\n" + marker(a)
}

func issueBody(a sink.Action, values template.Values) map[string]any {
	body := map[string]any{"title": values.Text("title"), "body": marked(a, values.Text("body"))}
	for _, list := range []string{"labels", "assignees"} {
		if texts := values.Texts(list); len(texts) > 0 {
			body[list] = texts
		}
	}
	return body
}

// dispatchBody puts the action's id into the payload, under a key that the template may not take.
func dispatchBody(a sink.Action, values template.Values) (map[string]any, error) {
	given, _ := values["client_payload"].(map[string]any)
	payload := map[string]any{}
	maps.Copy(payload, given)
	if _, taken := payload["forebay"]; taken {
		return nil, api.Unmade("params.client_payload has a key forebay, which holds the action's id")
	}
	payload["forebay"] = map[string]any{"action_id": a.ID, "attempt": a.Attempt}
	return map[string]any{"event_type": values.Text("event_type"), "client_payload": payload}, nil
}
