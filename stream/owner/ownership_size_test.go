//go:build !race

package owner

// wholeSearch says that the ownership protocol is searched as far as a minute goes.
const wholeSearch = true
