package verify_test

import (
	"strings"
	"testing"
	"time"

	"github.com/forebay-io/forebay/ingest/verify"
)

func TestValidateSaysWhatToDo(t *testing.T) {
	t.Parallel()
	base := verify.Params{SignatureHeader: "X-Signature"}
	with := func(change func(*verify.Params)) verify.Params {
		p := base
		change(&p)
		return p
	}
	tests := []struct {
		params verify.Params
		want   string
	}{
		{verify.Params{}, "signature_header is missing"},
		{verify.Params{SignatureHeader: "X Signature"}, "not a header name"},
		{verify.Params{Scheme: "rot13"}, "use one of a2a, agent_key, ed25519, github, hmac"},
		{verify.Params{Scheme: "token"}, "header is missing"},
		{verify.Params{Scheme: "jwt"}, "issuer is missing"},
		{verify.Params{Scheme: "jwt", Issuer: "i", JWKSURL: "file:///etc/passwd"}, "jwks_url is not a URL"},
		{verify.Params{Scheme: "jwt", Issuer: "i", Header: "a b"}, "not a header name"},
		{verify.Params{Scheme: "a2a", JWKSURL: "https://example.com"}, "issuer is missing"},
		{verify.Params{Scheme: "agent_key", Header: "X-Key"}, "header has no meaning for scheme agent_key"},
		{verify.Params{Scheme: "github", Signed: "{body}"}, "signed has no meaning for scheme github"},
		{verify.Params{Scheme: "stripe", AllowSHA1: true}, "allow_sha1 has no meaning"},
		{verify.Params{Scheme: "standard_webhooks", HeaderPrefix: "x-"}, "header_prefix"},
		{verify.Params{Scheme: "websub", SignatureHeader: "a b"}, "not a header name"},
		{verify.Params{Scheme: "stripe", Tolerance: -1}, "tolerance must not be negative"},
		{verify.Params{Scheme: "stripe", KeyEncoding: "rot13"}, "key_encoding"},
		{with(func(p *verify.Params) { p.Algorithm = "md5" }), "algorithm \"md5\" is not one of sha1, sha256, sha512"},
		{with(func(p *verify.Params) { p.Encoding = "base32" }), "encoding"},
		{with(func(p *verify.Params) { p.TimestampUnit = "us" }), "timestamp_unit"},
		{with(func(p *verify.Params) { p.TimestampUnit = "ms" }), "need a timestamp"},
		{with(func(p *verify.Params) { p.Tolerance = time.Hour }), "need a timestamp"},
		{with(func(p *verify.Params) { p.Signed = "{bdoy}" }), "{bdoy} is not one of"},
		{with(func(p *verify.Params) { p.Signed = "{timestamp}" }), "must contain {body}"},
		{with(func(p *verify.Params) { p.Signed = "{timestamp}.{body}" }), "set timestamp_header"},
		{with(func(p *verify.Params) { p.TimestampHeader = "X-Time" }), "proves nothing"},
		{with(func(p *verify.Params) { p.TimestampHeader, p.TimestampPointer = "X-Time", "/t" }), "only one of"},
		{with(func(p *verify.Params) { p.TimestampHeader, p.Signed = "a b", "{timestamp}{body}" }), "timestamp_header \"a b\""},
		{with(func(p *verify.Params) { p.TimestampPointer = "t" }), "timestamp_pointer"},
		{with(func(p *verify.Params) { p.Signed = "{id}.{body}" }), "id_header belong together"},
		{with(func(p *verify.Params) { p.IDHeader = "X-Id" }), "id_header belong together"},
		{with(func(p *verify.Params) { p.IDHeader, p.Signed = "a b", "{id}.{body}" }), "id_header \"a b\""},
		{with(func(p *verify.Params) { p.IDHeader, p.Signed = "X-Id", "{id}{body}" }), "{id} needs a literal behind it"},
		{with(func(p *verify.Params) { p.IDHeader, p.Signed = "X-Id", "{body}.{id}" }), "{body} must be the last"},
		{with(func(p *verify.Params) { p.Signed = "{body}{body}" }), "{body} must be the last"},
		{with(func(p *verify.Params) { p.Field, p.Prefix = "v1", "v1=" }), "field excludes prefix"},
		{with(func(p *verify.Params) { p.TimestampField = "t" }), "timestamp_field needs field"},
		{with(func(p *verify.Params) { p.Field, p.TimestampField = "t", "t" }), "must differ"},
	}
	for _, tt := range tests {
		err := tt.params.Validate()
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: %v, want %q", tt.params, err, tt.want)
		}
		if _, err := verify.New(tt.params, nil); err == nil {
			t.Errorf("New accepts %+v", tt.params)
		}
	}
}
