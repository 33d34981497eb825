package provider

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/scan"
)

// Bounds of what is read out of a delivery, in bytes.
const (
	MaxID     = 512
	MaxType   = 255
	MaxEntity = 1024 // encoded
	maxHeader = 1024
	maxWords  = 4096
	maxTitle  = 200 // bytes that are kept of a title
)

// Event makes the event of a verified delivery: its id, type, entity and version. received is the intake's clock. An error is an
// *[Unusable]: the delivery is authentic and must be kept, not refused; or a *[Forbidden]. The event shares r's body and must not be used after that is
// reused. The caller sets its trace fields.
func (s *Source) Event(r *verify.Request, received time.Time) (*schemas.Event, error) {
	e := new(schemas.Event)
	if err := s.Read(r, received, e); err != nil {
		return nil, err
	}
	return e, nil
}

// Read is [Source.Event] into e, and reuses the memory of e.Headers. After an error e must not be used.
func (s *Source) Read(r *verify.Request, received time.Time, e *schemas.Event) error {
	d := s.deliveries.Get().(*delivery)
	defer d.close()
	d.src, d.req = s, r
	if bad := d.parse(); bad != nil {
		return bad
	}
	if bad := d.event(received, e); bad != nil {
		return bad
	}
	if !r.Caller.May(e.Type) {
		return &Forbidden{Type: e.Type}
	}
	return nil
}

// event makes an event of the delivery, by the rule for its type.
func (d *delivery) event(received time.Time, e *schemas.Event) *Unusable {
	m, bad := d.rule()
	if bad != nil {
		return bad
	}
	*e = schemas.Event{Source: d.src.uri, RecordedTime: received, Time: received, Payload: m.payload, First: m.first, Secret: d.req.Secret,
		DataContentType: d.contentType(), Headers: d.headers(e.Headers[:0]), Data: d.req.Body}
	if d.fromForm { // what is signed stays the form, of which id and hash are made
		e.Data, e.DataContentType = d.text, "application/json"
	}
	if e.Data == nil {
		e.Data = []byte{}
	}
	if d.src.preset.unpack != nil {
		e.Extensions, e.DataSchema = extensions(d.req.Header), d.req.Header.Get("Ce-Dataschema")
	}
	if d.zipped && !d.fromForm {
		if e.Extensions == nil {
			e.Extensions = map[string]string{}
		}
		e.Extensions[schemas.EncodingAttribute] = "gzip"
	}
	sum := sha256.Sum256(d.withoutVolatile(m))
	e.Hash = schemas.ShortHash(sum)
	if e.ID, bad = d.id(m, sum); bad != nil {
		return bad
	}
	e.DeliveryID = d.deliveryID()
	if e.Type, bad = d.typ(m); bad != nil {
		return bad
	}
	e.Conversation = d.src.conversation(e.Type)
	if e.Chain, bad = d.chain(); bad != nil {
		return bad
	}
	if e.Entity, bad = d.entity(m); bad != nil {
		return bad
	}
	if bad = d.version(m, e); bad != nil {
		return bad
	}
	return d.conditions(m, e)
}

// conditions says of e whether it is a snapshot, and whether it ends its entity.
func (d *delivery) conditions(m *rule, e *schemas.Event) *Unusable {
	snapshot, bad := d.holds(m.snapshots)
	if bad != nil {
		return bad
	}
	if snapshot {
		e.Payload = schemas.Snapshot
	}
	if e.Deleted, bad = d.holds(m.deleted); bad != nil {
		return bad
	}
	d.people(m, e)
	return nil
}

// id returns the first id that the delivery has, or sum, the hash of the body without what changes between retries.
func (d *delivery) id(m *rule, sum [sha256.Size]byte) (string, *Unusable) {
	for i, r := range m.id.refs {
		if r.kind == refBody {
			var room [len("sha256:") + 2*sha256.Size]byte
			return d.scoped(m, string(hex.AppendEncode(append(room[:0], "sha256:"...), sum[:])))
		}
		text, found, bad := d.scalar(value{refs: m.id.refs[i : i+1], text: r.text, optional: true})
		if bad != nil {
			return "", bad
		}
		if found {
			if text, bad = d.scoped(m, text); bad != nil {
				return "", bad
			}
			return text, checkText("the id at ", r.text, text, MaxID)
		}
	}
	return "", unusable(MissingField, "no id at %s", m.id.text)
}

