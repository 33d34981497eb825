package config

import (
	"net/url"
	"slices"
	"time"

	"github.com/forebay-io/forebay/ingest/provider"
	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas/jsonschema"
	"github.com/forebay-io/forebay/sinks/spec"
)

// maxBodyLimit is the largest max_body of a source. Records of that size must also fit into the broker.
const maxBodyLimit = Size(100 << 20)

// sourceCheck checks one source, whose keys are below path.
type sourceCheck struct {
	*checker
	path string
	s    *Source
}

// run checks the keys of the source that do not need the catalogue; compiling the source checks the rest.
func (ck sourceCheck) run() {
	path, s := ck.path, ck.s
	if len(s.Secrets) == 0 && !ck.unresolved(path+".secrets") && ck.written(path+".secrets") {
		ck.problem(path+".secrets", "is empty; a source without a secret would let everybody in")
	}
	if !ck.written(path+".secrets") && !ck.unresolved(path+".preset") && ck.needsSecrets() {
		ck.problem(path, "secrets is missing: %s", secretsDoc)
	}
	ck.issuer()
	if at := path + ".preset"; s.Preset == "agent" && ck.c.Agents.PublicURL == "" && !ck.unresolved("agents.public_url") {
		ck.note(at, "agents are told no status_url, at which to ask what became of an event: set listen.agents, agents.public_url and agents.secrets")
	}
	if s.MaxBody > maxBodyLimit {
		ck.problem(path+".max_body", "%s is more than %s", s.MaxBody, maxBodyLimit)
	}
	if ck.written(path + ".deadline") {
		ck.between(path+".deadline", s.Deadline, Duration(time.Second), Duration(50*time.Second)) // the listener cuts an answer off after 60 s
	}
	ck.topics(path+".topics", s.Topics)
	ck.rate(path+".rate", s.Rate)
	ck.outage()
	ck.fetches()
	if ck.unresolved(path + ".preset") {
		return
	}
	if s.Preset == "generic" {
		ck.generic()
	}
	ck.publicURL()
	ck.schema()
	ck.keepRefused()
	ck.firstFilter()
	ck.reconcile()
	for _, n := range (provider.Config{Preset: s.Preset, KeyEncoding: s.KeyEncoding, Verify: s.Verify, Event: s.Event}).Unsigned() {
		if at := path + "." + n.Key; !ck.unresolved(at) {
			ck.note(at, "%v", n.Err)
		}
	}
	if v := s.Verify; v != nil && v.KeyEncoding != "" && s.KeyEncoding != "" && v.KeyEncoding != s.KeyEncoding {
		ck.problem(path+".verify.key_encoding", "%s contradicts key_encoding %s beside secrets", v.KeyEncoding, s.KeyEncoding)
	}
	if e := s.Event; e != nil && e.Version != nil {
		ck.version(path+".event.version", e.Version)
	}
}

const secretsDoc = "Signing secrets, at most 8; any of them may match. A plain text is a secret that does not expire."

// needsSecrets reports whether nobody can prove anything without secrets: keys are neither an issuer's nor those of agents.
func (ck sourceCheck) needsSecrets() bool {
	v := ck.s.Verify
	return !(v != nil && v.JWKSURL != "" || ck.unresolved(ck.path+".verify.jwks_url") || ck.s.scheme() == verify.SchemeAgentKey)
}

// scheme returns the scheme by which a source is verified.
func (s *Source) scheme() string {
	if s.Verify != nil && s.Verify.Scheme != "" {
		return s.Verify.Scheme
	}
	info, _ := provider.Lookup(s.Preset)
	return info.Scheme
}

// issuer checks where an issuer's keys are.
func (ck sourceCheck) issuer() {
	at, v := ck.path+".verify.jwks_url", ck.s.Verify
	if v == nil || v.JWKSURL == "" || ck.unresolved(at) {
		return
	}
	u, err := url.Parse(v.JWKSURL)
	if err != nil {
		ck.problem(at, "cannot be parsed")
	} else if err := spec.CheckReach(u, v.AllowNetworks); err != nil {
		ck.problem(at, "%v", err)
	}
}

// outage checks that deliveries that are to be kept on disk have a directory, and notes where a provider sends nothing again.
func (ck sourceCheck) outage() {
	at := ck.path + ".on_broker_outage"
	if !ck.written(at) && ck.written("on_broker_outage") {
		at = "on_broker_outage"
	}
	if ck.unresolved(at) {
		return
	}
	switch spool := ck.s.OnBrokerOutage == OutageSpool; {
	case spool && ck.c.Intake.Spool.Dir == "" && !ck.unresolved("intake.spool.dir"):
		ck.problem(at, "spool needs a directory of this intake's own, on a disk that stays: write intake: {spool: {dir: /var/lib/forebay/spool}}")
	case !spool && !ck.written(at) && !ck.c.Kafka.Embedded && !ck.options.Embedded: // an embedded broker is not away without the intake
		if preset, ok := provider.Lookup(ck.s.Preset); ok && !preset.RepeatsItself() && ck.s.Preset != "generic" { // of whose senders nothing is known
			ck.note(ck.path+".preset", "%s is not known to deliver again by itself what was answered 503: on_broker_outage: spool keeps what comes while the brokers are away; on_broker_outage: refuse, written out, ends this note", preset.Title)
		}
	}
}

