// Package record maps events to Kafka records and back: the CloudEvents Kafka binding, written by hand.
//
// [Encode] writes binary mode, the form of every record of ours:
//
//	key      the entity
//	value    the raw body, byte for byte, never null
//	headers  ce_specversion ce_id ce_source ce_type ce_time ce_subject    CloudEvents
//	         ce_deliveryid                                                the provider's own id, where it is not the event's
//	         ce_senderid ce_senderlogin ce_senderkind ce_sendertrust      who made it happen
//	         ce_entitytitle                                               what the entity is called
//	         ce_conversation                                              true: it is what somebody says
//	         ce_agentchain ce_agentdepth ce_agenttraceid                  which agents called one another before
//	         ce_partitionkey ce_recordedtime ce_traceparent ce_tracestate its extensions
//	         ce_entityversion ce_versionkind ce_versionclock              what the gate orders by
//	         ce_versionfirst ce_payloadkind ce_entitydeleted ce_bodyhash
//	         ce_backfill                                                  true: synthetic, of a backfill
//	         ce_secretnumber                                              which of the source's secrets verified it, from 1
//	         ce_contentencoding                                           gzip: the value is compressed, see [schemas.Event.Text]
//	         content-type                                                 of the body, as received
//	         traceparent tracestate                                       the hop, see [SetHop]
//	         http_<name>                                                  original request headers
//	         __value_schema_id                                            under what a schema registry has ce_dataschema, see [SchemaIDHeader]
//	         forebay_redriven_<what>                                      an operator had it produced, see [SetRedriven]
//
// [Decode] reads binary and structured mode, from us and from other CloudEvents producers. [Pack] and [Unpack] are
// the byte form of a whole record for what must outlive its topic.
package record