// scoped returns an id with what it is unique inside of, where the mapping has that.
func (d *delivery) scoped(m *rule, id string) (string, *Unusable) {
	if m.scope == nil {
		return id, nil
	}
	scope, _, bad := d.scalar(*m.scope)
	return string(schemas.NewEntityKey(scope, id)), bad
}

// deliveryID returns the provider's id of the delivery, or nothing where there is none, or none that can be kept.
func (d *delivery) deliveryID() string {
	if d.src.delivery == nil {
		return ""
	}
	text, found, bad := d.scalar(*d.src.delivery)
	if bad != nil || !found || checkText("", "", text, MaxID) != nil {
		return ""
	}
	return text
}

// typ returns the event's type: the preset's prefix, and the values of the mapping joined by dots.
func (d *delivery) typ(m *rule) (string, *Unusable) {
	var room [128]byte // most names fit, and become one string
	prefix := d.src.preset.prefix
	name := append(room[:0], prefix...)
	for i, v := range m.typ {
		text, found, bad := d.scalar(v)
		if bad != nil {
			return "", bad
		}
		if !found {
			continue
		}
		if i > 0 {
			name = append(name, '.')
		}
		name = append(name, text...)
	}
	typ := string(name)
	if d.src.names != nil {
		typ = prefix + d.src.names.Replace(strings.ToLower(typ[len(prefix):]))
	}
	return typ, checkText("the type", "", typ, MaxType)
}

// entity returns the key of the event's entity, made of the mapping's values.
func (d *delivery) entity(m *rule) (schemas.EntityKey, *Unusable) {
	parts := make([]string, 0, 4)
	for _, v := range m.entity {
		text, found, bad := d.scalar(v)
		if bad != nil {
			return "", bad
		}
		if !found {
			continue
		}
		if bad := checkText("the entity at ", v.text, text, MaxEntity); bad != nil {
			return "", bad
		}
		parts = append(parts, text)
	}
	if len(parts) == 0 {
		parts = []string{d.src.Name} // no mapping of its own: the source is the entity
	}
	key := schemas.NewEntityKey(parts...)
	if len(key) > MaxEntity {
		return "", unusable(TooLong, "the entity is longer than %d bytes", MaxEntity)
	}
	return key, nil
}

// version sets e's version from the first clock that has a value, and e's time if the clock is a timestamp.
func (d *delivery) version(m *rule, e *schemas.Event) *Unusable {
	e.Version = schemas.Version{Kind: schemas.None}
	for i := range m.clocks {
		c := &m.clocks[i]
		text, kind, bad := d.scalarAndKind(c.from)
		if bad != nil {
			return bad
		}
		if kind == scan.Absent {
			continue
		}
		v := schemas.Version{Kind: c.kind}
		if v.Clock, bad = d.clock(c); bad != nil {
			return bad
		}
		switch {
		case c.asText:
			if kind != scan.String {
				return unusable(WrongType, "%s is of type %s, and as: text takes only strings", c.from.text, kind)
			}
			if !schemas.IsVersionText(text) {
				return unusable(BadVersion, "%s is not 1 to %d characters of printable ASCII without spaces", c.from.text, schemas.MaxVersionText)
			}
			v.Text = text
		case c.kind == schemas.Timestamp:
			if c.utc {
				text += "Z"
			}
			t, ok := parseTime(text, c.resolution)
			counts, fits := coarse(t, c.resolution)
			if !ok || !fits {
				return unusable(BadVersion, "%s is not a time that a version can hold", c.from.text)
			}
			v.Value, e.Time = counts.UnixNano(), t
		default:
			n, ok := parseCounter(text)
			if !ok {
				return unusable(BadVersion, "%s is not an integer from 0 to 2^63-1", c.from.text)
			}
			v.Value = n
		}
		if v.Epoch, bad = d.epoch(c); bad != nil {
			return bad
		}
		if v.Sub, bad = d.sub(c); bad != nil {
			return bad
		}
		e.Version = v
		break
	}
	if e.Version.Kind != schemas.Sequence {
		e.First = nil
	}
	return nil
}

