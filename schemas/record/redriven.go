package record

import (
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/forebay-io/forebay/schemas"
)

// The headers that say of a record that an operator had it produced. They are no attributes of the event: no destination gets them.
const (
	redrivenPrefix = "forebay_redriven_"
	redrivenAt     = redrivenPrefix + "at"
	redrivenBy     = redrivenPrefix + "by"
	redrivenWhy    = redrivenPrefix + "why"
	redrivenFrom   = redrivenPrefix + "from"
)

// SetRedriven notes on r that an operator has it produced, and forgets what was noted before. [Decode] reads that back.
func SetRedriven(r *kgo.Record, d schemas.Redriven) {
	r.Headers = slices.DeleteFunc(r.Headers, func(h kgo.RecordHeader) bool { return strings.HasPrefix(h.Key, redrivenPrefix) })
	for _, h := range [][2]string{{redrivenAt, d.At.UTC().Format(time.RFC3339Nano)}, {redrivenBy, d.By}, {redrivenWhy, d.Reason}, {redrivenFrom, d.From}} {
		r.Headers = append(r.Headers, kgo.RecordHeader{Key: h[0], Value: []byte(h[1])})
	}
}

// readRedriven takes in one header of a redrive. What is wrong in it keeps no event back.
func readRedriven(e *schemas.Event, name string, value []byte) {
	if e.Redriven == nil {
		e.Redriven = &schemas.Redriven{}
	}
	switch name {
	case redrivenAt:
		e.Redriven.At, _ = time.Parse(time.RFC3339Nano, string(value)) // zero: not known
	case redrivenBy:
		e.Redriven.By = string(value)
	case redrivenWhy:
		e.Redriven.Reason = string(value)
	case redrivenFrom:
		e.Redriven.From = string(value)
	}
}
