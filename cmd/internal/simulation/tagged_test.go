//go:build synctests

package simulation

const tagged = true
