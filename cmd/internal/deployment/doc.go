// Package deployment is the tests of files that others run: in deploy the chart's manifests, as .ci/deploy has rendered them, compose and units; and .ci/judge.
package deployment
