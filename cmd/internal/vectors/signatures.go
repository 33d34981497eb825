package vectors

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/forebay-io/forebay/ingest/provider"
	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
)

// signatureFile is the part of vectors/public.json that is run.
type signatureFile struct {
	FormatVersion int `json:"format_version"`
	Signatures    []signatureCase
	Challenges    []challengeCase
}

// signatureCase is a request, and whether it must be accepted.
type signatureCase struct {
	ID, Provider, Scheme string
	Params, Options      json.RawMessage // fields of verify.Params: what the scheme is, and what the case sets differently
	Keys                 []key
	Request              request
	Now                  *float64 // the time of verification, in Unix seconds; nil: freshness is not tested
	Tolerance            *float64 `json:"tolerance_s"`
	Expect               struct {
		Valid  bool
		Reason verify.Reason
	}
}

// key is a secret: its bytes as utf8, hex or base64, or a key of Standard Webhooks as whsec or whpk.
type key struct{ Format, Value string }

// RunSignatures runs the signature and challenge cases of the file at path and writes a line per failure to w, then the
// counts. The error is about the file or w, never about a case.
func RunSignatures(path string, w io.Writer) (Result, error) {
	var file signatureFile
	if err := readJSON(path, &file); err != nil {
		return Result{}, err
	}
	if file.FormatVersion != 1 {
		return Result{}, fmt.Errorf("read %s: format_version %d, this program knows 1", path, file.FormatVersion)
	}
	r := report{w: w}
	for _, c := range file.Signatures {
		r.count(c.ID, c.run(filepath.Dir(path)))
	}
	for _, c := range file.Challenges {
		r.count(c.ID, c.run(filepath.Dir(path)))
	}
	return r.finish()
}

// run verifies the request by the case's own parameters, and then by the provider's preset.
func (c signatureCase) run(dir string) error {
	if !slices.Contains(verify.Schemes(), c.Scheme) {
		return skip{"no scheme " + c.Scheme}
	}
	params, err := c.params()
	if err != nil {
		return err
	}
	req, err := c.Request.build(dir)
	if err != nil {
		return err
	}
	secrets, err := secretsOf(c.Keys, c.Scheme)
	if err != nil {
		return err
	}
	if err := c.compare(verifyWith(params, secrets, req, clock(c.Now))); err != nil {
		return err
	}
	return c.runPreset(params, secrets, req)
}

// verifyWith verifies a request. The error is a *verify.Error if the request is refused, another one if the parameters make no verifier.
func verifyWith(p verify.Params, secrets []schemas.Secret, r *verify.Request, now time.Time) error {
	scheme, err := verify.New(p, secrets)
	if err != nil {
		return err
	}
	return scheme.Verify(r, now)
}

// runPreset verifies the request by the parameters of the provider's preset, too, if there is one and it has the case's scheme. This
// tests what is written in the preset, which the case's own parameters do not.
func (c signatureCase) runPreset(params verify.Params, secrets []schemas.Secret, r *verify.Request) error {
	preset, ok := c.preset()
	if !ok {
		return nil
	}
	if err := strict(c.Options, &preset); err != nil {
		return fmt.Errorf("options: %w", err)
	}
	preset.Tolerance, preset.KeyEncoding = params.Tolerance, params.KeyEncoding
	if err := c.compare(verifyWith(preset, secrets, r, clock(c.Now))); err != nil {
		return fmt.Errorf("preset %s: %w", c.Provider, err)
	}
	return nil
}

// preset returns the parameters of the provider's preset; ok is false if there is none, or it has another scheme.
func (c signatureCase) preset() (p verify.Params, ok bool) {
	info, ok := provider.Lookup(presetOf(c.Provider))
	return info.Verify, ok && info.Scheme == c.Scheme
}

// params returns the case's parameters and options, with the key encoding and tolerance that its keys and clock need.
func (c signatureCase) params() (verify.Params, error) {
	var p verify.Params
	for _, raw := range []json.RawMessage{c.Params, c.Options} {
		if err := strict(raw, &p); err != nil {
			return p, fmt.Errorf("params: %w", err)
		}
	}
	p.Scheme = c.Scheme
	if p.Scheme == verify.SchemeRFC9421 {
		p.Components = "date" // the cases of the RFC cover no body
	}
	if c.Scheme == verify.SchemeStandardWebhooks && len(c.Keys) > 0 && !strings.HasPrefix(c.Keys[0].Format, "wh") {
		p.KeyEncoding = "text"
	}
	switch {
	case !p.Stamped():
	case c.Now == nil || c.Tolerance == nil:
		p.Tolerance = math.MaxInt64 // 292 years: freshness is not checked
	default:
		p.Tolerance = max(time.Duration(*c.Tolerance*float64(time.Second)), 1) // zero would be the default
	}
	return p, nil
}

// clock returns the case's time of verification, to the millisecond. For a case without one it is in 2038: every timestamp is then within
// the tolerance of 292 years.
func clock(now *float64) time.Time {
	if now == nil {
		return time.Unix(1<<31, 0)
	}
	return time.UnixMilli(int64(math.Round(*now * 1000)))
}

// compare returns how err, the result of the verification, differs from what the case expects; nil if it does not.
func (c signatureCase) compare(err error) error {
	refusal, refused := errors.AsType[*verify.Error](err)
	switch {
	case c.Expect.Valid && err == nil:
		return nil
	case c.Expect.Valid:
		return fmt.Errorf("want it accepted, got %w", err)
	case err == nil:
		return fmt.Errorf("want %s, but it was accepted", c.Expect.Reason)
	case !refused:
		return fmt.Errorf("want %s, but the source cannot be built: %w", c.Expect.Reason, err)
	case refusal.Reason == c.Expect.Reason || equivalent(refusal.Reason, c.Expect.Reason):
		return nil
	}
	return fmt.Errorf("want %s, got %w", c.Expect.Reason, err)
}

// equivalent reports whether both reasons are Malformed or Mismatch. Which of the two a wrong signature gets depends on whether its form
// or its value is checked first, so a case may have either.
func equivalent(a, b verify.Reason) bool {
	wrong := func(r verify.Reason) bool { return r == verify.Malformed || r == verify.Mismatch }
	return wrong(a) && wrong(b)
}

// secretsOf decodes keys to the secrets of a source. Keys of Standard Webhooks stay as they are written: the scheme decodes them.
func secretsOf(keys []key, scheme string) ([]schemas.Secret, error) {
	var secrets []schemas.Secret
	for i, k := range keys {
		text := k.Value
		var raw []byte
		var err error
		switch k.Format {
		case "utf8", "whsec", "whpk", "spki-base64", "x509-pem":
		case "hex":
			if scheme == verify.SchemeEd25519 { // which takes it so
				break
			}
			raw, err = hex.DecodeString(k.Value)
			text = string(raw)
		case "base64":
			raw, err = base64.StdEncoding.DecodeString(k.Value)
			text = string(raw)
		default:
			return nil, skip{"no key format " + k.Format}
		}
		if err != nil {
			return nil, fmt.Errorf("key %d is not %s", i+1, k.Format)
		}
		secrets = append(secrets, schemas.NewSecret(text))
	}
	return secrets, nil
}
