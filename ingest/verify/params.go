package verify

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/forebay-io/forebay/schemas/scan"
)

// DefaultTolerance is the replay window of a scheme that signs a timestamp and names no other.
const DefaultTolerance = 5 * time.Minute

// Names of the schemes, as Params.Scheme and the vectors' `scheme` spell them.
const (
	SchemeHMAC             = "hmac"
	SchemeStandardWebhooks = "standard_webhooks"
	SchemeGitHub           = "github"
	SchemeStripe           = "stripe"
	SchemePaddle           = "paddle"
	SchemeWebSub           = "websub"
	SchemeToken            = "token"
	SchemeEd25519          = "ed25519"
	SchemeSendGrid         = "sendgrid"
	SchemeTwilio           = "twilio"
	SchemeHubSpot          = "hubspot"
	SchemeMailgun          = "mailgun"
	SchemeSNS              = "sns"
	SchemeRFC9421          = "rfc9421"
	SchemeJWT              = "jwt"
	SchemeA2A              = "a2a"
	SchemeAgentKey         = "agent_key"
)

// Params describes how a source signs. Its keys are those of the config's `verify:` and of the vectors' `params`.
//
// The zero value of a field is its default; a field that the scheme does not know is an error.
type Params struct {
	// Scheme names the rule; empty is hmac (in a source with a preset: the preset's).
	Scheme string `yaml:"scheme,omitempty" json:"scheme,omitempty"`

	// Algorithm is sha1, sha256 (default) or sha512.
	Algorithm string `yaml:"algorithm,omitempty" json:"algorithm,omitempty"`
	// SignatureHeader carries the signature or the list of signatures.
	SignatureHeader string `yaml:"signature_header,omitempty" json:"signature_header,omitempty"`
	// Encoding of the digest is hex (default), base64 or base64url.
	Encoding string `yaml:"encoding,omitempty" json:"encoding,omitempty"`
	// Prefix stands before every signature ("sha256=").
	Prefix string `yaml:"prefix,omitempty" json:"prefix,omitempty"`
	// Separator splits a list of signatures; empty means that the value is one signature.
	Separator string `yaml:"separator,omitempty" json:"separator,omitempty"`
	// Field names the signature inside a header of fields ("v1" in "t=..,v1=.."); excludes Prefix and Separator.
	Field string `yaml:"field,omitempty" json:"field,omitempty"`
	// ItemSeparator splits the fields of the header; default ",".
	ItemSeparator string `yaml:"item_separator,omitempty" json:"item_separator,omitempty"`
	// FieldSeparator splits a field's name from its value; default "=".
	FieldSeparator string `yaml:"field_separator,omitempty" json:"field_separator,omitempty"`

	// TimestampHeader, TimestampField (of the signature header) and TimestampPointer (into the body) say where the
	// timestamp is; at most one of them.
	TimestampHeader  string `yaml:"timestamp_header,omitempty" json:"timestamp_header,omitempty"`
	TimestampField   string `yaml:"timestamp_field,omitempty" json:"timestamp_field,omitempty"`
	TimestampPointer string `yaml:"timestamp_pointer,omitempty" json:"timestamp_pointer,omitempty"`
	// TimestampUnit is s (default), ms or rfc3339.
	TimestampUnit string `yaml:"timestamp_unit,omitempty" json:"timestamp_unit,omitempty"`
	// Tolerance is how far the timestamp may be from our clock, in both directions, inclusive; zero is 5m.
	Tolerance time.Duration `yaml:"tolerance,omitempty" json:"tolerance,omitempty"`

	// Signed is the template of what is signed: {body} (required), {timestamp}, {id}, {url}, {method} and literals;
	// default "{body}".
	Signed string `yaml:"signed,omitempty" json:"signed,omitempty"`
	// IDHeader is where {id} comes from.
	IDHeader string `yaml:"id_header,omitempty" json:"id_header,omitempty"`

	// KeyEncoding says what the secrets are: text (default), hex or base64.
	KeyEncoding string `yaml:"key_encoding,omitempty" json:"key_encoding,omitempty"`
	// KeyPrefix is cut off the secrets that have it, before they are decoded.
	KeyPrefix string `yaml:"key_prefix,omitempty" json:"key_prefix,omitempty"`

	// HeaderPrefix (standard_webhooks) is "webhook-" or "svix-"; empty takes either family.
	HeaderPrefix string `yaml:"header_prefix,omitempty" json:"header_prefix,omitempty"`
	// Query (token) is the parameter of the URL that carries the token, where no header does.
	Query string `yaml:"query,omitempty" json:"query,omitempty"`
	// Header (token, jwt) carries the token.
	Header string `yaml:"header,omitempty" json:"header,omitempty"`
	// Unpacked says that a body that comes compressed with gzip was signed before that; else it is signed as it comes. Of any scheme.
	Unpacked bool `yaml:"unpacked,omitempty" json:"unpacked,omitempty"`
	// Alg (rfc9421) is hmac-sha256, ed25519, ecdsa-p256-sha256, rsa-pss-sha512 or rsa-v1_5-sha256; required.
	Alg string `yaml:"alg,omitempty" json:"alg,omitempty"`
	// Components (rfc9421) are what a signature must cover, with spaces between; empty is "content-digest @method". Label names the
	// signature that counts; empty is any.
	Components string `yaml:"components,omitempty" json:"components,omitempty"`
	Label      string `yaml:"label,omitempty" json:"label,omitempty"`
	// Version (hubspot) is v1, v2 or v3; empty takes each.
	Version string `yaml:"version,omitempty" json:"version,omitempty"`
	// JWKSURL (jwt, a2a) is where the issuer's keys are. Without it the secrets are its keys.
	JWKSURL string `yaml:"jwks_url,omitempty" json:"jwks_url,omitempty"`
	// Issuer and Audience (jwt, a2a) are what iss and aud of a token must be; an empty audience is the URL that is called.
	Issuer   string `yaml:"issuer,omitempty" json:"issuer,omitempty"`
	Audience string `yaml:"audience,omitempty" json:"audience,omitempty"`
	// AllowNetworks (jwt, a2a) are private networks that JWKSURL may lead into.
	AllowNetworks []netip.Prefix `yaml:"allow_networks,omitempty" json:"allow_networks,omitempty"`
	// AllowSHA1 (github) falls back to X-Hub-Signature if X-Hub-Signature-256 is missing.
	AllowSHA1 bool `yaml:"allow_sha1,omitempty" json:"allow_sha1,omitempty"`
}

