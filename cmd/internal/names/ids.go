package names

import (
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"github.com/forebay-io/forebay/schemas"
)

// Event names an event in a subscription by its source and id; or a record that the subscription did not take as an event, by its topic
// and "PARTITION@OFFSET". A source that is not of the subscription's team is named as events carry it, "/team/source".
type Event struct{ Team, Subscription, Source, ID string }

// String returns the id that lists print: TEAM/SUBSCRIPTION/SOURCE/ID. An id may contain slashes; a source that does is escaped.
func (e Event) String() string {
	return e.Team + "/" + e.Subscription + "/" + escapeSource(e.Source) + "/" + e.ID
}

func escapeSource(source string) string {
	if strings.ContainsAny(source, "/%") {
		return url.PathEscape(source)
	}
	return source
}

// ParseEvent reads an event's id as lists print it. Kind of error: Invalid.
func ParseEvent(text string) (e Event, err error) {
	parts := strings.SplitN(text, "/", 4)
	if len(parts) != 4 || parts[0] == "" || parts[1] == "" || parts[2] == "" || parts[3] == "" {
		return e, schemas.Errorf(schemas.Invalid, "", "%q is not TEAM/SUBSCRIPTION/SOURCE/EVENT; `forebay inbox list -o id` lists them", text)
	}
	if parts[2], err = url.PathUnescape(parts[2]); err != nil {
		return e, schemas.Errorf(schemas.Invalid, "", "%q is not TEAM/SUBSCRIPTION/SOURCE/EVENT: %w", text, err)
	}
	return Event{parts[0], parts[1], parts[2], parts[3]}, nil
}

// Entity names an entity of a source in a subscription.
type Entity struct {
	Team, Subscription, Source string
	Key                        schemas.EntityKey
}

// ParseEntity reads TEAM/SUBSCRIPTION/SOURCE and the entity beside it; or both in one, joined by a slash, if key is empty. Kind of error:
// Invalid.
func ParseEntity(text, key string) (Entity, error) {
	if key != "" {
		text += "/" + key
	}
	e, err := ParseEvent(text)
	if err != nil {
		return Entity{}, schemas.Errorf(schemas.Invalid, "", "%q is not TEAM/SUBSCRIPTION/SOURCE ENTITY; `forebay inbox list` shows both", text)
	}
	return Entity{e.Team, e.Subscription, e.Source, schemas.EntityKey(e.ID)}, nil
}

// Place is where a record is in the log.
type Place struct {
	Topic     string
	Partition int32
	Offset    int64
}

// String returns TOPIC/PARTITION@OFFSET.
func (p Place) String() string { return p.Topic + "/" + p.ID() }

// ID returns PARTITION@OFFSET, which stands for the event's id of a record that has none of its own.
func (p Place) ID() string { return fmt.Sprintf("%d@%d", p.Partition, p.Offset) }

// placeID matches PARTITION@OFFSET. The offset is negative if the log was cut and another record has the record's offset now.
var placeID = regexp.MustCompile(`^([0-9]{1,9})@(-?[0-9]{1,18})$`)

// ParsePlace reads a place in a topic from PARTITION@OFFSET. ok is false if id is not of this form.
func ParsePlace(topic, id string) (p Place, ok bool) {
	m := placeID.FindStringSubmatch(id)
	if m == nil || topic == "" {
		return p, false
	}
	partition, errPartition := strconv.ParseInt(m[1], 10, 32)
	offset, errOffset := strconv.ParseInt(m[2], 10, 64)
	return Place{topic, int32(partition), offset}, errPartition == nil && errOffset == nil
}

// ParseRecord is ParsePlace for the name of a record that a subscription did not take as an event: its topic stands where events have
// their source. A topic has a dot in its name, a source has none.
func ParseRecord(source, id string) (p Place, ok bool) {
	if !strings.Contains(source, ".") {
		return p, false
	}
	return ParsePlace(source, id)
}

// Delivery names a delivery that the intake set aside, by its source and its place.
type Delivery struct {
	Source    Name
	Partition int32
	Offset    int64
}

// ParseDelivery reads quarantine.TEAM.SOURCE/PARTITION@OFFSET. Kind of error: Invalid.
func ParseDelivery(text string) (d Delivery, err error) {
	topic, id, _ := strings.Cut(text, "/")
	place, ok := ParsePlace(topic, id)
	parts := strings.Split(topic, ".")
	if !ok || place.Offset < 0 || len(parts) != 3 || parts[0] != "quarantine" {
		return d, schemas.Errorf(schemas.Invalid, "", "%q is not quarantine.TEAM.SOURCE/PARTITION@OFFSET; `forebay quarantine list -o id` lists them", text)
	}
	return Delivery{Name{parts[1], parts[2]}, place.Partition, place.Offset}, nil
}

// String returns the id that `quarantine list` prints.
func (d Delivery) String() string {
	return Place{"quarantine." + d.Source.Team + "." + d.Source.Name, d.Partition, d.Offset}.String()
}
