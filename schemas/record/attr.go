package record

// attr is an attribute of a CloudEvent for which an Event has a field.
type attr int

const (
	attrSpecVersion attr = iota
	attrID
	attrDeliveryID
	attrSource
	attrType
	attrSenderID
	attrSenderLogin
	attrSenderKind
	attrSenderTrust
	attrConversation
	attrAgentChain
	attrAgentDepth
	attrAgentTraceID
	attrTitle
	attrTime
	attrSubject
	attrPartitionKey
	attrRecordedTime
	attrEntityVersion
	attrVersionKind
	attrVersionClock
	attrVersionFirst
	attrPayloadKind
	attrEntityDeleted
	attrBackfill
	attrSecret
	attrBodyHash
	attrDataSchema
	attrDataContentType
	attrTraceParent
	attrTraceState
	attrCount
)

// Names of record headers: what begins those of attributes and of original request headers, and those of our own.
const (
	prefix      = "ce_"
	httpPrefix  = "http_"
	contentType = "content-type"
	hopParent   = "traceparent"
	hopState    = "tracestate"
)

// SchemaIDHeader has under what a schema registry has the schema that an event's attribute dataschema names. The name and the two forms of its
// value are those of Confluent's serializers for ids in headers.
const SchemaIDHeader = "__value_schema_id"

// headerNames are the attributes' names as record headers, made once.
var headerNames = [attrCount]string{
	"ce_specversion", "ce_id", "ce_deliveryid", "ce_source", "ce_type",
	"ce_senderid", "ce_senderlogin", "ce_senderkind", "ce_sendertrust", "ce_conversation", "ce_agentchain", "ce_agentdepth", "ce_agenttraceid", "ce_entitytitle", "ce_time", "ce_subject", "ce_partitionkey", "ce_recordedtime",
	"ce_entityversion", "ce_versionkind", "ce_versionclock", "ce_versionfirst", "ce_payloadkind", "ce_entitydeleted",
	"ce_backfill", "ce_secretnumber", "ce_bodyhash", "ce_dataschema", "ce_datacontenttype", "ce_traceparent", "ce_tracestate",
}

var attrsByName = func() map[string]attr {
	m := make(map[string]attr, attrCount)
	for i, name := range headerNames {
		m[name[len(prefix):]] = attr(i)
	}
	return m
}()

func (a attr) String() string { return headerNames[a][len(prefix):] }

// attributes are an event's attributes as they are on the record, not parsed yet.
type attributes struct {
	known      [attrCount][]byte // nil: absent
	extensions map[string]string
}