// Validate returns an error that says what is wrong and what to do about it, in the config's words. It does not look at secrets.
func (p Params) Validate() error {
	if p.Scheme == "" {
		p.Scheme = SchemeHMAC
	}
	known, ok := schemeFields[p.Scheme]
	if !ok {
		return fmt.Errorf("scheme %q does not exist; use one of %s", p.Scheme, strings.Join(Schemes(), ", "))
	}
	for _, f := range p.set() {
		if f != "unpacked" && !strings.Contains(known, " "+f+" ") {
			return fmt.Errorf("%s has no meaning for scheme %s: remove it, or set scheme", f, p.Scheme)
		}
	}
	if p.Tolerance < 0 {
		return errors.New("tolerance must not be negative: leave it out for 5m")
	}
	if err := oneOf("key_encoding", p.KeyEncoding, "text", "hex", "base64"); err != nil {
		return err
	}
	switch p.Scheme {
	case SchemeHMAC:
		return p.withDefaults().validateHMAC()
	case SchemeToken:
		if p.Query != "" && p.Header == "" {
			return nil
		}
		return requireHeaderName("header", p.Header, "the header that carries the token")
	case SchemeStandardWebhooks:
		return oneOf("header_prefix", p.HeaderPrefix, "webhook-", "svix-")
	case SchemeRFC9421:
		if p.Alg == "" {
			return errors.New("alg is missing: use one of " + strings.Join(messageAlgorithms, ", "))
		}
		return oneOf("alg", p.Alg, messageAlgorithms...)
	case SchemeHubSpot:
		return oneOf("version", p.Version, "v1", "v2", "v3")
	case SchemeEd25519:
		b := builtIn(p)
		return errors.Join(checkHeaderName("signature_header", b.SignatureHeader), checkHeaderName("timestamp_header", b.TimestampHeader),
			oneOf("encoding", p.Encoding, "hex", "base64", "base64url"), oneOf("key_encoding", p.KeyEncoding, "hex"))
	case SchemeWebSub:
		if p.SignatureHeader != "" {
			return checkHeaderName("signature_header", p.SignatureHeader)
		}
	case SchemeJWT, SchemeA2A:
		return p.validateJWT()
	}
	return nil
}

func (p Params) validateJWT() error {
	if p.Scheme == SchemeA2A && p.JWKSURL == "" && p.Issuer == "" && p.Audience == "" {
		return nil // the token alone
	}
	if u, err := url.Parse(p.JWKSURL); p.JWKSURL != "" && (err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http") {
		return errors.New("jwks_url is not a URL such as https://issuer.example.com/.well-known/jwks.json")
	}
	if p.Issuer == "" {
		return errors.New("issuer is missing: say what iss of a token must be, or every token that these keys have signed would be taken")
	}
	if p.Header != "" {
		return checkHeaderName("header", p.Header)
	}
	return nil
}

