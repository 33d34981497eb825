package provider

import (
	"time"

	"github.com/forebay-io/forebay/ingest/verify"
	"github.com/forebay-io/forebay/schemas"
)

var _ = register(opsgenie())

// opsgenie: an entity is an alert; each event is something that was done to it. `updatedAt` is in nanoseconds (`createdAt` in milliseconds).
// An alert that is routed to a second team is told as created once more, to that team's integrations.
//
// Opsgenie signs nothing: give the integration a custom header Authorization with "Bearer " and the source's secret. There is no id, so
// it is the body's hash.
// Sources: https://support.atlassian.com/opsgenie/docs/integrate-opsgenie-with-outgoing-webhooks, https://support.atlassian.com/opsgenie/docs/opsgenie-edge-connector-alert-action-data.
func opsgenie() preset {
	return preset{
		name: "opsgenie", title: "Opsgenie",
		verify:  verify.Params{Scheme: verify.SchemeToken, Header: "Authorization", Prefix: "Bearer "},
		maxBody: 1 << 20, deadline: 10 * time.Second, deadlineNote: "a guess: Opsgenie says none",
		retries: "some, at times that Opsgenie does not say", retryHorizon: day,
		prefix: "com.opsgenie.alert.", names: []string{" ", "_"},
		fallback: mapping{
			id:      "sha256:body",
			typ:     []string{"/action"},
			sender:  sender{id: "/alert/userId", login: "/alert/username"},
			title:   "/alert/message",
			entity:  []string{"/alert/alertId"},
			clocks:  []clock{{from: "/alert/updatedAt?", kind: schemas.Timestamp, resolution: time.Nanosecond}},
			deleted: &condition{from: "/action", is: []string{"Delete"}},
		},
	}
}
