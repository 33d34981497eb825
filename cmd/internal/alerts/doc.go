// Package alerts calls somebody where there is no Prometheus. The alerts are those of deploy/alerts/forebay.rules.yaml, which is for
// Prometheus: a [Rule] asks the same of this process's own metrics in Go, most of all what waits for an operator (forebay_attention_waiting).
// deploy/alerts/forebay.tests.yaml is played to both, by promtool and by the tests here. Each alert has a page deploy/runbooks/NAME.md.
//
// A [Notifier] asks the rules every few seconds and tells receivers what begins, what is still there after a time, and what has ended.
// Several processes that share a ledger tell it once: see [Board].
package alerts