// schemeFields lists the parameters of each scheme, with a space on either side of every name.
var schemeFields = map[string]string{
	SchemeHMAC: " algorithm signature_header encoding prefix separator field item_separator field_separator timestamp_header " +
		"timestamp_field timestamp_pointer timestamp_unit tolerance signed id_header key_encoding key_prefix ",
	SchemeStandardWebhooks: " header_prefix tolerance key_encoding ",
	SchemeGitHub:           " allow_sha1 key_encoding key_prefix ",
	SchemeStripe:           " tolerance key_encoding ",
	SchemePaddle:           " tolerance key_encoding ",
	SchemeWebSub:           " signature_header key_encoding key_prefix ",
	SchemeToken:            " header prefix query ",
	SchemeEd25519:          " signature_header timestamp_header encoding tolerance key_encoding ",
	SchemeSendGrid:         " tolerance ",
	SchemeTwilio:           " ",
	SchemeHubSpot:          " version tolerance ",
	SchemeMailgun:          " tolerance ",
	SchemeSNS:              " tolerance ",
	SchemeRFC9421:          " alg label components tolerance key_encoding ",
	SchemeJWT:              " header prefix jwks_url issuer audience allow_networks tolerance ",
	SchemeA2A:              " jwks_url issuer audience allow_networks tolerance ",
	SchemeAgentKey:         " ",
}

// set lists the names of the fields that are not zero, Scheme aside.
func (p Params) set() []string {
	var names []string
	for field, v := range reflect.ValueOf(p).Fields() {
		if name, _, _ := strings.Cut(field.Tag.Get("yaml"), ","); name != "scheme" && !v.IsZero() {
			names = append(names, name)
		}
	}
	return names
}

func (p Params) validateHMAC() error {
	if err := requireHeaderName("signature_header", p.SignatureHeader, "the header that carries the signature"); err != nil {
		return err
	}
	if err := errors.Join(
		oneOf("algorithm", p.Algorithm, "sha1", "sha256", "sha512"),
		oneOf("encoding", p.Encoding, "hex", "base64", "base64url"),
		oneOf("timestamp_unit", p.TimestampUnit, "s", "ms", "rfc3339"),
	); err != nil {
		return err
	}
	pieces, err := parseTemplate(p.Signed)
	if err != nil {
		return err
	}
	if p.Field != "" && (p.Prefix != "" || p.Separator != "") {
		return errors.New("field excludes prefix and separator: with field, item_separator and field_separator split the header")
	}
	if p.Field == "" && p.TimestampField != "" {
		return errors.New("timestamp_field needs field: both are read from the fields of the signature header")
	}
	if p.Field != "" && p.Field == p.TimestampField {
		return errors.New("field and timestamp_field must differ")
	}
	return p.validateSigned(pieces)
}

// validateSigned checks the template of what is signed. The body must be in it. So must the id, if there is one, and the timestamp, if
// a header carries it: one that is read from the body is signed with the body.
func (p Params) validateSigned(pieces []piece) error {
	if !uses(pieces, pieceBody) {
		return errors.New("signed must contain {body}: a body that is not signed can be replaced")
	}
	if err := borders(pieces); err != nil {
		return err
	}
	timestampSources := 0
	for _, from := range []string{p.TimestampHeader, p.TimestampField, p.TimestampPointer} {
		if from != "" {
			timestampSources++
		}
	}
	stamped := uses(pieces, pieceTimestamp)
	switch {
	case timestampSources > 1:
		return errors.New("set only one of timestamp_header, timestamp_field and timestamp_pointer")
	case timestampSources == 0 && stamped:
		return errors.New("signed contains {timestamp}: set timestamp_header, timestamp_field or timestamp_pointer")
	case timestampSources == 1 && !stamped && p.TimestampPointer == "":
		return errors.New("the timestamp is not signed and proves nothing: put {timestamp} into signed, or remove timestamp_header and timestamp_field")
	case timestampSources == 0 && (p.Tolerance != 0 && p.Tolerance != DefaultTolerance || p.TimestampUnit != "s"):
		return errors.New("tolerance and timestamp_unit need a timestamp: set timestamp_header, timestamp_field or timestamp_pointer")
	case uses(pieces, pieceID) != (p.IDHeader != ""):
		return errors.New("{id} in signed and id_header belong together: set both or neither")
	}
	if p.TimestampHeader != "" {
		if err := checkHeaderName("timestamp_header", p.TimestampHeader); err != nil {
			return err
		}
	}
	if p.IDHeader != "" {
		if err := checkHeaderName("id_header", p.IDHeader); err != nil {
			return err
		}
	}
	if p.TimestampPointer != "" {
		if _, err := scan.Compile(p.TimestampPointer); err != nil {
			return fmt.Errorf("timestamp_pointer: %w", err)
		}
	}
	return nil
}

