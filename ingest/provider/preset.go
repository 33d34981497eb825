package provider

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
)

// preset has all that the program needs for one provider, in a file of its own. Values are named by `from` texts (see
// [EventConfig]); in presets "a|b" is the first of several that is there, a trailing "?" makes it optional and "=text" is
// a literal.
type preset struct {
	name, title string
	verify      verify.Params
	maxBody     int64
	deadline    time.Duration
	// prefix stands before every type.
	prefix string
	// selects are the values that choose a rule: joined with "/", then shortened from the end until a rule has the name.
	selects []string
	rules   map[string]mapping
	// fields are what bodies have, by the first of selects, where that is a header and not signed.
	fields map[string]fields
	// delivery is where the provider's own id of a delivery is, if it is not signed, so that it cannot be the event's.
	delivery string
	// fallback is the mapping of event types without a rule. Rules take id, type and volatile from it if they have none.
	fallback mapping
	// formPayload is the field of a form body that holds the JSON text.
	formPayload string
	// payloadRule and formRule are the rules of form bodies with and without that field. If payloadRule is empty, the JSON text is
	// mapped like a JSON body.
	payloadRule, formRule string
	// headers are the original request headers kept on the event, in lower case.
	headers []string
	// challenge answers handshakes.
	challenge func(body []byte) (*Answer, bool)
}

// mapping says where id, type, entity and version of one family of event types are.
type mapping struct {
	id string
	// typ is joined with "." behind the preset's prefix.
	typ []string
	// entity's values are joined to the key. If it is nil, or none of its values is there, the source itself is the entity.
	entity []string
	// clocks are tried in order; the first that has a value is the version. Without one the version is none.
	clocks   []clock
	payload  schemas.PayloadKind
	deleted  *condition
	volatile []string
	first    *int64
}

// clock is a version field.
type clock struct {
	from       string
	kind       schemas.VersionKind
	name       string
	resolution time.Duration // of timestamps: the unit of a bare number
	rank       *rank
}

// rank breaks ties of one clock by a status: its index in order, from 1; an unknown status is 0.
type rank struct {
	from  string
	order []string
}

// condition is true if the value is one of is, or ends with suffix.
type condition struct {
	from   string
	is     []string
	suffix string
}

// catalogue is every preset by name; see [register].
var catalogue = map[string]preset{}

// register adds a preset to the catalogue. Each preset's file calls it in a package variable, so that no list has to name the preset;
// it returns p because the variable needs a value. A name that is taken already panics.
func register(p preset) preset { //nolint:unparam // see above: the value is for the variable alone
	if _, taken := catalogue[p.name]; taken {
		panic("provider: two presets are named " + p.name)
	}
	catalogue[p.name] = p
	return p
}

// Presets describes the catalogue, sorted by name.
func Presets() []Info {
	var infos []Info
	for _, name := range sortedKeys(catalogue) {
		infos = append(infos, catalogue[name].info())
	}
	return infos
}

// Lookup describes one preset.
func Lookup(name string) (Info, bool) {
	p, ok := catalogue[name]
	if !ok {
		return Info{}, false
	}
	return p.info(), true
}

func (p preset) info() Info {
	scheme := p.verify.Scheme
	if scheme == "" {
		scheme = verify.SchemeHMAC
	}
	i := Info{Name: p.name, Title: p.title, Scheme: scheme, Verify: p.verify, MaxBody: p.maxBody, Deadline: p.deadline, ID: p.fallback.id, DeliveryID: p.delivery,
		Type: p.prefix + strings.Join(p.fallback.typ, " . "), Headers: p.headers}
	for _, name := range sortedKeys(p.rules) {
		m := p.rules[name]
		t := TypeInfo{Match: name, Entity: strings.Join(m.entity, " / "), Payload: m.payload}
		for _, c := range m.clocks {
			t.Version = strings.TrimPrefix(t.Version+" | "+string(c.kind)+" "+c.from, " | ")
		}
		i.Types = append(i.Types, t)
	}
	return i
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// seconds returns a clock of times in whole seconds.
func seconds(from, name string) []clock {
	return []clock{{from: from, kind: schemas.Timestamp, name: name, resolution: time.Second}}
}
