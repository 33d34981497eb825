// Package registry speaks to a schema registry with Confluent's HTTP API: which schemas the configured sources have, whether the registry has
// them, and under which id.
//
//	Wanted   the schemas that the sources of a file hold bodies against, with their subjects
//	Plan     what the registry has of them; nothing is changed
//	Push     registers those that are new or changed
//	Lookup   the id of one, as a record header has it
//
// Nothing on the way of a delivery calls it: the intake asks for ids beside it, and goes on without them.
package registry
