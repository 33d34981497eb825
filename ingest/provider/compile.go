package provider

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
	"github.com/forebay-io/forebay/schemas/scan"
)

// Compile builds a source. Errors begin with the key of the file, below the source: "event.version.kind ...". No error quotes a secret.
func Compile(cfg Config) (*Source, error) {
	p, ok := catalogue[cfg.Preset]
	if !ok {
		return nil, fmt.Errorf("preset %q does not exist; use one of %s", cfg.Preset, strings.Join(sortedKeys(catalogue), ", "))
	}
	if err := cfg.validate(p); err != nil {
		return nil, err
	}
	s := &Source{Team: cfg.Team, Name: cfg.Name, Preset: p.name, MaxBody: p.maxBody, Deadline: p.deadline,
		preset: p, own: cfg.Own, chain: p.chain || cfg.Event != nil && cfg.Event.Chain, secrets: cfg.Secrets, uri: "/" + cfg.Team + "/" + cfg.Name, rules: map[string]*rule{},
		deliveries: sync.Pool{New: func() any { return new(delivery) }}}
	if cfg.MaxBody > 0 {
		s.MaxBody = cfg.MaxBody
	}
	if cfg.Deadline > 0 {
		s.Deadline = cfg.Deadline
	}
	params, err := cfg.params(p)
	if err != nil {
		return nil, err
	}
	scheme, err := verify.NewExpiring(params, cfg.Secrets, cfg.Around, cfg.Until)
	if err != nil {
		if _, key := errors.AsType[*verify.Error](err); key {
			return nil, &KeyError{"secrets", err}
		}
		return nil, fmt.Errorf("verify: %w", err)
	}
	s.Verifier, s.signer, s.proof = scheme, scheme, scheme.Proof()
	s.proof.Unpacked = params.Unpacked
	s.secret = params.SecretHeaders()
	s.preset.fallback.id = p.idAs(params)
	if p.names != nil && (cfg.Event == nil || cfg.Event.Type == "") {
		s.names = strings.NewReplacer(p.names...)
	}
	s.eachText = cmp.Or(cfg.Each, p.each)
	if s.each, err = compileEach(s.eachText); err != nil {
		return nil, err
	}
	if len(p.around) > 0 && s.eachText == p.each {
		if s.around, err = scan.Compile(p.around...); err != nil {
			return nil, err
		}
	}
	if err := s.compileRules(cfg.Event); err != nil {
		return nil, err
	}
	if err := s.compileSchema(cfg.Schema); err != nil {
		return nil, err
	}
	return s, s.compileHeaders(cfg.Event)
}

// idAs returns where the id is for a source that verifies by params. Of Standard Webhooks headers it is the one that is signed: of one family,
// where the source names it, and also where the preset itself knows another scheme (GitLab's signing token instead of its token).
func (p preset) idAs(params verify.Params) string {
	switch {
	case params.Scheme != verify.SchemeStandardWebhooks:
	case params.HeaderPrefix != "":
		return "header:" + params.HeaderPrefix + "id"
	case p.verify.Scheme != params.Scheme && p.name != "generic":
		return standardWebhooks().fallback.id
	}
	return p.fallback.id
}

// params joins the preset's scheme with the source's `verify:`.
func (cfg Config) params(p preset) (verify.Params, error) {
	params := p.verify
	if cfg.Verify != nil {
		if cfg.Verify.Scheme != "" && cfg.Verify.Scheme != params.Scheme {
			params = *cfg.Verify
		} else {
			params = params.With(*cfg.Verify)
		}
	}
	if cfg.KeyEncoding != "" {
		if params.KeyEncoding != "" && params.KeyEncoding != cfg.KeyEncoding {
			return params, fmt.Errorf("key_encoding %s contradicts verify.key_encoding %s: keep one", cfg.KeyEncoding, params.KeyEncoding)
		}
		params.KeyEncoding = cfg.KeyEncoding
	}
	return params, nil
}

