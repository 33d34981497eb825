package provider

import "strings"

// EventNames returns the events whose fields a preset knows, and the header that names them; empty: it is the body, or one of several headers.
func EventNames(preset string) (names []string, header string) {
	p := catalogue[preset]
	if len(p.selects) == 0 {
		return nil, ""
	}
	header, ok := strings.CutPrefix(p.selects[0], "header:")
	if !ok || strings.Contains(header, "|") {
		return nil, ""
	}
	return sortedKeys(p.fields), header
}
