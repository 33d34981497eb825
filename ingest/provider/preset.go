package provider

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
)

// preset has all that the program needs for one provider, in a file of its own. Values are named by `from` texts (see
// [EventConfig]); in presets "a|b" is the first of several that is there, a trailing "?" makes it optional, "=text" is a
// literal, "=text{/a}" one if there is anything at /a, and "text{a}" is a with text before it, also among several;
// "a^." is what stands in a before the first dot.
type preset struct {
	name, title string
	verify      verify.Params
	maxBody     int64
	deadline    time.Duration
	// deadlineNote says what the provider itself says of the deadline, where it is not exactly that.
	deadlineNote string
	// retries: how the provider repeats a delivery that was not accepted, beginning with "none" where it does not by itself; retryHorizon: for how long, automatically or on request; where that is unknown, a guess that retries tells.
	retries      string
	retryHorizon time.Duration
	// prefix stands before every type.
	prefix string
	// names: types are in lower case, and then these are replaced in them (old, new, old, new; the prefix stays). Nil: verbatim.
	names []string
	// selects are the values that choose a rule: joined with "/", then shortened from the end until a rule has the name.
	selects []string
	rules   map[string]mapping
	// fields are what bodies have, by the first of selects, where that is a header and not signed.
	fields map[string]fields
	// delivery is where the provider's own id of a delivery is, if it is not signed, so that it cannot be the event's.
	delivery string
	// repeats are the event types whose bodies may be the same, byte for byte, in two events: where the id is made of the body, they are one.
	repeats []Repeat
	// each is where a delivery has its list of events, as [Config.Each]. Pointers are read inside an element, whose body it is for sha256:body,
	// too; headers are the delivery's. What stands around the list is in no event.
	each string
	// around, of an each with "/*/", are pointers to what stands beside the inner list. Its elements have that in the header [aroundHeader], for a scope.
	around []string
	// unpack, in the place of each, makes the deliveries of events of a delivery, of which the source takes so many bytes.
	unpack func(r *verify.Request, maxBody int64) ([]verify.Request, error)
	// fallback is the mapping of event types without a rule. Rules take id (with its scope), type, volatile, sender and title from it if they have
	// none. Its entity is as near as an unknown type can be held: what fails keeps back all that has the same entity.
	fallback mapping
	// formPayload is the field of a form body that holds the JSON text.
	formPayload string
	// payloadRule and formRule are the rules of form bodies with and without that field. If payloadRule is empty, the JSON text is
	// mapped like a JSON body.
	payloadRule, formRule string
	// emptyAnswer: a form that is durable is answered 200 without a body.
	emptyAnswer bool
	// headers are the original request headers kept on the event, in lower case.
	headers []string
	// says are the event types in which somebody says something to others, without prefix; a * at the end stands for any rest. Loops are counted
	// of these, and so none is what a program reports by itself, such as a check.
	says []string
	// chain: the senders are agents, and say in headers which agents led to a call.
	chain bool
	// takes says which answers the provider takes for a delivery that has arrived, and in brackets where that is written. Empty: not confirmed.
	takes string
	// accepted is the answer to a delivery that is durable; nil, or a nil answer: the usual one, a 202.
	accepted func(handshake) *Answer
	// challenge answers handshakes: authentic deliveries that are no event, and what comes with a method of asks.
	challenge func(handshake) (*Answer, bool)
	// confirm does what an authentic handshake wants beside its answer; nil: nothing.
	confirm func(handshake) error
	// asks are the methods beside POST with which the provider asks for the URL. Those that are true are verified like a delivery. The answer
	// to one that is not must say nothing that a stranger may not know.
	asks map[string]bool
}

// handshake is a request that a preset may answer by itself. Its Secret is the one that it was verified with.
type handshake struct {
	*verify.Request
	secrets  []schemas.Secret
	verifier verify.Verifier
}

// query returns a parameter of the URL.
func (h handshake) query(name string) string {
	values, err := url.ParseQuery(h.Query)
	if err != nil {
		return ""
	}
	return values.Get(name)
}

// sign returns the HMAC-SHA256 of a message in hex, with the secret that the request was verified with.
func (h handshake) sign(message string) string {
	m := hmac.New(sha256.New, []byte(h.secrets[max(h.Secret, 1)-1].Reveal()))
	m.Write([]byte(message))
	return hex.EncodeToString(m.Sum(nil))
}