// clock returns the name of the version line, with the id of the part of the entity that it is of, or its hash where that is too long for a name.
func (d *delivery) clock(c *compiledClock) (string, *Unusable) {
	if c.by == nil {
		return c.name, nil
	}
	id, found, bad := d.scalar(*c.by)
	if bad != nil || !found {
		return c.name, bad
	}
	bad = checkText("the clock at ", c.by.text, id, MaxType)
	if len(c.name)+1+len(id) > schemas.MaxClock {
		id = schemas.ShortHash(sha256.Sum256([]byte(id))).String()
	}
	return c.name + ":" + id, bad
}

// people sets who made e happen, and what its entity is called. Neither keeps an event back: what cannot be an attribute is left out, and
// a title is cut.
func (d *delivery) people(m *rule, e *schemas.Event) {
	e.Sender = schemas.Sender{ID: d.words(m.sender.id, schemas.MaxID)}
	kind := d.senderKind(m.sender.automation)
	if e.Sender.ID != "" {
		e.Sender.Login, e.Sender.Kind, e.Sender.Trust = d.words(m.sender.login, schemas.MaxID), kind, d.trust(m, e.Sender.ID)
	} else if kind == schemas.Automation { // guards ask for that alone
		e.Sender.Kind = kind
	}
	if d.own(m, e.Sender) {
		e.Sender.Kind = schemas.Own
	}
	if e.Title = d.words(m.title, maxWords); len(e.Title) > maxTitle {
		e.Title = strings.ToValidUTF8(e.Title[:maxTitle], "") + "..."
	}
}

// senderKind returns the kind of a sender; nothing where that is not told.
func (d *delivery) senderKind(automation *compiledCondition) schemas.SenderKind {
	if automation == nil {
		return ""
	}
	switch is, bad := d.holds(automation); {
	case bad != nil:
		return ""
	case is:
		return schemas.Automation
	}
	return schemas.Human
}

// words returns a text that is there and can be an attribute; else an empty one.
func (d *delivery) words(v *value, limit int) string {
	if v == nil {
		return ""
	}
	text, found, bad := d.scalar(*v)
	if bad != nil || !found || checkText("", "", text, limit) != nil {
		return ""
	}
	return text
}

// holds reports whether one of the values of a condition is what the condition asks for. No condition never holds.
func (d *delivery) holds(c *compiledCondition) (bool, *Unusable) {
	if c == nil {
		return false, nil
	}
	for _, r := range c.from.refs {
		_, text, bad := d.read(r)
		if bad != nil {
			return false, bad
		}
		if slices.Contains(c.is, text) || c.suffix != "" && strings.HasSuffix(text, c.suffix) || c.line != "" && beginsLine(text, c.line) || c.there && text != "" {
			not, bad := d.holds(c.unless)
			return !not && bad == nil, bad
		}
	}
	return false, nil
}

// checkText refuses a text that cannot be a CloudEvents attribute or a Kafka key.
func checkText(what, where, text string, limit int) *Unusable {
	switch {
	case len(text) > limit:
		return unusable(TooLong, "%s%s is longer than %d bytes", what, where, limit)
	case !utf8.ValidString(text):
		return unusable(BadString, "%s%s is not UTF-8", what, where)
	case !plain(text) && strings.ContainsFunc(text, func(r rune) bool { return unicode.IsControl(r) || nonCharacter(r) }):
		return unusable(ControlCharacter, "%s%s has a control character", what, where)
	}
	return nil
}

// plain reports whether a text is printable ASCII, as most are.
func plain(text string) bool {
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return false
		}
	}
	return true
}

// nonCharacter reports whether r is a code point that CloudEvents forbids in strings and Unicode never assigns.
func nonCharacter(r rune) bool { return r&0xfffe == 0xfffe || 0xfdd0 <= r && r <= 0xfdef }

func newUUID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
