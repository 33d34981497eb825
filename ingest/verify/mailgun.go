package verify

import (
	"cmp"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"sync"
	"time"

	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/scan"
)

// mailgunTokens is how many tokens are remembered, the newest; in five minutes, 300 deliveries a second.
const mailgunTokens = 100_000

// Mailgun is the signature in Mailgun's bodies: an HMAC of a time and a random token. It does not cover the event, so whoever has seen one
// could send another event with it: a token is taken with one body only, as long as its time is fresh. That is remembered by this process
// alone. Safe for concurrent use. The zero value refuses everything.
//
// Source: mailgun/mailgun-php tests/Api/WebhookTest.php, documentation.mailgun.com/docs/mailgun/user-manual/webhooks/securing-webhooks.
type Mailgun struct {
	tolerance time.Duration
	keys      []*macKey
	seen      *mailgunSeen
}

// mailgunSeen remembers with which body a token has come.
type mailgunSeen struct {
	mu    sync.Mutex
	body  map[string][sha256.Size]byte // of each token
	order []string                     // a ring of the tokens
	next  int
}

var mailgunParts, _ = scan.Compile("/signature/timestamp", "/signature/token", "/signature/signature")

// NewMailgun builds the scheme. The secrets are webhook signing keys.
func NewMailgun(params Params, secrets []schemas.Secret, around Around) (*Mailgun, error) {
	if err := params.Validate(); err != nil {
		return nil, err
	}
	keys, err := decodeKeys(secrets, "text", "")
	if err != nil {
		return nil, err
	}
	m := &Mailgun{tolerance: params.Tolerance, seen: &cmp.Or(around.Used, new(Used)).mailgun}
	if m.tolerance == 0 {
		m.tolerance = DefaultTolerance
	}
	for _, k := range keys {
		m.keys = append(m.keys, newMACKey("sha256", k))
	}
	return m, nil
}

// Verify implements [Verifier].
func (m *Mailgun) Verify(r *Request, now time.Time) error {
	if len(m.keys) == 0 {
		return refuse(BadKey, "no secret")
	}
	parts, err := mailgunParts.Scan(r.Body, nil)
	if err != nil {
		return refuse(Malformed, "the body has no readable signature: %v", err)
	}
	var text [3]string
	for i, p := range parts {
		if p.Kind != scan.String && p.Kind != scan.Number || len(p.Raw()) > 200 {
			return refuse(Malformed, "the body has no signature, or it is not complete")
		}
		text[i] = p.Text()
	}
	stamp, bad := readStamp("s", text[0])
	if bad != nil {
		return bad
	}
	got, err := hex.DecodeString(text[2])
	if err != nil {
		return refuse(Malformed, "the signature is not hex")
	}
	err = refuse(Mismatch, "the signature in the body")
	for n, k := range m.keys {
		if hmac.Equal(got, mailgunDigest(k, text[0], text[1])) {
			r.Secret, err = n+1, nil
		}
	}
	if err = fresh(r, stamp, m.tolerance, now, err); err != nil {
		return err
	}
	if !m.seen.first(text[1], sha256.Sum256(r.Body)) {
		return refuse(Mismatch, "the token in the body came with another body before")
	}
	return nil
}

// first reports whether a token has come with no other body, as far as is remembered.
func (s *mailgunSeen) first(token string, body [sha256.Size]byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if before, ok := s.body[token]; ok {
		return before == body
	}
	if len(s.order) < mailgunTokens {
		s.order = append(s.order, token)
	} else {
		delete(s.body, s.order[s.next])
		s.order[s.next] = token
		s.next = (s.next + 1) % mailgunTokens
	}
	if s.body == nil {
		s.body = map[string][sha256.Size]byte{}
	}
	s.body[token] = body
	return true
}

func mailgunDigest(k *macKey, timestamp, token string) []byte {
	mac := k.get()
	defer k.put(mac)
	mac.write(timestamp)
	mac.write(token)
	return append([]byte{}, mac.digest()...)
}

// Proof implements [Scheme]: all of it is in the body.
func (m *Mailgun) Proof() Proof { return Proof{} }

// Sign implements [Signer] with the first secret: it puts a new signature in the place of the body's.
func (m *Mailgun) Sign(r *Request, now time.Time) error {
	if len(m.keys) == 0 {
		return refuse(BadKey, "no secret")
	}
	where, _ := scan.Compile("/signature", "")
	parts, err := where.Scan(r.Body, nil)
	if err != nil || parts[1].Kind != scan.Object {
		return refuse(Malformed, "the body is no JSON object, which the signature would be in")
	}
	before, after := r.Body[:parts[1].Start+1], append([]byte(","), r.Body[parts[1].Start+1:]...)
	signature := []byte(`"signature":`)
	if parts[0].Kind != scan.Absent {
		before, after, signature = r.Body[:parts[0].Start], r.Body[parts[0].End:], nil
	}
	timestamp, token := formatStamp("s", now), rand.Text()
	signature = append(signature, `{"timestamp":"`+timestamp+`","token":"`+token+`","signature":"`+hex.EncodeToString(mailgunDigest(m.keys[0], timestamp, token))+`"}`...)
	r.Body = slices.Concat(before, signature, after)
	return nil
}
