// Package console is what the person on call looks at in a browser: pages that show what the operator API answers. They are rendered on
// the server from templates in the binary, work offline and without script (which makes the inbox live), and load nothing from elsewhere.
//
// The pages ask the interfaces of package api, with its names and its words, and sit behind the checks of its listener. They read no
// ledger and no broker themselves. What a sender has written is shown as text, with its control characters made visible ([visible]).
//
//	/console/             Overview: what runs, and what waits for an operator
//	/console/inbox        the events, with the filters of `forebay inbox list` in the URL
//	/console/inbox/live   the same as server-sent events: rows as they come and change
//	/console/event        ?id=TEAM/SUBSCRIPTION/SOURCE/ID
//	/console/entity       ?of=TEAM/SUBSCRIPTION/SOURCE&entity=ENTITY
//	/console/attention    what waits for an operator, each with its command
//	/console/dlq          dead letters by group
//	/console/dlq/replay   what a replay would do (GET), and the replay (POST)
package console
