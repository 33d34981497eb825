package simulation

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/forebay-io/forebay/ingest"
	"github.com/forebay-io/forebay/ingest/provider"
	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
)

const (
	team   = "acme"
	group  = "acme.triage"
	secret = "a-secret-of-the-simulation"
)

// kind is what a source's versions are, and so what the judge may ask of its order.
type kind string

const (
	sequence  kind = "sequence"  // dense revisions from 1: gaps are waited for
	timestamp kind = "timestamp" // a snapshot's time: an older one is dropped once a newer one was there
	arrival   kind = "arrival"   // no version: the log's order
)

// event is something that happened at the provider.
type event struct {
	source kind
	id     string
	entity string // as the agent sees it
	number int    // its place among the entity's events, from 1
	body   []byte
	sum    [32]byte
	forged bool // with a signature that is none; never told to be good
}

func newEvent(rng *rand.Rand, source kind, entity, number, size int) *event {
	e := &event{source: source, entity: fmt.Sprintf("%s-%d", source[:1], entity), number: number}
	e.id = fmt.Sprintf("%s-%d", e.entity, number)
	at := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC).Add(-24*time.Hour + time.Duration(number)*time.Second)
	e.body = fmt.Appendf(nil, `{"id":%q,"type":"thing.changed","thing":{"id":%q,"rev":%d,"at":%q},"history":[`, e.id, e.entity, number, at.Format(time.RFC3339))
	for i := 0; len(e.body) < size; i++ {
		if i > 0 {
			e.body = append(e.body, ',')
		}
		e.body = fmt.Appendf(e.body, `{"url":"https://api.example.com/repos/acme/forebay/things/%d/history/%d","node_id":"MDU6SXNzdWU%d","site_admin":false,"labels":[],"performed_via_app":null}`,
			entity, i, rng.IntN(1_000_000))
	}
	e.body = append(e.body, `]}`...)
	e.sum = sha256.Sum256(e.body)
	return e
}

// size is what providers send: 200 bytes to a megabyte, the small ones more often.
func size(rng *rand.Rand, low, high int) int {
	return int(math.Exp(math.Log(float64(low)) + rng.Float64()*(math.Log(float64(high))-math.Log(float64(low)))))
}

func (e *event) signature() string {
	m := hmac.New(sha256.New, []byte(secret))
	m.Write(e.body)
	sum := m.Sum(nil)
	if e.forged {
		sum[0] ^= 1
	}
	return "sha256=" + hex.EncodeToString(sum)
}

func topicOf(source kind) string { return "events." + team + "." + string(source) }

// sourceOf is the source as the configuration makes it.
func sourceOf(source kind, payload schemas.PayloadKind) (*ingest.Source, error) {
	cfg := provider.Config{
		Team: team, Name: string(source), Preset: "generic", Secrets: []schemas.Secret{schemas.NewSecret(secret)}, MaxBody: maxBody,
		Verify: &verify.Params{Algorithm: "sha256", SignatureHeader: "X-Signature", Prefix: "sha256=", Encoding: "hex", Signed: "{body}"},
		Event:  &provider.EventConfig{ID: "/id", Type: "/type", Entity: []string{"/thing/id"}, Payload: string(payload)},
	}
	switch source {
	case sequence:
		cfg.Event.Version = &provider.VersionConfig{From: "/thing/rev", Kind: "sequence"}
		cfg.Event.First = new(int64(1))
	case timestamp:
		cfg.Event.Version = &provider.VersionConfig{From: "/thing/at", Kind: "timestamp", Resolution: time.Second}
	}
	compiled, err := provider.Compile(cfg)
	if err != nil {
		return nil, err
	}
	return &ingest.Source{Source: compiled, Topic: topicOf(source), QuarantineTopic: "quarantine." + team + "." + string(source)}, nil
}

func (e *event) String() string { return e.id + " of " + strconv.Itoa(len(e.body)) + " bytes" }
