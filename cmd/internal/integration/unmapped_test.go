package integration

import (
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/forebay-io/forebay/cmd/internal/rig"
)

// TestUnmappedTypesHoldBackLittle: what is given up keeps back its own entity. An event type without a mapping has its repository as
// entity, or its organization, so one that fails is felt nowhere else.
func TestUnmappedTypesHoldBackLittle(t *testing.T) {
	t.Parallel()
	const broken, whole = 17, 18 // repositories
	sent := []struct {
		event, payload string
		repository     int    // 0: the payload has none
		saw            string // by the agent, as type and entity; empty: nothing
	}{
		{"star", "star.created", broken, "star.created 17"}, // refused for good, so that its lane is parked
		{"star", "star.created", broken, ""},                // the same repository's, without the star: it is behind
		{"star", "star.created", whole, "star.created 18"},
		{"organization", "organization.member_added", 0, "organization.member_added organization:38302899"},
		{"deployment_status", "deployment_status.created", broken, "deployment_status.created 17/deployment/145988746"},
		{"deployment_status", "deployment_status.created", whole, "deployment_status.created 18/deployment/145988746"},
		{"discussion", "discussion.answered", broken, "discussion.answered 17/discussion/4"},
		{"release", "release.published", broken, "release.published 17/release/17372790"},
		{"create", "create", broken, "create 17/refs%252Ftags%252Fsimple-tag"},
		{"dependabot_alert", "dependabot_alert.created", broken, "dependabot_alert.created 17/dependabot_alert/20"},
		{"projects_v2_item", "projects_v2_item.edited", 0, "projects_v2_item.edited 38302899/project_item/5678510"},
	}
	r := deploy(t, rig.Fake(t), options{})
	var stars atomic.Int32
	r.agent.answers(http.StatusUnprocessableEntity, func(c call) bool { return c.typ == "com.github.star.created" && stars.Add(1) == 1 })
	p := r.serve("intake,stream")
	var want, saw []string
	for i, s := range sent {
		values := map[string]any{}
		if s.repository > 0 {
			values["/repository/id"] = s.repository
		}
		if s.saw == "" {
			values["/action"], values["/starred_at"] = "deleted", nil
		}
		body := varied(t, "github/"+s.payload, values)
		d := delivery{source: "github", id: bodyID(body), event: s.event, body: body}
		r.deliver(d)
		if s.saw != "" {
			want = append(want, s.saw)
		}
		if i == 0 {
			waitItems(t, r, p, 1, "--status", "dead_letter")
		}
	}
	waitItems(t, r, p, len(sent)-2, "--status", "done")
	for _, c := range r.agent.snapshot() {
		saw = append(saw, strings.TrimPrefix(c.typ, "com.github.")+" "+c.entity)
	}
	slices.Sort(want)
	slices.Sort(saw)
	if diff := cmp.Diff(want, saw); diff != "" {
		t.Errorf("the agent saw (+) instead of (-):\n%s", diff)
	}
}
