// Package deployment is the tests of the files in deploy that others run: the chart's manifests, as .ci/deploy has rendered them, compose and units.
package deployment