// compileRules compiles the preset's rules and what chooses among them. A key that the user has set takes the place of that key in every rule;
// what a rule lacks it has from the fallback.
func (s *Source) compileRules(e *EventConfig) error {
	if e == nil {
		e = &EventConfig{}
	}
	var c refs
	var err error
	if s.selects, err = c.list(s.preset.selects); err != nil {
		return err
	}
	if s.fallback, err = c.rule(s.preset.fallback, s.preset.fallback, e); err != nil {
		return err
	}
	if s.preset.fields != nil {
		s.fields = c.fields(s.preset.fields)
	}
	if s.delivery, err = c.deliveryID(e.DeliveryID, s.preset.delivery); err != nil {
		return &KeyError{"event.delivery_id", err}
	}
	if s.each != nil && len(s.fallback.id.refs) == 1 && s.fallback.id.refs[0].kind == refHeader {
		return &KeyError{"event.id", fmt.Errorf("is read from header %s, which all elements of a list have: with each, take what is in the element, such as /id, or sha256:body",
			s.fallback.id.refs[0].name)}
	}
	for name, m := range s.preset.rules {
		if s.rules[name], err = c.rule(m, s.preset.fallback, e); err != nil {
			return err
		}
	}
	s.forms = c.forms || s.preset.formPayload != ""
	if len(c.pointers) == 0 {
		return nil
	}
	s.set, err = scan.CompileLoose(c.pointers, func(i int) bool { return !c.strict[i] })
	return err
}

// deliveryID compiles where the provider's id of a delivery is: as the user says, else the preset; nil if neither does.
func (c *refs) deliveryID(user, preset string) (*value, error) {
	if user == "" && preset == "" {
		return nil, nil // there is none
	}
	v, err := c.choose(user, preset)
	return &v, err
}

// compileHeaders notes which headers are kept: the preset's and the user's. It refuses those that carry secrets.
func (s *Source) compileHeaders(e *EventConfig) error {
	names := slices.Clone(s.preset.headers)
	if e != nil {
		names = append(names, e.KeepHeaders...)
	}
	for _, name := range names {
		h := header{strings.ToLower(name), http.CanonicalHeaderKey(name)}
		if secretHeader(h.canonical) || slices.Contains(s.secret, h.canonical) {
			return fmt.Errorf("event.keep_headers: %s carries a secret and is never kept", name)
		}
		if !slices.Contains(s.headers, h) {
			s.headers = append(s.headers, h)
		}
	}
	return nil
}

// secretHeader names what clients prove themselves with, whatever the source's scheme.
func secretHeader(canonical string) bool {
	return canonical == "Authorization" || canonical == "Cookie"
}

func (cfg Config) validate(p preset) error {
	for _, n := range []struct{ what, name string }{{"team", cfg.Team}, {"source", cfg.Name}} {
		if !validName(n.name) {
			return fmt.Errorf("%s name %q: use 1 to 40 characters of a-z, 0-9 and -", n.what, n.name)
		}
	}
	if err := validateOwn(cfg.Own); err != nil {
		return err
	}
	if cfg.MaxBody < 0 || cfg.Deadline < 0 {
		return errors.New("max_body and deadline must not be negative: leave them out for the preset's")
	}
	if p.name == "generic" {
		if cfg.Verify == nil {
			return errors.New("verify is missing: preset generic needs at least verify.signature_header")
		}
		if cfg.Event == nil {
			return errors.New("event is missing: preset generic needs event.id, event.type and event.entity")
		}
		if err := cfg.Event.complete(); err != nil {
			return err
		}
	}
	if cfg.Event == nil {
		return nil
	}
	return cfg.Event.validate()
}

// complete returns an error if a part is missing that preset generic needs.
func (e *EventConfig) complete() error {
	switch {
	case e.ID == "":
		return errors.New("event.id is missing: say where the dedupe id stands, for example /id, header:X-Event-Id or sha256:body")
	case e.Type == "":
		return errors.New("event.type is missing: say where the event type stands, for example /type or header:X-Event-Type")
	case e.Entity == nil:
		return errors.New("event.entity is missing: list the values that name what the event is about, for example [/order/id]; " +
			"[] makes all events of the source one entity, with one order")
	}
	return nil
}

// Bounds of lists. Each value of an entity may be an expression that costs some ten milliseconds for each delivery.
const (
	maxEntityValues = 16
	maxVolatile     = 100
	maxKeepHeaders  = 100
)