// answerJSON is the answer of a value that JSON can have.
func answerJSON(value any) (*Answer, bool) {
	text, err := json.Marshal(value)
	return &Answer{Status: http.StatusOK, ContentType: "application/json", Body: text}, err == nil
}

// plainOK answers 200, for providers whose documentation does not name 202 among what they take.
func plainOK(handshake) *Answer { return &Answer{Status: http.StatusOK} }

// mapping says where id, type, entity and version of one family of event types are.
type mapping struct {
	id string
	// scope is what ids are unique inside of, where that is less than the source: it stands before them. Of an id that is made of the body it may
	// be the topic: of one body under two topics there are two events. Where it is not signed, bodies are held against fields, too.
	scope string
	// typ is joined with "." behind the preset's prefix.
	typ []string
	// entity's values are joined to the key. If it is nil, or none of its values is there, the source itself is the entity.
	entity []string
	// clocks are tried in order; the first that has a value is the version. Without one the version is none.
	clocks []clock
	// snapshots says which events only restate their object, so that a newer event of the same version line makes acting on them
	// pointless; every event that has a clock of theirs must carry the whole object, too. All others are deltas.
	snapshots *condition
	deleted   *condition
	volatile  []string
	first     *int64
	// sender says who made it happen, and title what the entity is called. What is not there, or cannot be an attribute, is left out.
	sender sender
	title  string
}

// sender is the id that stays when a name is changed, and the name. Where automation is nil, people and programs are not told apart; it
// asks a field that the provider sets, never the shape of a name.
type sender struct {
	id, login  string
	automation *condition
	// trust is what the provider says of the part that the user with the id at author has in the project: of the sender, if that is who.
	trust, author string
	// others are the other ids of whoever made the event, all of them: "app/{/app/id}|bot/{/bot_id}". mark holds for texts that a sink of ours
	// wrote. Both are of the object that the event brings, so they say something of its sender only where the event made it (made; nil: they
	// all do), or a program changed it (changed).
	others        string
	mark          *condition
	made, changed *condition
}

const day = 24 * time.Hour

// clock is a version field.
type clock struct {
	from string
	kind schemas.VersionKind
	name string
	// by is the id of a part of the entity that has a clock of its own: one of a commit's check runs.
	by         string
	resolution time.Duration // of timestamps: the unit of a bare number
	utc        bool          // timestamps have no zone, and are in UTC
	text       bool          // values of kind monotonic are texts
	// epoch comes before the value: an attempt, after which the statuses begin again.
	epoch string
	rank  *rank
}

// rank breaks ties of one clock by a status: its index in order, from 1; an unknown status is 0.
type rank struct {
	from  string
	order []string
}

// condition is true if the value is one of is, ends with suffix, has a line that begins with line, or is there at all, and unless is not true.
type condition struct {
	from   string
	is     []string
	suffix string
	line   string
	there  bool
	unless *condition
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
	var all []Info
	for _, name := range sortedKeys(catalogue) {
		all = append(all, infos()[name])
	}
	return all
}

// Lookup describes one preset. Callers share its lists, and write to none of them.
func Lookup(name string) (Info, bool) {
	i, ok := infos()[name]
	return i, ok
}

// infos describes the presets by name, once: a file of thousands of sources looks each of theirs up many times.
var infos = sync.OnceValue(func() map[string]Info {
	all := map[string]Info{}
	for name, p := range catalogue {
		all[name] = p.info()
	}
	return all
})

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// seconds returns a clock of times in whole seconds.
func seconds(from, name string) []clock { return []clock{second(from, name)} }

func second(from, name string) clock {
	return clock{from: from, kind: schemas.Timestamp, name: name, resolution: time.Second}
}

// each returns a clock for each object of its kind in an entity, by the object's id: so a comment is not late because another is newer.
func (k clock) each(by string) clock {
	k.by = by
	return k
}

// ends returns a clock on which what ends an object (an action such as deleted) is its newest. Providers send it with the time of the
// object's last change, so it ranks above that.
func (k clock) ends(from string, is ...string) clock {
	k.rank = &rank{from: from, order: is}
	return k
}

// millis returns a clock of times in whole milliseconds.
func millis(from, name string) []clock {
	return []clock{{from: from, kind: schemas.Timestamp, name: name, resolution: time.Millisecond}}
}

// micros returns a clock of times in whole microseconds.
func micros(from, name string) []clock {
	return []clock{{from: from, kind: schemas.Timestamp, name: name, resolution: time.Microsecond}}
}
