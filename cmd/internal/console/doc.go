// Package console is what the person on call looks at in a browser: pages that show what the operator API answers. They are rendered on
// the server from templates in the binary, work offline and without script (which makes the inbox live), and load nothing from elsewhere.
//
// The pages ask the interfaces of package api, with its names and its words, and sit behind the checks of its listener. They read no
// ledger and no broker themselves. Where people have to log in ([Login]), a page asks as who looks at it, and has no rights of its own. What a sender has written is shown as text, with its control characters made visible ([visible]).
//
//	/console/             Overview: what runs, and what waits for an operator
//	/console/inbox        the events, with the filters of `forebay inbox list` in the URL
//	/console/inbox/live   the same as server-sent events: rows as they come and change
//	/console/event        ?id=TEAM/SUBSCRIPTION/SOURCE/ID
//	/console/entity       ?of=TEAM/SUBSCRIPTION/SOURCE&entity=ENTITY
//	/console/attention    what waits for an operator, each with its command
//	/console/dlq          dead letters by group
//	/console/dlq/VERB     what replaying, discarding or resolving would do (GET), and that (POST); progress is how far a group is
//	/console/event/redrive  what redriving an event that waits would do, and that
//	/console/gaps         what waits behind gaps, by entity
//	/console/quarantine   deliveries that could not become events; .../TEAM/SOURCE/PARTITION/OFFSET is one
//	/console/approvals    what waits for a person's word; .../ID is one, with what is sent and the forms that answer
//	/console/replays      planned and started replays; .../ID is one
//	/console/sources      .../TEAM/SOURCE is one, with sending a test below it
//	/console/subscriptions  .../TEAM/SUBSCRIPTION is one, with pause, resume and seek below it
//	/console/destinations   .../TEAM/DESTINATION is one, .../DESTINATION a shared one, with pause and resume below it
//	/console/schemas      drift, and the catalogue; .../NAME is one
//	/console/audit        who changed what
//	/console/health       what this process is, and whether it can work
//	/console/login        with a token (POST), or by an OpenID provider: /console/login/oidc, which leads back to /console/login/callback
//
// A form that is sent twice does nothing twice: the API refuses what was done, and where it cannot know, the form says up to when it holds
// (dead letters) or after which seek (seeks).
package console
