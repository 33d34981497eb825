package dev

import (
	"context"
	"fmt"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/api"
)

// observe counts in o.got what the operator's API and the agent show of the scene, once all of it has run.
func (s *session) observe(ctx context.Context, o *outcome) error {
	items, err := s.finishedItems(ctx)
	if err != nil {
		return err
	}
	for _, i := range items {
		o.got.duplicates += i.Duplicates
		if i.Status == "parked" {
			o.got.behind++
		}
		switch {
		case i.Decision == "stale":
			o.got.stale++
		case i.Reason == "released" || i.Reason == "gap_skipped" || i.Decision == "buffered":
			o.got.buffered++
		}
	}
	c, err := s.client()
	if err != nil {
		return err
	}
	kept, err := c.Quarantined(ctx, api.QuarantineFilter{Team: "demo", Limit: 100})
	if err != nil {
		return err
	}
	o.got.quarantined = len(kept.Items)
	dead, err := c.DeadLetters(ctx, api.DeadLetterFilter{Team: "demo", Limit: 100})
	if err != nil {
		return err
	}
	o.got.dead, o.dead = len(dead.Items), dead.Items
	s.observeOrder(o)
	return nil
}

// finishedItems waits until no event in the inbox has anything left to run, and returns the events.
func (s *session) finishedItems(ctx context.Context) ([]api.InboxItem, error) {
	c, err := s.client()
	if err != nil {
		return nil, err
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		page, err := c.Items(ctx, api.InboxFilter{Team: "demo", Limit: 500})
		if err != nil {
			return nil, err
		}
		open := max(0, sceneDeliveries-len(page.Items)) // the last one gives no action that tells of its end
		for _, i := range page.Items {
			switch i.Status {
			case "received", "buffered", "processing", "failed":
				open++
			}
		}
		if open == 0 {
			return page.Items, nil
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%d events are still open: %w", open, context.Cause(ctx))
		case <-tick.C:
		}
	}
}

// observeOrder notes in which order the agent was called for each entity, and how often twice under one key. Calls for events of other
// plays are left out.
func (s *session) observeOrder(o *outcome) {
	byID := map[string]delivery{}
	for _, d := range o.sent {
		if d.role.event() {
			byID[d.id] = d
		}
	}
	calls, repeats := s.agent.seen()
	o.repeats = repeats
	for _, c := range calls {
		if d, ok := byID[c.EventID]; ok {
			entity := d.entityName()
			o.got.run[entity] = append(o.got.run[entity], d.version)
		}
	}
}
