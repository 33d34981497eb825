package record

// attr is a CloudEvents attribute that an Event has a field for.
type attr int

const (
	attrSpecVersion attr = iota
	attrID
	attrDeliveryID
	attrSource
	attrType
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
	attrBodyHash
	attrDataSchema
	attrDataContentType
	attrTraceParent
	attrTraceState
	attrCount
)

const (
	prefix      = "ce_"
	httpPrefix  = "http_"
	contentType = "content-type"
	hopParent   = "traceparent"
	hopState    = "tracestate"
)

// headerNames are the names as headers, precomputed so that encoding concatenates none.
var headerNames = [attrCount]string{
	"ce_specversion", "ce_id", "ce_deliveryid", "ce_source", "ce_type", "ce_time", "ce_subject", "ce_partitionkey", "ce_recordedtime",
	"ce_entityversion", "ce_versionkind", "ce_versionclock", "ce_versionfirst", "ce_payloadkind", "ce_entitydeleted",
	"ce_backfill", "ce_bodyhash", "ce_dataschema", "ce_datacontenttype", "ce_traceparent", "ce_tracestate",
}

var attrsByName = func() map[string]attr {
	m := make(map[string]attr, attrCount)
	for i, name := range headerNames {
		m[name[len(prefix):]] = attr(i)
	}
	return m
}()

func (a attr) String() string { return headerNames[a][len(prefix):] }

// attributes are an event's attributes as text, before they are read. A nil entry of known is absent.
type attributes struct {
	known      [attrCount][]byte
	extensions map[string]string
}
