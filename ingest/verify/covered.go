package verify

import (
	"slices"
	"strings"
)

// Covers reports whether a signature covers the value of a header, beside the body, which each scheme but token signs.
func (p Params) Covers(header string) bool {
	switch p.Scheme {
	case "", SchemeHMAC:
		pieces, err := parseTemplate(p.withDefaults().Signed)
		if err != nil {
			return false
		}
		return strings.EqualFold(header, p.IDHeader) && uses(pieces, pieceID) ||
			strings.EqualFold(header, p.TimestampHeader) && uses(pieces, pieceTimestamp)
	case SchemeEd25519, SchemeSendGrid:
		return strings.EqualFold(header, builtIn(p).TimestampHeader)
	case SchemeRFC9421:
		return slices.ContainsFunc(strings.Fields(p.Components), func(name string) bool { return strings.EqualFold(name, header) })
	case SchemeHubSpot:
		return strings.EqualFold(header, hubspotStamp)
	case SchemeStandardWebhooks:
		for _, prefix := range p.prefixes() {
			if strings.EqualFold(header, prefix+"id") || strings.EqualFold(header, prefix+"timestamp") {
				return true
			}
		}
	}
	return false
}

// SignsURL reports whether a signature covers the URL that the provider calls, or what is signed names it.
func (p Params) SignsURL() bool {
	switch p.Scheme {
	case SchemeTwilio, SchemeRFC9421:
		return true
	case SchemeHubSpot:
		return p.Version != "v1"
	case SchemeJWT, SchemeA2A:
		return p.Issuer != "" && p.Audience == ""
	case "", SchemeHMAC:
	default:
		return false
	}
	pieces, err := parseTemplate(p.withDefaults().Signed)
	return err == nil && uses(pieces, pieceURL)
}