func (e *EventConfig) validate() error {
	for _, list := range []struct {
		key     string
		n, most int
	}{{"entity", len(e.Entity), maxEntityValues}, {"volatile", len(e.Volatile), maxVolatile}, {"keep_headers", len(e.KeepHeaders), maxKeepHeaders}} {
		if list.n > list.most {
			return fmt.Errorf("event.%s has %d values: %d are the most", list.key, list.n, list.most)
		}
	}
	if e.Payload != "" && !schemas.PayloadKind(e.Payload).Valid() {
		return fmt.Errorf("event.payload %q is not one of snapshot, delta", e.Payload)
	}
	if slices.Contains(append([]string{e.Type, e.DeliveryID}, e.Entity...), "sha256:body") || e.Deleted != nil && e.Deleted.From == "sha256:body" {
		return errors.New("event.type, event.delivery_id, event.entity and event.deleted.from cannot be sha256:body: it is for event.id")
	}
	for _, pointer := range e.Volatile {
		if _, err := scan.Compile(pointer); err != nil || pointer == "" {
			return fmt.Errorf("event.volatile: %q is not a JSON Pointer such as /attempt", pointer)
		}
	}
	for _, name := range e.KeepHeaders {
		if name == "" || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == ':' }) {
			return fmt.Errorf("event.keep_headers: %q is not a header name", name)
		}
	}
	if e.First != nil && (e.Version == nil || e.Version.Kind != string(schemas.Sequence)) {
		return errors.New("event.first needs event.version.kind: sequence")
	}
	if e.First != nil && *e.First < 0 {
		return errors.New("event.first must not be negative")
	}
	if e.Version == nil {
		return nil
	}
	return e.Version.validate()
}

func (v *VersionConfig) validate() error {
	switch kind := schemas.VersionKind(v.Kind); {
	case v.Kind == "":
		return errors.New("event.version.kind is missing: use sequence, monotonic, timestamp or none")
	case !kind.Valid():
		return fmt.Errorf("event.version.kind %q is not one of sequence, monotonic, timestamp, none", v.Kind)
	case kind == schemas.None && (v.From != "" || v.Clock != "" || v.Epoch != "" || v.Missing != ""):
		return errors.New("event.version.from, clock, epoch and missing have no meaning with kind: none")
	case kind != schemas.None && (v.From == "" || v.From == "sha256:body"):
		return errors.New("event.version.from is missing: say where the version stands, for example /order/rev")
	case v.Epoch == "sha256:body":
		return &KeyError{"event.version.epoch", errors.New("is the body's hash, which is no integer: say where the epoch stands, for example /order/incarnation")}
	case v.Missing != "" && v.Missing != MissingArrival:
		return fmt.Errorf("event.version.missing %q is not %s: leave it out to have a delivery without a version in quarantine", v.Missing, MissingArrival)
	case v.As != "" && v.As != asInteger && v.As != asText:
		return fmt.Errorf("event.version.as %q is not one of integer, text", v.As)
	case v.As != "" && kind != schemas.Monotonic:
		return errors.New("event.version.as is for kind: monotonic")
	case v.Resolution != 0 && kind != schemas.Timestamp:
		return errors.New("event.version.resolution is for kind: timestamp")
	case strings.ContainsFunc(v.Clock, func(r rune) bool { return !(r == '_' || r == '-' || 'a' <= r && r <= 'z' || '0' <= r && r <= '9') }) || len(v.Clock) > 40:
		return fmt.Errorf("event.version.clock %q: use up to 40 characters of a-z, 0-9, - and _", v.Clock)
	}
	if err := v.Rank.validate(schemas.VersionKind(v.Kind)); err != nil {
		return err
	}
	switch v.Resolution {
	case 0, time.Second, time.Millisecond, time.Microsecond, time.Nanosecond:
		return nil
	}
	return errors.New("event.version.resolution is not one of 1s, 1ms, 1us, 1ns")
}

func validName(name string) bool {
	if name == "" || len(name) > 40 {
		return false
	}
	for i := range len(name) {
		if c := name[i]; !('a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-') {
			return false
		}
	}
	return true
}