// withDefaults fills in what the hmac engine assumes.
func (p Params) withDefaults() Params {
	for _, d := range []struct {
		field *string
		value string
	}{
		{&p.Scheme, SchemeHMAC}, {&p.Algorithm, "sha256"}, {&p.Encoding, "hex"}, {&p.Signed, "{body}"},
		{&p.ItemSeparator, ","}, {&p.FieldSeparator, "="}, {&p.TimestampUnit, "s"},
	} {
		if *d.field == "" {
			*d.field = d.value
		}
	}
	return p
}

func oneOf(name, value string, allowed ...string) error {
	if value == "" {
		return nil
	}
	if slices.Contains(allowed, value) {
		return nil
	}
	return fmt.Errorf("%s %q is not one of %s", name, value, strings.Join(allowed, ", "))
}

// requireHeaderName checks a parameter that must name a header. The error for a missing one says what the header is for.
func requireHeaderName(name, value, what string) error {
	if value == "" {
		return fmt.Errorf("%s is missing: name %s", name, what)
	}
	return checkHeaderName(name, value)
}

// checkHeaderName checks that the value of a parameter is the name of a header.
func checkHeaderName(name, value string) error {
	if !httpguts.ValidHeaderFieldName(value) {
		return fmt.Errorf("%s %q is not a header name", name, value)
	}
	return nil
}

// Stamped reports whether the scheme checks a timestamp, so that Tolerance means something.
func (p Params) Stamped() bool {
	if p.Scheme == "" || p.Scheme == SchemeHMAC {
		return p.TimestampHeader != "" || p.TimestampField != "" || p.TimestampPointer != ""
	}
	return strings.Contains(schemeFields[p.Scheme], " tolerance ")
}

// SecretHeaders returns the headers (canonical) that have a secret itself in them.
func (p Params) SecretHeaders() []string {
	switch p.Scheme {
	case SchemeToken:
		return []string{http.CanonicalHeaderKey(p.Header)}
	case SchemeJWT:
		return []string{http.CanonicalHeaderKey(cmp.Or(p.Header, "Authorization"))}
	case SchemeAgentKey:
		return []string{"Authorization"}
	case SchemeA2A:
		return []string{"Authorization", a2aToken, a2aTokenSDK}
	}
	return nil
}

// With returns p with every field of o that is not zero.
func (p Params) With(o Params) Params {
	into, from := reflect.ValueOf(&p).Elem(), reflect.ValueOf(o)
	for i := range from.NumField() {
		if f := from.Field(i); !f.IsZero() {
			into.Field(i).Set(f)
		}
	}
	return p
}

// Signs returns the template of what a signature covers, as in Signed, and how far the signed time may be from our clock: zero where no time
// is signed. A token signs nothing, a JWT nothing of the delivery.
func (p Params) Signs() (template string, tolerance time.Duration) {
	switch p.Scheme {
	case SchemeToken, SchemeAgentKey, SchemeJWT, SchemeA2A:
		return "", 0
	case SchemeStandardWebhooks:
		template, tolerance = "{id}.{timestamp}.{body}", p.Tolerance
	case SchemeEd25519, SchemeSendGrid:
		template, tolerance = "{timestamp}{body}", p.Tolerance
	case SchemeTwilio:
		template = "{url}{body}"
	case SchemeHubSpot:
		switch p.Version {
		case "v1":
			return "{body}", 0
		case "v2":
			return "{method}{url}{body}", 0
		}
		template, tolerance = "{method}{url}{body}{timestamp}", p.Tolerance
	case SchemeRFC9421:
		template, tolerance = cmp.Or(p.Components, "content-digest @method"), p.Tolerance
	case SchemeSNS:
		template, tolerance = "{body}", cmp.Or(p.Tolerance, time.Hour)
	case SchemeMailgun:
		template, tolerance = "{timestamp}{id}", p.Tolerance
	case SchemeStripe, SchemePaddle, SchemeWebSub:
		b := builtIn(p)
		template, tolerance = b.Signed, b.Tolerance
	default:
		template, tolerance = p.Signed, p.Tolerance
	}
	if !p.Stamped() {
		tolerance = 0
	} else if tolerance == 0 {
		tolerance = DefaultTolerance
	}
	return cmp.Or(template, "{body}"), tolerance
}
