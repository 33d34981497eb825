package integration

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/forebay-io/forebay/cmd/internal/samples"
)

// pull is a GitHub delivery of some size: state number of a pull request, one second after the one before. What GitHub
// sends of one weighs 18 to 48 KB, and compresses some eight times.
func pull(repository, number, state, size int) delivery {
	body := func() []byte { return pullBody(repository, number, state, size) }
	return delivery{source: "github", event: "pull_request", id: bodyID(body()), entity: fmt.Sprintf("%d/%d", repository, number), number: state, make: body}
}

// pullSample is GitHub's own body, without white space, with its places for what differs, and with one reviewer.
type pullSample struct{ whole, light, least, reviewer string }

var loadPull = sync.OnceValue(func() (p pullSample) {
	s, err := samples.Lookup("github/pull_request.synchronize")
	if err != nil {
		panic(err)
	}
	var body map[string]any
	if err := json.Unmarshal(s.Body, &body); err != nil {
		panic(err)
	}
	one := body["pull_request"].(map[string]any)
	p.reviewer = encode(one["user"])
	one["number"], one["updated_at"], one["requested_reviewers"] = "NUMBER", "UPDATED", "REVIEWERS"
	body["number"], body["repository"].(map[string]any)["id"] = "NUMBER", "REPOSITORY"
	p.whole = encode(body)
	delete(one["head"].(map[string]any), "repo") // as when the fork is gone
	p.light = encode(body)
	p.least = encode(map[string]any{"action": "synchronize", "number": "NUMBER", "repository": map[string]any{"id": "REPOSITORY"},
		"pull_request": map[string]any{"number": "NUMBER", "updated_at": "UPDATED", "requested_reviewers": "REVIEWERS"}})
	return p
})

func encode(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// pullBody comes out within a reviewer's kilobyte of size.
func pullBody(repository, number, state, size int) []byte {
	p := loadPull()
	text := p.least
	if size >= len(p.whole) {
		text = p.whole
	} else if size >= len(p.light) {
		text = p.light
	}
	random := rand.New(rand.NewPCG(uint64(repository)<<32|uint64(number), uint64(state)))
	var reviewers bytes.Buffer
	for len(text)+reviewers.Len()+len(p.reviewer) <= size {
		if reviewers.Len() > 0 {
			reviewers.WriteByte(',')
		}
		login := fmt.Sprintf("%x", random.Uint64())
		reviewers.Write(bytes.ReplaceAll([]byte(p.reviewer), []byte("Codertocat"), []byte(login)))
	}
	at := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC).Add(time.Duration(state) * time.Second).Format(time.RFC3339)
	body := []byte(text)
	for _, r := range [][2]string{
		{`"NUMBER"`, fmt.Sprint(number)}, {`"UPDATED"`, fmt.Sprintf("%q", at)}, {`"REPOSITORY"`, fmt.Sprint(repository)},
		{`"REVIEWERS"`, "[" + reviewers.String() + "]"},
	} {
		body = bytes.ReplaceAll(body, []byte(r[0]), []byte(r[1]))
	}
	return body
}
