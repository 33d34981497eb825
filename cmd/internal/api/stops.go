package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"time"
	"unicode/utf8"

	"github.com/forebay-io/forebay/schemas"
)

// StopItem is why a partition has stopped: what is wrong with the offsets from FromOffset up to before ToOffset. Times and the
// count of records are best effort.
type StopItem struct {
	ID           int64         `json:"id"` // 0: only the asked process knows of it
	Kind         string        `json:"kind"`
	Text         string        `json:"text"`
	Records      *int64        `json:"records"` // how many are between the offsets; null: nobody can count them
	FromOffset   int64         `json:"from_offset"`
	ToOffset     int64         `json:"to_offset"`
	ResumeOffset int64         `json:"resume_offset"` // where it goes on once accepted
	FirstAt      *time.Time    `json:"first_at"`      // the records were appended between these times of the broker
	LastAt       *time.Time    `json:"last_at"`
	FoundAt      *time.Time    `json:"found_at"`
	FoundBy      string        `json:"found_by"`
	Accepted     *AcceptedItem `json:"accepted"`
	Command      string        `json:"command"` // the forebay command that lets the partition go on
}

// AcceptedItem says that an operator has accepted a stop.
type AcceptedItem struct {
	At     time.Time `json:"at"`
	By     string    `json:"by"`
	Reason string    `json:"reason"`
}

// StoppedItem is a stopped partition, whichever process owns it.
type StoppedItem struct {
	Team         string   `json:"team"`
	Subscription string   `json:"subscription"`
	Topic        string   `json:"topic"`
	Partition    int32    `json:"partition"`
	Stopped      StopItem `json:"stopped"`
}

// AcceptRequest accepts what is stopped: all of a subscription, or less. By is who says so, as the client tells it.
type AcceptRequest struct {
	Topic     string `json:"topic,omitempty"`
	Partition *int32 `json:"partition,omitempty"`
	Stop      int64  `json:"stop,omitempty"`
	Reason    string `json:"reason"`
	By        string `json:"by"`
	DryRun    bool   `json:"dry_run,omitempty"`
}

// Stops answers questions about one subscription and its stopped partitions. Errors are *schemas.Error.
type Stops interface {
	// Subscription returns it with what this process knows and with what the ledger has of the other processes.
	Subscription(ctx context.Context, team, name string) (*SubscriptionItem, error)
	Accept(ctx context.Context, team, name string, r AcceptRequest) ([]StoppedItem, error)
}

func (s *server) subscription(ctx context.Context, r *http.Request) (any, error) {
	return s.Stops.Subscription(ctx, r.PathValue("team"), r.PathValue("subscription"))
}

// accept accepts the stops of the subscription in the path that the request selects.
func (s *server) accept(ctx context.Context, r *http.Request) (any, error) {
	var req AcceptRequest
	if err := readBody(r, &req, &req.By, &req.Reason, &req.DryRun); err != nil {
		return nil, err
	}
	return listed(s.Stops.Accept(ctx, r.PathValue("team"), r.PathValue("subscription"), req))
}

// maxRequest bounds what a client may send.
const maxRequest = 64 << 10

var errTooLarge = schemas.Errorf(schemas.TooLarge, "", "the request is larger than %d bytes", maxRequest)

// readBody decodes the request's body, one JSON object, into v. A field that v does not have is an error. by, reason and dryRun point
// to the fields of v with these names: the reason is required, except for a dry run. by is the name of the token that asks, if one does.
func readBody(r *http.Request, v any, by, reason *string, dryRun *bool) error {
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind != "application/json" {
		return schemas.Errorf(schemas.Invalid, "", "content type %q is not application/json", r.Header.Get("Content-Type"))
	}
	body, err := io.ReadAll(r.Body)
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	if err == nil {
		err = dec.Decode(v)
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return errTooLarge
	}
	if err != nil {
		return schemas.Errorf(schemas.Invalid, "", "the request is not what was expected: %w", err)
	}
	if !utf8.Valid(body) || bytes.Contains(body, []byte(`\u0000`)) { // which Postgres would refuse in its own words
		return schemas.Errorf(schemas.Invalid, "", "the request has what is no text: bytes that are not UTF-8, or NUL")
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return schemas.Errorf(schemas.Invalid, "", "there is more behind the request's JSON object")
	}
	if name := who(r.Context()).Name; name != "" {
		*by = name
	}
	if *reason == "" && !*dryRun {
		return schemas.Errorf(schemas.Invalid, "", "the reason is missing: it is kept, with the name of who asks and the time")
	}
	return nil
}

func subscriptionPath(team, name string) string {
	return fmt.Sprintf("/v1/subscriptions/%s/%s", url.PathEscape(team), url.PathEscape(name))
}

// Subscription returns one subscription, with what is stopped in any process.
func (c *Client) Subscription(ctx context.Context, team, name string) (*SubscriptionItem, error) {
	return getJSON[*SubscriptionItem](ctx, c, subscriptionPath(team, name), nil)
}

// Accept accepts what is stopped, or says what that would be.
func (c *Client) Accept(ctx context.Context, team, name string, r AcceptRequest) (Page[StoppedItem], error) {
	return postJSON[Page[StoppedItem]](ctx, c, subscriptionPath(team, name)+"/accept", r)
}
