package owner

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/forebay-io/forebay/stream/ledger"
)

// marker is the metadata of our own commits. It tells them from commits by operators' tools: most tools leave the metadata empty,
// and a tool that copies it does not change the offset in it.
//
//	fb1:<namespace>:<generation>:<topic id in hex>:<offset>
type marker struct {
	namespace  string
	generation int32
	topic      ledger.TopicID
	offset     int64
}

const markerPrefix = "fb1"

func (m marker) String() string {
	return fmt.Sprintf("%s:%s:%d:%x:%d", markerPrefix, m.namespace, m.generation, m.topic[:], m.offset)
}

// parseMarker reads the text of a marker. It takes only what String writes, byte for byte.
func parseMarker(s string) (marker, bool) {
	parts := strings.Split(s, ":")
	if len(parts) != 5 || parts[0] != markerPrefix || parts[1] == "" {
		return marker{}, false
	}
	m := marker{namespace: parts[1]}
	gen, err := strconv.ParseInt(parts[2], 10, 32)
	if err != nil {
		return marker{}, false
	}
	m.generation = int32(gen)
	id, err := hex.DecodeString(parts[3])
	if err != nil || len(id) != len(m.topic) {
		return marker{}, false
	}
	copy(m.topic[:], id)
	if m.offset, err = strconv.ParseInt(parts[4], 10, 64); err != nil || m.offset < 0 {
		return marker{}, false
	}
	return m, m.String() == s
}
