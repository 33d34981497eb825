package slack

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/sinks/api"
	"github.com/forebay-io/forebay/sinks/spec"
	"github.com/forebay-io/forebay/sinks/template"
	"github.com/forebay-io/forebay/stream/sink"
)

// BaseURL is Slack's own.
const BaseURL = "https://slack.com/api"

// Config makes a [Sink].
type Config struct {
	// Token is a bot token, xoxb-... Required.
	Token schemas.Secret
	// BaseURL is put in front of the names of methods; default [BaseURL].
	BaseURL string
	// Common has Params, those that [Params] declares; they are required.
	spec.Common
}

// Sink posts messages. Safe for concurrent use.
type Sink struct {
	*api.Client
	params *template.Set
	looks  api.Looks[reach]
}

var (
	_ sink.Sink    = (*Sink)(nil)
	_ sink.Checker = (*Sink)(nil)
)

// New makes a sink without connecting. Errors are of kind invalid and show no secret.
func New(cfg Config) (*Sink, error) {
	const op = "make a slack destination"
	if cfg.Token.IsZero() || cfg.Params == nil {
		return nil, schemas.Errorf(schemas.Invalid, op, "token or params are missing")
	}
	client, err := api.New(api.Config{
		Kind: "slack", BaseURL: cmp.Or(cfg.BaseURL, BaseURL), Secrets: append(slices.Clone(cfg.Hidden), cfg.Token),
		Headers:       http.Header{"Authorization": {"Bearer " + cfg.Token.Reveal()}},
		AllowNetworks: cfg.AllowNetworks, Timeout: cfg.Timeout, Version: cfg.Version,
	})
	if err != nil {
		return nil, err
	}
	return &Sink{Client: client, params: cfg.Params}, nil
}

// Look implements [sink.Looker]: how many bytes of answers a look for an earlier attempt reads at most.
func (s *Sink) Look() int { return api.MaxLook }

// Idempotency returns idempotent: a retry looks for the message before it posts.
func (s *Sink) Idempotency() sink.Idempotency { return sink.Idempotent }

// message is the body of chat.postMessage.
type message struct {
	Channel  string   `json:"channel"`
	Text     string   `json:"text"`
	Blocks   any      `json:"blocks,omitempty"`
	ThreadTS string   `json:"thread_ts,omitempty"`
	TS       string   `json:"ts,omitempty"` // of the one that chat.update changes
	Metadata metadata `json:"metadata"`
}

// metadata marks a message as one of ours, and names its action.
type metadata struct {
	EventType    string  `json:"event_type"`
	EventPayload payload `json:"event_payload"`
}

type payload struct {
	ActionID schemas.ActionID `json:"action_id"`
}

// eventType is the metadata's.
const eventType = "forebay"

// Do makes one attempt.
func (s *Sink) Do(ctx context.Context, a sink.Action) (sink.Outcome, error) {
	values, err := s.params.Render(a)
	if err != nil {
		return sink.Outcome{}, err
	}
	fit(values["blocks"])
	m := message{
		Channel: values.Text("channel"), Text: values.Text("text"), Blocks: values["blocks"], ThreadTS: values.Text("thread_ts"),
		Metadata: metadata{eventType, payload{a.ID}},
	}
	if a.Amends != "" {
		return s.amend(ctx, a, m)
	}
	for _, span := range a.Earlier() {
		if out, found, err := s.posted(ctx, a, m, span); found || a.Stops(err) {
			return out, err
		}
	}
	s.looks.Forget(a)
	var decoded reply
	answer, err := s.Client.Do(ctx, api.Call{Method: http.MethodPost, Path: []string{"chat.postMessage"}, Body: m, Key: a.ID, Read: decoded.read})
	if err != nil {
		return sink.Outcome{}, err
	}
	answer.Outcome.Made = made(decoded.Channel, decoded.ts)
	return api.Ended(answer, s.judge("chat.postMessage", answer, decoded))
}

// made names a message for [sink.Outcome.Made]; empty if that is none.
func made(channel, ts string) string {
	if !channelForm.MatchString(channel) || !stampForm.MatchString(ts) {
		return ""
	}
	return channel + "/" + ts
}

// amend changes the message of an earlier action: the one that it made or, where that is not known, the one that is found. Where there is none, nothing
// is left to be done.
func (s *Sink) amend(ctx context.Context, a sink.Action, m message) (sink.Outcome, error) {
	of := a
	of.ID, of.Attempt = a.Amends, max(a.Attempt, 2)
	m.Metadata.EventPayload.ActionID = of.ID
	for _, span := range of.Earlier() {
		if a.Made != "" {
			break
		}
		out, _, err := s.posted(ctx, of, m, span)
		if err != nil {
			return out, err
		}
		a.Made = out.Made
	}
	var known bool
	s.looks.Forget(of)
	if m.Channel, m.TS, known = strings.Cut(a.Made, "/"); !known {
		return sink.Outcome{Response: []byte("there is no message of it to change")}, nil
	}
	m.ThreadTS = ""
	var decoded reply
	answer, err := s.Client.Do(ctx, api.Call{Method: http.MethodPost, Path: []string{"chat.update"}, Body: m, Key: a.ID, Read: decoded.read})
	if err != nil {
		return sink.Outcome{}, err
	}
	if err := s.judge("chat.update", answer, decoded); err != nil && decoded.Error != "message_not_found" { // somebody has deleted it
		return api.Ended(answer, err)
	}
	return answer.Outcome, nil
}

// judge says what an answer of Slack's means.
func (s *Sink) judge(method string, answer api.Answer, decoded reply) error {
	if class := sink.ClassOfStatus(answer.Code); class != sink.ClassOK {
		return s.Failed(class, "%s answered %d%s", method, answer.Code, answer.Redirect)
	}
	if err := s.CheckWhole(method, answer); err != nil {
		return err
	}
	if decoded.OK == nil {
		return s.Failed(sink.ClassBusy, "%s answered %d with something that is not Slack's", method, answer.Code)
	}
	if !*decoded.OK {
		return s.Failed(classOf(decoded.Error), "%s: %s%s", method, clip(decoded.Error), needed(decoded.Needed))
	}
	return nil
}

func needed(scope string) string {
	if scope == "" {
		return ""
	}
	return " (the token needs the scope " + clip(scope) + ")"
}

// clip bounds what is quoted of an answer.
func clip(s string) string { return s[:min(len(s), 100)] }
