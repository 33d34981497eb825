package provider

import (
	"time"

	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
)

var _ = register(vercel())

// vercel: an entity is a deployment, else the project, the domain or the configuration of an integration that the event is about. Each event
// says what happened, at `createdAt`.
//
// The id is in the body. The digest is SHA-1, and the key the secret of the hook, or of the integration. Vercel says no deadline.
// Sources: https://vercel.com/docs/webhooks, https://vercel.com/docs/webhooks/webhooks-api.
func vercel() preset {
	return preset{
		name: "vercel", title: "Vercel",
		verify:  verify.Params{Scheme: verify.SchemeHMAC, SignatureHeader: "x-vercel-signature", Algorithm: "sha1"},
		maxBody: 1 << 20, deadline: 10 * time.Second, deadlineNote: "a guess: Vercel says none",
		retries: "for up to 24 h, at growing distances", retryHorizon: day,
		prefix: "com.vercel.",
		fallback: mapping{
			id:  "/id",
			typ: []string{"/type"},
			entity: []string{"/payload/deployment/id|/payload/deploymentId|project:{/payload/project/id}|project:{/payload/projectId}|" +
				"configuration:{/payload/configuration/id}|domain:{/payload/domain/name}|team:{/payload/team/id}?"},
			clocks:  []clock{{from: "/createdAt", kind: schemas.Timestamp, resolution: time.Millisecond}},
			deleted: &condition{from: "/type", is: []string{"deployment.deleted", "project.removed", "integration-configuration.removed"}},
			sender:  sender{id: "/payload/user/id"},
			title:   "/payload/deployment/name|/payload/project/name|/payload/domain/name",
		},
	}
}
