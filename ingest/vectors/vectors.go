// Package vectors is the test vectors of providers: signatures in public.json, real bodies in payloads, whose origins and licences are in
// payloads/SOURCES.md. Tests and `forebay sources test` read them as files, and a binary carries the bodies.
package vectors

import "embed"

// Samples holds the bodies that `forebay send` knows by name and that the scene of `forebay dev` varies, as payloads/PROVIDER/NAME.json,
// and the notices that their licences ask for.
//
//go:embed payloads
var Samples embed.FS
