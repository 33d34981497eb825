package pagerduty

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/sinks/api"
	"github.com/forebay-io/forebay/sinks/spec"
	"github.com/forebay-io/forebay/sinks/template"
	"github.com/forebay-io/forebay/stream/sink"
)

// BaseURL is PagerDuty's own; the EU's is https://events.eu.pagerduty.com.
const BaseURL = "https://events.pagerduty.com"

// Bounds of the Events API.
const (
	maxKey     = 255
	maxSummary = 1024 // characters
	maxEvent   = 512 << 10
)

// Config makes a [Sink].
type Config struct {
	// RoutingKey is the integration key of a service or a ruleset. Required.
	RoutingKey schemas.Secret
	// BaseURL is put in front of /v2/enqueue; default [BaseURL].
	BaseURL string
	// Common has Params, those that [Params] declares; they are required.
	spec.Common
}

// Sink sends events about alerts. Safe for concurrent use.
type Sink struct {
	*api.Client
	key    schemas.Secret
	params *template.Set
}

var (
	_ sink.Sink    = (*Sink)(nil)
	_ sink.Checker = (*Sink)(nil)
)

// New makes a sink without connecting. Errors are of kind invalid and show no secret.
func New(cfg Config) (*Sink, error) {
	if cfg.RoutingKey.IsZero() || cfg.Params == nil {
		return nil, schemas.Errorf(schemas.Invalid, "make a pagerduty destination", "routing_key or params are missing")
	}
	client, err := api.New(api.Config{
		Kind: "pagerduty", BaseURL: cmp.Or(cfg.BaseURL, BaseURL), Secrets: append(slices.Clone(cfg.Hidden), cfg.RoutingKey),
		AllowNetworks: cfg.AllowNetworks, Timeout: cfg.Timeout, Version: cfg.Version,
	})
	if err != nil {
		return nil, err
	}
	return &Sink{Client: client, key: cfg.RoutingKey, params: cfg.Params}, nil
}

// Idempotency returns idempotent: the dedup_key goes with every attempt.
func (s *Sink) Idempotency() sink.Idempotency { return sink.Idempotent }

// event is the body of /v2/enqueue.
type event struct {
	RoutingKey  string  `json:"routing_key"`
	EventAction string  `json:"event_action"`
	DedupKey    string  `json:"dedup_key"`
	Payload     payload `json:"payload"`
	Client      string  `json:"client,omitempty"`
	ClientURL   string  `json:"client_url,omitempty"`
	Links       any     `json:"links,omitempty"`
	Images      any     `json:"images,omitempty"`
}

type payload struct {
	Summary       string `json:"summary"`
	Source        string `json:"source"`
	Severity      string `json:"severity"`
	Timestamp     string `json:"timestamp,omitempty"`
	Component     string `json:"component,omitempty"`
	Group         string `json:"group,omitempty"`
	Class         string `json:"class,omitempty"`
	CustomDetails any    `json:"custom_details,omitempty"`
}

// Do makes one attempt.
func (s *Sink) Do(ctx context.Context, a sink.Action) (sink.Outcome, error) {
	values, err := s.params.Render(a)
	if err != nil {
		return sink.Outcome{}, err
	}
	answer, err := s.Client.Do(ctx, api.Call{Method: http.MethodPost, Path: []string{"v2", "enqueue"}, Key: a.ID, Body: fitting(s.event(values))})
	if err != nil {
		return sink.Outcome{}, err
	}
	if class := sink.ClassOfStatus(answer.Code); class != sink.ClassOK {
		return api.Ended(answer, s.Failed(class, "PagerDuty answered %d%s", answer.Code, answer.Redirect))
	}
	return answer.Outcome, s.CheckJSON("PagerDuty", answer)
}

// event makes the request's body of the rendered parameters.
func (s *Sink) event(v template.Values) event {
	return event{
		RoutingKey: s.key.Reveal(), EventAction: v.Text("event_action"), DedupKey: key(v.Text("dedup_key")),
		Client: v.Text("client"), ClientURL: v.Text("client_url"), Links: v["links"], Images: v["images"],
		Payload: payload{
			Summary: v.Text("summary"), Source: v.Text("source"), Severity: v.Text("severity"), Timestamp: v.Text("timestamp"),
			Component: v.Text("component"), Group: v.Text("group"), Class: v.Text("class"), CustomDetails: v["custom_details"],
		},
	}
}

// fitting returns an event of no more than PagerDuty takes: of details that are too large, the beginning of their text. The page goes out.
func fitting(e event) event {
	whole, err := json.Marshal(e)
	if err != nil || len(whole) <= maxEvent || e.Payload.CustomDetails == nil {
		return e
	}
	details, err := json.Marshal(e.Payload.CustomDetails)
	if err != nil {
		return e
	}
	const escaped = 6 // bytes that one of the text may become when it is written as JSON again
	room := max(0, maxEvent-(len(whole)-len(details))-100) / escaped
	e.Payload.CustomDetails = strings.ToValidUTF8(string(details[:min(room, len(details))]), "") + template.Cut
	return e
}

// key returns a dedup_key as PagerDuty takes it: the text, or its hash where it is too long.
func key(text string) string {
	if len(text) <= maxKey {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	return "sha256:" + hex.EncodeToString(sum[:])
}
