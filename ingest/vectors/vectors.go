// Package vectors is the test vectors of providers: signatures in public.json, real bodies in payloads, whose origins and licences are in
// payloads/SOURCES.md. Tests and `forebay sources test` read them as files; a binary carries those that [Samples] names.
package vectors

import "embed"

// Samples holds the bodies that `forebay send` knows by name and that the scene of `forebay dev` varies, as payloads/PROVIDER/NAME.json,
// and the notices that their licences ask for.
//
//go:embed payloads/SOURCES.md
//go:embed payloads/alertmanager/firing.json
//go:embed payloads/bitbucket-cloud/pullrequest.updated.json payloads/bitbucket-cloud/repo.push.json
//go:embed payloads/bitbucket-data-center/pr.modified.json payloads/bitbucket-data-center/pr.opened.json
//go:embed payloads/buildkite/build.finished.json
//go:embed payloads/circleci/workflow-completed.json
//go:embed payloads/datadog/query_alert_monitor.json
//go:embed payloads/gitea/issues.opened.json payloads/gitea/pull_request.opened.json payloads/gitea/push.json
//go:embed payloads/github/check_run.completed.json payloads/github/issues.labeled.json payloads/github/pull_request.opened.json
//go:embed payloads/github/pull_request.synchronize.json payloads/github/push.json
//go:embed payloads/gitlab/issue.open.json payloads/gitlab/merge_request.json payloads/gitlab/note.merge_request.json
//go:embed payloads/gitlab/push.json
//go:embed payloads/gogs/push.json
//go:embed payloads/grafana/firing.json
//go:embed payloads/jira/issue_updated.json
//go:embed payloads/linear/Comment.create.json payloads/linear/Issue.create.json payloads/linear/Issue.update.json
//go:embed payloads/anthropic/*.json payloads/openai/*.json payloads/svix/*.json
//go:embed payloads/calendly/*.json
//go:embed payloads/clerk/*.json
//go:embed payloads/cycles/*.json
//go:embed payloads/intercom/*.json
//go:embed payloads/paddle/*.json
//go:embed payloads/resend/*.json
//go:embed payloads/square/*.json
//go:embed payloads/telegram/*.json
//go:embed payloads/cal-com/*.json
//go:embed payloads/cursor/*.json
//go:embed payloads/elevenlabs/*.json
//go:embed payloads/retell/*.json
//go:embed payloads/vapi/*.json
//go:embed payloads/workos/*.json
//go:embed payloads/typeform/*.json
//go:embed payloads/zoom/*.json
//go:embed payloads/shopify/*.json
//go:embed payloads/notion/page.created.json
//go:embed payloads/opsgenie/Create.json
//go:embed payloads/pagerduty/incident.triggered.json
//go:embed payloads/sentry/error.created.json payloads/sentry/issue.created.json
//go:embed payloads/shopify/orders.create.json
//go:embed payloads/slack/app_mention.json payloads/slack/reaction_added.json
//go:embed payloads/stripe/customer.subscription.created.json payloads/stripe/invoice.paid.json
//go:embed payloads/vercel/deployment.error.json
//go:embed payloads/zendesk/ticket.created.json
var Samples embed.FS
