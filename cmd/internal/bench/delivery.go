package bench

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"strings"
	"time"
)

// Deliveries of the scenarios e2e and hol are numbers, which are their X-GitHub-Delivery, too: who reads one at the other end knows
// which entity it is of and which of that entity's deliveries.
//
//	kind (8 bits) | step (32 bits) | entity (24 bits)
const (
	entityBits = 24
	stepBits   = 32
)

func deliveryOf(kind, step, entity uint64) uint64 {
	return kind<<(stepBits+entityBits) | step<<entityBits | entity
}

func kindOf(delivery uint64) uint64   { return delivery >> (stepBits + entityBits) }
func stepOf(delivery uint64) uint64   { return delivery >> entityBits & (1<<stepBits - 1) }
func entityOf(delivery uint64) uint64 { return delivery & (1<<entityBits - 1) }

// kindAndEntityOf returns a delivery without its step: the same for all deliveries of an entity, and different for each entity.
func kindAndEntityOf(delivery uint64) uint64 { return delivery &^ ((1<<stepBits - 1) << entityBits) }

// deliveryBody is how many bytes a body has.
const deliveryBody = 1 << 10

// deliveryActions are the actions of GitHub's issue events that the deliveries have. They have one length, so that one template fits all.
var deliveryActions = []string{"labeled", "renamed", "deleted"}

// requestTemplate is the request of a signed delivery of the GitHub preset, in one buffer: for each delivery only the id, the signature
// and some values of the body are overwritten. Not safe for concurrent use.
type requestTemplate struct {
	mac       hash.Hash
	raw, body []byte // the request, and the part of it that is signed
	// The indexes in raw of what is overwritten.
	id, signature, action, repository, number, updated int
	begin                                              time.Time // of step 0 of every entity
}

const (
	placeholderID         = "0000000000000000"
	placeholderAction     = "__ACTN_"
	placeholderRepository = "77000000"
	placeholderNumber     = "88000000"
	placeholderUpdatedAt  = "2000-01-01T00:00:00Z"
)

// newRequestTemplate returns a template for a source of a team. The deliveries of an entity say that they happened a second apart, from
// begin on.
func newRequestTemplate(team, source, secret string, begin time.Time) *requestTemplate {
	text := fmt.Sprintf(`{"action":"%s","repository":{"id":%s,"full_name":"acme/shop"},"issue":{"number":%s,"updated_at":"%s","title":"","body":"`,
		placeholderAction, placeholderRepository, placeholderNumber, placeholderUpdatedAt)
	text += strings.Repeat("x", deliveryBody-len(text)-3) + `"}}`
	f := &requestTemplate{mac: hmac.New(sha256.New, []byte(secret)), begin: begin.UTC()}
	mark := strings.Repeat("S", 2*sha256.Size)
	f.raw = fmt.Appendf(nil, "POST /v1/in/%s/%s HTTP/1.1\r\nHost: forebay\r\nUser-Agent: GitHub-Hookshot/bench\r\nContent-Type: application/json\r\n"+
		"X-GitHub-Event: issues\r\nX-Hub-Signature-256: sha256=%s\r\nContent-Length: %d\r\nX-GitHub-Delivery: %s\r\n\r\n%s", team, source, mark, len(text), placeholderID, text)
	f.body = f.raw[len(f.raw)-len(text):]
	at := func(what string) int { return bytes.Index(f.raw, []byte(what)) }
	f.id, f.signature, f.action, f.repository = at(placeholderID), at(mark), at(placeholderAction), at(placeholderRepository)
	f.number, f.updated = at(placeholderNumber), at(placeholderUpdatedAt)
	return f
}

// request returns a delivery's whole HTTP/1.1 request. It is valid until the next call.
func (f *requestTemplate) request(delivery uint64) []byte {
	copy(f.raw[f.id:], fmt.Sprintf("%016x", delivery))
	copy(f.raw[f.action:], deliveryActions[kindOf(delivery)])
	copy(f.raw[f.repository:], fmt.Sprint(77000000+kindOf(delivery)))
	copy(f.raw[f.number:], fmt.Sprint(88000000+entityOf(delivery)))
	f.begin.Add(time.Duration(stepOf(delivery))*time.Second).AppendFormat(f.raw[:f.updated], time.RFC3339)
	f.mac.Reset()
	f.mac.Write(f.body)
	var sum [sha256.Size]byte
	hex.Encode(f.raw[f.signature:], f.mac.Sum(sum[:0]))
	return f.raw
}
