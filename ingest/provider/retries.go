package provider

import "strings"

// RepeatsItself reports whether the provider is known to deliver again, of its own accord, what was not taken: what [Info].Retries says of it
// begins neither with "none" nor with "as the sender does".
func (i Info) RepeatsItself() bool {
	return !strings.HasPrefix(i.Retries, "none") && !strings.HasPrefix(i.Retries, "as the sender does")
}
