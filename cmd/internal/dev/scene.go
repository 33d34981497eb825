package dev

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/samples"
)

// The scene's size, as play prints it: 40 deliveries, a third of them sent twice, one more that is forged, and one more that is unusable.
const (
	sceneDeliveries = 40
	sceneRepeats    = sceneDeliveries / 3
)

// Two orders have a story of their own. One lacks two revisions: the first of them comes when the gap was skipped, the other never. Of the
// other order, the agent refuses a revision.
const (
	gapOrder, lateRev, withheldRev = 3, 3, 4
	refusedOrder, refusedRev       = 4, 2
)

// role is what a delivery is in the scene.
type role int

const (
	plain    role = iota
	forged        // signed with a secret that is not the source's
	unusable      // authentic, but sent as another event than it was signed for
	late          // sent last, when its place was skipped
	rejected      // plain for the sender; the agent refuses its action once
)

// event tells whether a delivery of this role becomes an event.
func (r role) event() bool { return r != forged && r != unusable }

// delivery is one request of the scene.
type delivery struct {
	role    role
	source  string
	id      string
	entity  string
	version int // of the entity: 1 for its first delivery, 2 for its second
	headers map[string]string
	body    []byte
}

func isRejected(d delivery) bool { return d.role == rejected }

// entityName names the delivery's entity among those of both sources: "source entity".
func (d *delivery) entityName() string { return d.source + " " + d.entity }

// scene returns the deliveries in the order in which they are sent, which is the same in every play. run is part of the events, so that
// those of two plays differ.
func scene(run string) ([]delivery, error) {
	all, err := histories(run)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(all, func(d delivery) bool { return d.role == late })
	filler := all[at]
	all = slices.Delete(all, at, at+1)
	rng := rand.New(rand.NewPCG(40, 12))
	rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	out := append([]delivery(nil), all...)
	out = append(out, all[:sceneRepeats]...)
	fake, renamed := all[0], all[slices.IndexFunc(all, func(d delivery) bool { return d.source == "github" })]
	fake.role, fake.id = forged, fake.id+"-forged"
	renamed.role = unusable
	out = append(out, fake, renamed)
	rng.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return append(out, filler), nil
}

// histories makes the deliveries that become events: the histories of three issues, two pull requests and four orders.
func histories(run string) ([]delivery, error) {
	var all []delivery
	add := func(versions int, newDelivery func(string, int, int) (delivery, error), entity int) error {
		for v := 1; v <= versions; v++ {
			d, err := newDelivery(run, entity, v)
			if err != nil {
				return err
			}
			switch of := [2]int{entity, v}; {
			case d.source != "orders":
			case of == [2]int{gapOrder, withheldRev}:
				continue
			case of == [2]int{gapOrder, lateRev}:
				d.role = late
			case of == [2]int{refusedOrder, refusedRev}:
				d.role = rejected
			}
			all = append(all, d)
		}
		return nil
	}
	for entity := 1; entity <= 3; entity++ {
		if err := add(4, issue, entity); err != nil {
			return nil, err
		}
	}
	for entity := 1; entity <= 2; entity++ {
		if err := add(5, pullRequest, entity); err != nil {
			return nil, err
		}
	}
	for entity := 1; entity <= 3; entity++ {
		if err := add(5, order, entity); err != nil {
			return nil, err
		}
	}
	if err := add(4, order, refusedOrder); err != nil {
		return nil, err
	}
	if len(all) != sceneDeliveries {
		return nil, fmt.Errorf("the scene has %d deliveries instead of %d", len(all), sceneDeliveries)
	}
	return all, nil
}

func issue(run string, number, v int) (delivery, error) {
	return github(run, "github/issues.labeled", "edited", number, v, "/issue")
}

func pullRequest(run string, number, v int) (delivery, error) {
	return github(run, "github/pull_request.synchronize", "synchronize", 100+number, v, "/pull_request")
}

const repository = 186853002 // of the captured payloads

// github varies a captured delivery of GitHub: the action, to one that makes it a snapshot, and number, title and time of the object at
// the pointer of. v is the version.
func github(run, sample, action string, number, v int, of string) (delivery, error) {
	at := time.Date(2026, 7, 1, 9, v, number%60, 0, time.UTC).Format(time.RFC3339)
	s, body, err := vary(sample, map[string]any{"/action": action, of + "/number": number, of + "/title": "Scene of " + run, of + "/updated_at": at})
	if err != nil {
		return delivery{}, err
	}
	d := delivery{source: "github", entity: fmt.Sprintf("%d/%d", repository, number), version: v, headers: s.Headers, body: body}
	d.id = fmt.Sprintf("sha256:%x", sha256.Sum256(body)) // GitHub signs nothing else
	d.headers["X-GitHub-Delivery"] = fmt.Sprintf("%s-%d-%d", run, number, v)
	return d, nil
}

// order varies a captured Shopify order. It adds a revision, by which the source is one of kind sequence, and the event's type and id.
// The order's id is beyond 2^53, as those of Shopify are.
func order(run string, n, rev int) (delivery, error) {
	id, event := json.Number(orderID(n)), fmt.Sprintf("%s-order-%d-%d", run, n, rev)
	s, body, err := vary("shopify/orders.create", map[string]any{"/id": id, "/rev": rev, "/type": "com.shop.order.changed", "/event_id": event})
	if err != nil {
		return delivery{}, err
	}
	return delivery{source: "orders", id: event, entity: id.String(), version: rev, headers: s.Headers, body: body}, nil
}

func orderID(n int) string { return fmt.Sprint(820982911946154500 + n) }

// vary returns a sample, and its body with the values at these JSON pointers replaced or added.
func vary(name string, values map[string]any) (samples.Sample, []byte, error) {
	s, err := samples.Lookup(name)
	if err != nil {
		return s, nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(s.Body))
	dec.UseNumber()
	doc := map[string]any{}
	if err := dec.Decode(&doc); err != nil {
		return s, nil, fmt.Errorf("sample %s: %w", name, err)
	}
	for pointer, v := range values {
		if err := set(doc, pointer, v); err != nil {
			return s, nil, fmt.Errorf("sample %s: %w", name, err)
		}
	}
	body, err := json.Marshal(doc)
	return s, body, err
}

// set sets the value at a pointer. The objects on the way must exist.
func set(doc map[string]any, pointer string, v any) error {
	steps := splitPointer(pointer)
	for _, step := range steps[:len(steps)-1] {
		next, ok := doc[step].(map[string]any)
		if !ok {
			return fmt.Errorf("%s: no object %q", pointer, step)
		}
		doc = next
	}
	doc[steps[len(steps)-1]] = v
	return nil
}
