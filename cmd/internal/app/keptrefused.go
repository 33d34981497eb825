package app

import (
	"errors"
	"fmt"

	"github.com/forebay-io/forebay/cmd/internal/config"
	"github.com/forebay-io/forebay/ingest"
	"github.com/forebay-io/forebay/ingest/producer"
	"github.com/forebay-io/forebay/ingest/provider"
	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
)

// keptRefused returns what keeps refused deliveries of a source as the file says: that of before if that is the same. Those over a quota are
// kept unless the provider sends them again.
func keptRefused(s *config.Source, before *ingest.Source) *ingest.Refused {
	var limits *ingest.KeepLimits
	if k := s.KeepRefused; k != nil {
		limits = &ingest.KeepLimits{Share: float64(k.Share), Most: k.Most, Bytes: int64(k.Bytes)}
	}
	preset, _ := provider.Lookup(s.Preset) // found: the decoder takes no other
	return ingest.RefusedOf(limits, !preset.RepeatsItself(), before)
}

// verifyAgain verifies a refused delivery with its source's keys and tolerance of today, at the time at which it came, and notes which of the
// secrets it was. What was authentic when it came is not asked again.
func verifyAgain(source *ingest.Source, kept *producer.Item) error {
	if kept.Kind != ingest.KindRefused {
		return nil
	}
	const op = "redrive"
	r := kept.Request()
	if !kept.WasAuthentic() {
		if source.Proof().Unpacked && schemas.Zipped(r.Body) { // it was more than the source took
			text, err := schemas.Unzip(r.Body, source.MaxBody)
			if err != nil {
				return schemas.Errorf(schemas.Invalid, op, "its body still cannot be unpacked: %w; if it is too large, raise max_body of the source, else discard it with --discard", err)
			}
			r.Body = text
		}
		err := source.Verifier.Verify(r, kept.Received)
		if e, ok := errors.AsType[*verify.Error](err); ok && (e.Reason == verify.TooOld || e.Reason == verify.TooNew) {
			return schemas.Errorf(schemas.Invalid, op, "it still does not verify, at the time at which it came: %w; if the provider sends as late as that, raise verify.tolerance, else discard it with --discard", err)
		}
		if err != nil {
			return schemas.Errorf(schemas.Invalid, op, "it still does not verify: %w; write the secret that the provider signs with into the source's secrets, or discard it with --discard", err)
		}
		kept.Secret, kept.Caller, kept.Body = r.Secret, r.Caller, r.Body
	}
	if _, handshake := source.Challenge(r); handshake {
		return schemas.Errorf(schemas.Invalid, op, "it is a handshake of the provider, which becomes no event: have the provider repeat it, and discard this one with --discard")
	}
	return nil
}

// unknownKind is the error for a delivery that another version has kept.
func unknownKind(kept *producer.Item) error {
	return schemas.Errorf(schemas.Conflict, "redrive", "this delivery is kept as %q, which this version does not know; ask a newer one", kept.Kind)
}

// refusedAreKept says how deliveries that no secret of a source verifies are made events later; empty if they are not kept.
func refusedAreKept(c *config.Config, team, name string) string {
	if t := c.Teams[team]; t == nil || t.Sources[name] == nil || t.Sources[name].KeepRefused == nil {
		return ""
	}
	return fmt.Sprintf("; they are kept: `forebay quarantine list --kind refused --waiting --source %s/%s` lists them for `forebay quarantine redrive`", team, name)
}
