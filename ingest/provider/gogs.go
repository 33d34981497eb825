package provider

import "time"

var _ = register(gogs())

// gogs: see gitea, which began as a copy of it. Gogs knows fewer events, names headers after itself, and signs the JSON text of a form, too:
// choose application/json.
// Sources: https://gogs.io/advancing/webhooks, gogs/gogs internal/database/webhook.go, go-playground/webhooks gogs and testdata/gogs.
func gogs() preset {
	p := forge("Gogs")
	p.name, p.title, p.prefix, p.deadline = "gogs", "Gogs", "io.gogs.", 15*time.Second
	return p
}
