package slack

import "github.com/forebay-io/forebay/stream"

// classes are what the errors of Slack's API mean that are not rejected: a channel that is not there, a text that is too
// long, blocks that are none. The names are those of the methods' references and of docs.slack.dev/apis/web-api.
var classes = map[string]stream.Class{
	// More than Slack takes. It has not posted.
	"ratelimited":            stream.ClassThrottled,
	"rate_limited":           stream.ClassThrottled,
	"message_limit_exceeded": stream.ClassThrottled,

	// The token, or what it may do: nothing of this destination works until somebody mends it.
	"access_denied":                  stream.ClassDenied,
	"account_inactive":               stream.ClassDenied,
	"ekm_access_denied":              stream.ClassDenied,
	"enterprise_is_restricted":       stream.ClassDenied,
	"invalid_auth":                   stream.ClassDenied,
	"missing_scope":                  stream.ClassDenied,
	"no_permission":                  stream.ClassDenied,
	"not_allowed_token_type":         stream.ClassDenied,
	"not_authed":                     stream.ClassDenied,
	"org_login_required":             stream.ClassDenied,
	"team_access_not_granted":        stream.ClassDenied,
	"token_expired":                  stream.ClassDenied,
	"token_revoked":                  stream.ClassDenied,
	"two_factor_setup_required":      stream.ClassDenied,
	"restricted_action_app_disabled": stream.ClassDenied,

	// Slack's own trouble. It may have posted.
	"fatal_error":         stream.ClassBusy,
	"internal_error":      stream.ClassBusy,
	"request_timeout":     stream.ClassBusy,
	"service_unavailable": stream.ClassBusy,
	"team_added_to_org":   stream.ClassBusy, // the workspace is being moved
}

func classOf(name string) stream.Class {
	if class, ok := classes[name]; ok {
		return class
	}
	return stream.ClassRejected
}
