// Package alerts says when somebody has to be called: the list of alerts, each declared once, and what evaluates them in a process for
// those who have no Prometheus.
//
// A [Rule] is a question about metrics of this process ([Expr]), how long it must hold, and words about it. Its PromQL is in
// deploy/alerts/forebay.rules.yaml, which is written from the rules; [History] answers the same question from the samples that
// [History.Record] kept. deploy/alerts/forebay.tests.yaml has both evaluated, by promtool and by the tests here. Each alert has a page
// deploy/runbooks/NAME.md.
//
// [Evaluator] evaluates the rules every few seconds and tells receivers what begins and what ends. Several processes that share a ledger
// tell it once: see [Board].
package alerts
