// Package jsonschema holds events to JSON Schemas (2020-12).
//
// The folder events has one file an event family: those of the catalogue's providers, named as their types begin, and those of what Forebay
// writes itself (forebay.deadletter.json). They are the source: nothing generates them. Each names its own source in $comment, and in
// x-types the types that it is for, as globs whose only star is the last part.
//
// A schema of the catalogue requires what the catalogue reads of such a body (ingest/provider), says of which kind the provider's
// documented fields are, and leaves all else open. A team's own schema is [Parse]d by the same rules; none may make a check dear:
//
//	one text    nothing is fetched: a $ref leads to a place in the same text
//	no circle   a $ref that leads back to itself is refused, so that each check ends after a known number of steps
//	budget      a body that might take more than [Budget] steps, or that is over [MaxBody], is not checked, and that is said
//
//	schema, ok := jsonschema.Of("com.github.issues.opened")
//	verdict, why := schema.Check(body)
package jsonschema
