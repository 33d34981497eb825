package provider

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/scan"
)

var _ = register(googlePubSub())

// googlePubSub: a push subscription with authentication. A message comes in an envelope, which is opened: the event's body is its data, and what stands beside
// that is read as from the headers of a push without an envelope ("payload unwrapping" with metadata). An entity is an ordering key, an object of Cloud
// Storage, or the message itself where it has neither, since there is no order then. The time of publishing orders an entity; every message
// says what happened, so it is a delta, and late when it comes late.
//
// The token (OIDC) says that Google's Pub/Sub has called for a service account, which the secrets list. It does not sign the message: whoever sees
// one within its hour can send other messages until it expires. TLS alone keeps it. Pub/Sub waits as long as the subscription says (10 s, 600 s at most),
// and repeats what is not answered 102, 200, 201, 202 or 204 for its retention: 7 days, 31 at most.
// Sources: https://cloud.google.com/pubsub/docs/push, https://cloud.google.com/pubsub/docs/authenticate-push-subscriptions,
// https://cloud.google.com/pubsub/docs/payload-unwrapping.
func googlePubSub() preset {
	return preset{
		name: "google-pubsub", title: "Google Pub/Sub",
		verify: verify.Params{Scheme: verify.SchemeJWT, Header: "Authorization", Prefix: "Bearer ", Issuer: "https://accounts.google.com",
			JWKSURL: "https://www.googleapis.com/oauth2/v3/certs"},
		maxBody: 15 << 20, deadline: 10 * time.Second, deadlineNote: "the subscription's acknowledgement deadline says otherwise",
		takes:   "102, 200, 201, 202, 204 (https://cloud.google.com/pubsub/docs/push)",
		retries: "until it is taken, for as long as the subscription keeps messages: 7 days unless set otherwise", retryHorizon: 7 * day,
		prefix: "com.google.pubsub.", unpack: openPubSub,
		fallback: mapping{
			scope:  pubSub("subscription-name") + "?",
			id:     pubSub("message-id"),
			typ:    []string{pubSub("ce-type") + "|" + pubSub("eventtype") + "|=message"},
			entity: []string{pubSub("subscription-name") + "?", pubSub("ordering-key") + "|" + pubSub("objectid") + "|" + pubSub("message-id")},
			clocks: []clock{{from: pubSub("publish-time") + "?", kind: schemas.Timestamp, resolution: time.Nanosecond}},
		},
	}
}

// pubSub names what stands beside a message's data.
func pubSub(name string) string { return "header:X-Goog-Pubsub-" + name }

var (
	pubSubForm, _ = scan.Compile("/subscription", "/message/messageId", "/message/publishTime", "/message/orderingKey", "/message/data", "/message/attributes")
	besides       = []string{"Subscription-Name", "Message-Id", "Publish-Time", "Ordering-Key"}
)

// openPubSub returns the message of an envelope as it comes without one. Attributes are headers like the rest, and take nothing of its place. What is no
// envelope has them as headers of their own names.
func openPubSub(r *verify.Request, _ int64) ([]verify.Request, error) {
	values, err := pubSubForm.Scan(r.Body, nil)
	out := *r
	if err != nil || values[1].Kind != scan.String {
		out.Header = r.Header.Clone()
		for _, name := range []string{"Ce-Type", "Eventtype", "Objectid"} { // without an envelope, an attribute is a header of its own name
			if values := r.Header[name]; values != nil {
				out.Header["X-Goog-Pubsub-"+name] = values
			}
		}
		return []verify.Request{out}, nil
	}
	out.Header = http.Header{}
	for name, values := range r.Header {
		if !strings.HasPrefix(name, "X-Goog-Pubsub-") && name != "Content-Type" {
			out.Header[name] = values
		}
	}
	if out.Body, err = base64.StdEncoding.DecodeString(values[4].Text()); err != nil {
		return nil, unusable(BadEncoding, "/message/data is not base64")
	}
	if values[5].Kind == scan.Object {
		err = scan.Each(values[5].Raw(), func(key string, v scan.Value) error {
			if key != "" && v.Kind == scan.String {
				out.Header.Set("X-Goog-Pubsub-"+key, v.Text())
			}
			return nil
		})
		if err != nil {
			return nil, scanReason(err)
		}
	}
	for i, name := range besides {
		out.Header.Del("X-Goog-Pubsub-" + name)
		if text := values[i].Text(); text != "" {
			out.Header.Set("X-Goog-Pubsub-"+name, text)
		}
	}
	out.Header.Set("Content-Type", "application/octet-stream")
	if json.Valid(out.Body) {
		out.Header.Set("Content-Type", "application/json")
	}
	return []verify.Request{out}, nil
}
