//go:build !synctests

package simulation

// tagged says that kgo was built with locks that count as blocked in a bubble.
const tagged = false
