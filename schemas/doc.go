// Package schemas names the domain: events, entities, versions, ids and the closed list of error kinds.
//
// Every other package speaks in these words and none of them is imported here. The mapping of an [Event] to a
// Kafka record and back lives in schemas/record.
package schemas
