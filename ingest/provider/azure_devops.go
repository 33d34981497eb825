package provider

import (
	"time"

	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
)

var _ = register(azureDevOps())

// azureDevOps: a pull request, a work item, a build, a run of a pipeline and a release are entities; a push may change several refs, so its
// entity is the repository. A work item counts its revisions; of workitem.updated the id is the update's, and the item's is beside it. All others
// have the time of the event. An update tells of a vote, a state or a field that changed, so all is a delta. A pull request says who made it,
// and not who changed it.
//
// A service hook signs nothing: give it basic authentication, of which the source's secret is base64("user:password"), or an HTTP header
// Authorization with a token of yours (`verify: {prefix: "Bearer "}`). A hook that fails is retried, then put on probation, then disabled.
// Sources: https://learn.microsoft.com/azure/devops/service-hooks/events, https://learn.microsoft.com/azure/devops/service-hooks/services/webhooks, go-playground/webhooks testdata/azuredevops.
func azureDevOps() preset {
	told := func(name string) []clock {
		return []clock{{from: "/createdDate", kind: schemas.Timestamp, name: name, resolution: time.Nanosecond}}
	}
	pull := mapping{entity: []string{"/resource/repository/id|/resource/pullRequest/repository/id", "/resource/pullRequestId|/resource/pullRequest/pullRequestId"}, clocks: told("pullrequest")}
	opened := pull
	opened.sender = sender{id: "/resource/createdBy/id", login: "/resource/createdBy/displayName"}
	item := mapping{entity: []string{"/resourceContainers/collection/id|/resourceContainers/account/id?", "workitem:{/resource/workItemId}|workitem:{/resource/id}"},
		clocks:  []clock{clock{from: "/resource/revision/rev|/resource/rev?", kind: schemas.Monotonic, name: "workitem"}.ends("/eventType", "workitem.deleted")},
		deleted: &condition{from: "/eventType", is: []string{"workitem.deleted"}}}
	return preset{
		name: "azure-devops", title: "Azure DevOps",
		verify:  verify.Params{Scheme: verify.SchemeToken, Header: "Authorization", Prefix: "Basic "},
		maxBody: 4 << 20, deadline: 10 * time.Second, deadlineNote: "a guess: Azure DevOps says none",
		retries: "several, at growing distances, before the hook is disabled", retryHorizon: day,
		prefix:  "com.azure.devops.",
		says:    []string{"ms.vss-code.git-pullrequest-comment-event", "workitem.commented"},
		selects: []string{"/eventType"},
		fallback: mapping{
			id:  "/id",
			typ: []string{"/eventType"},
			entity: []string{"/resourceContainers/project/id?", "run:{/resource/run/id}|release:{/resource/release/id}|release:{/resource/environment/releaseId}|" +
				"repository:{/resource/repository/id}?"},
			clocks: told("event"),
			sender: sender{id: "/resource/pushedBy/id|/resource/revisedBy/id|/resource/comment/author/id|/resource/lastChangedBy/id",
				login: "/resource/pushedBy/displayName|/resource/revisedBy/displayName|/resource/comment/author/displayName|/resource/lastChangedBy/displayName"},
			title: "/resource/title|/resource/pullRequest/title|/resource/fields/System.Title|/resource/revision/fields/System.Title|/resource/buildNumber|/resource/repository/name",
		},
		rules: map[string]mapping{
			"git.push":                                  {entity: []string{"/resource/repository/id"}},
			"git.pullrequest.created":                   opened,
			"git.pullrequest.updated":                   pull,
			"git.pullrequest.merged":                    pull,
			"ms.vss-code.git-pullrequest-comment-event": pull,
			"workitem.created":                          item,
			"workitem.updated":                          item,
			"workitem.commented":                        item,
			"workitem.deleted":                          item,
			"workitem.restored":                         item,
			"build.complete":                            {entity: []string{"/resourceContainers/project/id", "build:{/resource/id}"}, clocks: told("build")},
		},
	}
}
