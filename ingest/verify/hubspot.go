package verify

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"

	"github.com/forebay-io/forebay/schemas"
)

// HubSpot's headers, canonical.
const (
	hubspotHeader  = "X-Hubspot-Signature"
	hubspotVersion = "X-Hubspot-Signature-Version"
	hubspotV3      = "X-Hubspot-Signature-V3"
	hubspotStamp   = "X-Hubspot-Request-Timestamp"
)

// HubSpot is HubSpot's scheme in its three versions: v1 is SHA-256 of secret and body, v2 of secret, method, URL and body, v3 an HMAC of method,
// URL, body and time. Params.Version pins one; without it v3 counts where it is there, else what the version header says. Safe for concurrent use.
// The zero value refuses everything.
//
// Sources: HubSpot/hubspot-api-nodejs src/services/http/Signature.ts, developers.hubspot.com/docs/apps/developer-platform/build-apps/authentication/request-validation.
type HubSpot struct {
	version   string
	tolerance time.Duration
	keys      [][]byte
}

// NewHubSpot builds the scheme. The secrets are client secrets.
func NewHubSpot(params Params, secrets []schemas.Secret) (*HubSpot, error) {
	if err := params.Validate(); err != nil {
		return nil, err
	}
	h := &HubSpot{version: params.Version, tolerance: params.Tolerance}
	if h.tolerance == 0 {
		h.tolerance = DefaultTolerance
	}
	var err error
	h.keys, err = decodeKeys(secrets, "text", "")
	return h, err
}

// Verify implements [Verifier].
func (h *HubSpot) Verify(r *Request, now time.Time) error {
	if len(h.keys) == 0 {
		return refuse(BadKey, "no secret")
	}
	version := h.version
	if version == "" {
		version = "v3"
		if r.Header[hubspotV3] == nil {
			said, bad := single(r.Header, hubspotVersion)
			if version = said; bad != nil {
				return bad
			}
		}
	}
	if r.URL == "" && version != "v1" {
		return refuse(Malformed, "the URL is signed and not known: set the source's public_url")
	}
	header, encoding := hubspotHeader, "hex"
	switch version {
	case "v1", "v2":
	case "v3":
		header, encoding = hubspotV3, "base64"
	default:
		return refuse(Malformed, "%s is not v1 or v2", hubspotVersion)
	}
	text, bad := single(r.Header, header)
	if bad != nil {
		return bad
	}
	var buf [96]byte
	if len(text) > len(buf) {
		return refuse(Malformed, "%s is too long", header)
	}
	got, ok := decodeDigest(encoding, text, buf[:])
	if !ok {
		return refuse(Malformed, "%s is not %s", header, encoding)
	}
	if version != "v3" {
		return h.match(r, version, "", got)
	}
	timestamp, bad := single(r.Header, hubspotStamp)
	if bad != nil {
		return bad
	}
	stamp, bad := readStamp("ms", timestamp)
	if bad != nil {
		return bad
	}
	return fresh(r, stamp, h.tolerance, now, h.match(r, version, timestamp, got))
}

func (h *HubSpot) match(r *Request, version, timestamp string, got []byte) error {
	for n, key := range h.keys {
		if hmac.Equal(got, hubspotDigest(key, r, version, timestamp)) {
			r.Secret = n + 1
			return nil
		}
	}
	return refuse(Mismatch, "the signature %s", version)
}

// hubspotPlain are the characters that HubSpot writes unescaped in the URL before it signs by v3.
var hubspotPlain = strings.NewReplacer("%3A", ":", "%2F", "/", "%3F", "?", "%40", "@", "%21", "!", "%24", "$", "%27", "'", "%28", "(", "%29", ")",
	"%2A", "*", "%2C", ",", "%3B", ";", "%3a", ":", "%2f", "/", "%3f", "?", "%2a", "*", "%2c", ",", "%3b", ";")

func hubspotDigest(key []byte, r *Request, version, timestamp string) []byte {
	d := sha256.New()
	switch version {
	case "v1":
		d.Write(key)
	case "v2":
		d.Write(append(append([]byte{}, key...), r.Method+r.URL...))
	case "v3":
		d = hmac.New(sha256.New, key)
		d.Write([]byte(r.Method + hubspotPlain.Replace(r.URL)))
	}
	d.Write(r.Body)
	d.Write([]byte(timestamp))
	return d.Sum(nil)
}

// Proof implements [Scheme].
func (h *HubSpot) Proof() Proof {
	return Proof{Headers: []string{hubspotHeader, hubspotVersion, hubspotV3, hubspotStamp}, URL: h.version != "v1"}
}

// Sign implements [Signer] with the first secret: as v3, unless the version is pinned.
func (h *HubSpot) Sign(r *Request, now time.Time) error {
	if len(h.keys) == 0 {
		return refuse(BadKey, "no secret")
	}
	if h.version == "v1" || h.version == "v2" {
		r.Header.Set(hubspotVersion, h.version)
		r.Header.Set(hubspotHeader, hex.EncodeToString(hubspotDigest(h.keys[0], r, h.version, "")))
		return nil
	}
	timestamp := formatStamp("ms", now)
	r.Header.Set(hubspotStamp, timestamp)
	r.Header.Set(hubspotV3, encodeDigest("base64", hubspotDigest(h.keys[0], r, "v3", timestamp)))
	return nil
}