// schema checks a schema of the source's own, and that there is one to hold bodies against. Compiling the source parses the schema again, but
// is not come to while the file has other problems.
func (ck sourceCheck) schema() {
	at := ck.path + ".json_schema"
	own, text := at+".own", ck.s.JSONSchema.Own
	switch {
	case ck.unresolved(own):
		return
	case text != "":
		if _, err := jsonschema.Parse([]byte(text)); err != nil && ck.options.uses(own) {
			ck.problem(own, "%v", err)
		}
		return
	case ck.s.JSONSchema.Check == provider.SchemaOff || ck.unresolved(at+".check") || ck.unresolved(ck.path+".event.type"):
		return
	}
	if known, _ := (provider.Config{Preset: ck.s.Preset, Event: ck.s.Event}).Types(); len(known) == 0 {
		ck.problem(at, "check: %s has nothing to hold bodies against, since the catalogue knows no types of this source: give it a schema of its own, own: \"${file:PATH}\"", ck.s.JSONSchema.Check)
	}
}

// publicURL checks the form of public_url, that it is known where the signature covers the URL (a request's own Host would be the sender's word for
// it), and notes where it has no effect. s.PublicURL is the source's own, or made of intake.public_url.
func (ck sourceCheck) publicURL() {
	path, s := ck.path, ck.s
	if ck.written(path+".public_url") && !ck.unresolved(path+".public_url") && !callable(s.PublicURL) {
		ck.problem(path+".public_url", "is not a URL such as https://hooks.example.com/v1/in/team/source, without a query")
	}
	signed := provider.Config{Preset: s.Preset, KeyEncoding: s.KeyEncoding, Verify: s.Verify}.SignsURL()
	switch {
	case signed && s.PublicURL == "" && !ck.unresolved(path+".public_url") && !ck.unresolved("intake.public_url"):
		ck.problem(path, "public_url is missing: the signature covers the URL that the provider calls; write it here, or what stands before /v1/in in intake.public_url")
	case !signed && ck.written(path+".public_url"):
		ck.note(path+".public_url", "has no effect: the signature does not cover the URL")
	}
}

// generic checks a source with preset generic: the file must say how it is verified, and its event's id, type and entity.
func (ck sourceCheck) generic() {
	path, s := ck.path, ck.s
	if s.Verify == nil {
		ck.problem(path, "verify is missing: preset generic needs at least verify.signature_header")
	} else if !ck.unresolved(path+".verify.signature_header") && !ck.unresolved(path+".verify.scheme") {
		isHMAC := s.Verify.Scheme == "" || s.Verify.Scheme == verify.SchemeHMAC
		if isHMAC && s.Verify.SignatureHeader == "" {
			ck.problem(path+".verify", "signature_header is missing")
		}
	}
	if s.Event == nil {
		ck.problem(path, "event is missing: preset generic needs event.id, event.type and event.entity")
		return
	}
	for _, key := range []string{"id", "type", "entity"} {
		if !ck.written(path + ".event." + key) {
			ck.problem(path+".event", "%s is missing: preset generic needs event.id, event.type and event.entity", key)
		}
	}
}

// version checks the mapping of the version: from is there, and no key that has no meaning for its kind; the values of rank are
// listed once each.
func (ck sourceCheck) version(path string, v *provider.VersionConfig) {
	if v.Kind != "none" && v.From == "" && !ck.unresolved(path+".from") && !ck.unresolved(path+".kind") {
		ck.problem(path, "from is missing")
	}
	if v.Kind == "none" && v.From != "" {
		ck.problem(path+".from", "has no meaning with kind none")
	}
	if v.As != "" && v.Kind != "monotonic" && !ck.unresolved(path+".as") && !ck.unresolved(path+".kind") {
		ck.problem(path+".as", "has no meaning with kind %s: it is for kind monotonic", v.Kind)
	}
	if v.Kind == "none" && v.Epoch != "" {
		ck.problem(path+".epoch", "has no meaning with kind none")
	}
	if v.Rank == nil {
		return
	}
	if v.Kind == "none" {
		ck.problem(path+".rank", "has no meaning with kind none")
	}
	if len(v.Rank.Order) == 0 && ck.written(path+".rank.order") && !ck.unresolved(path+".rank.order") {
		ck.problem(path+".rank.order", "is empty; list the values from the first to the last")
	}
	for i, s := range v.Rank.Order {
		if at := path + ".rank.order[" + itoa(i) + "]"; !ck.unresolved(at) && slices.Index(v.Rank.Order, s) < i {
			ck.problem(at, "%q is listed twice", clip(s))
		}
	}
}
