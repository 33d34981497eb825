package config

// apiKeys are the keys of destinations that are an API with a token.
var apiKeys = []string{"token", "base_url", "allow_networks", "params"}

// apiSink checks a destination that is an API.
func (ck *checker) apiSink(path string, d *Destination) {
	if d.Token.IsZero() && !ck.skip(path+".token") {
		ck.problem(path, "token is missing: what the API knows this destination by")
	}
	ck.apiURL(path, d)
}

// apiURL checks where an API is. Nothing written is the provider's own.
func (ck *checker) apiURL(path string, d *Destination) {
	allowed := ck.networks(path+".allow_networks", d.AllowNetworks)
	if !ck.written(path+".base_url") || ck.skip(path+".base_url") {
		return
	}
	ck.destinationURL(path+".base_url", d.BaseURL, allowed, len(d.AllowNetworks) > 0)
}
