package dev

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
)

// configName is the file that the first start writes into the data directory, to be read and changed.
const configName = "forebay.yaml"

// configText is the text of the sample configuration: two sources, the sample agent, a subscription for each source. Kafka and Postgres
// are left out, so the embedded ones are used.
const configText = `# Written by the first start of forebay dev; yours to change. The secrets are this machine's own.
version: 1
kafka: {embedded: true}                    # forebay dev brings both
postgres: {embedded: true}
listen:
  intake: %s
  operator: %s
  agents: %[6]s                 # destinations that finish later, and who asks what became of an event
agents: {public_url: "http://%[6]s", secrets: [%[7]s]}
topics: {partitions: 3, replication: 1, retention: 7d}
teams:
  demo:
    sources:
      github:                              # http://%[1]s/v1/in/demo/github
        preset: github
        secrets: [%[3]s]
      orders:
        preset: generic
        secrets: [%[4]s]
        verify: {algorithm: sha256, signature_header: X-Signature, prefix: "sha256=", encoding: hex, signed: "{body}"}
        event:
          id: /event_id                    # inside of what is signed
          type: /type
          entity: [/id]
          version: {from: /rev, kind: sequence}
          payload: snapshot
    destinations:
      agent:                               # the sample agent; GET http://%[5]s/calls shows what it was asked to do
        type: http
        url: http://%[5]s/sample-agent     # by this path: with another one it is an agent of yours, and dev starts none
        timeout: 10s
        allow_networks: [127.0.0.0/8]
    subscriptions:
      triage:
        sources: [github]
        begin: all
        actions: [{name: run, to: agent}]
      fulfil:
        sources: [orders]
        begin: all
        gap: {wait: 3s, then: skip}
        actions: [{name: run, to: agent}]
`

// samplePath is the path of the sample agent. By it the agent is known in a file that was changed: an address on loopback may be that of
// an agent of the user's own.
const samplePath = "/sample-agent"

// ports are the addresses that the sample configuration listens on: agent is the sample agent's, agents that of listen.agents.
type ports struct{ intake, operator, agent, agents string }

// usual are the documented addresses of `forebay dev`. If one is taken when the file is written, the file gets a free one instead.
var usual = ports{"127.0.0.1:8080", "127.0.0.1:9090", "127.0.0.1:8090", "127.0.0.1:8091"}

// anywhere lets the system choose the ports, for `forebay demo`.
var anywhere = ports{"127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0"}

// free returns p with a free address in place of each that is taken, or whose port is 0.
func (p ports) free() (ports, error) {
	var err error
	for _, addr := range []*string{&p.intake, &p.operator, &p.agent, &p.agents} {
		if *addr, err = freeAddress(*addr); err != nil {
			return p, err
		}
	}
	return p, nil
}

// freeAddress returns addr if nobody listens there, else one with a port that the system chooses. Another program may take it before this
// one listens there.
func freeAddress(addr string) (string, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		if l, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			return "", err
		}
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// ensureConfig writes the sample configuration into the directory data, unless it is there, and returns its path.
func ensureConfig(data string, p ports) (path string, err error) {
	path = filepath.Join(data, configName)
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return path, err
	}
	if p, err = p.free(); err != nil {
		return "", err
	}
	text := fmt.Sprintf(configText, p.intake, p.operator, secret(), secret(), p.agent, p.agents, secret())
	return path, writeWhole(path, text)
}

// secret returns a new random secret.
func secret() string {
	var b [24]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// writeWhole writes a file through a temporary one: if this process is killed, the file is there whole or not at all.
func writeWhole(path, text string) error {
	temporary := path + ".new"
	if err := os.WriteFile(temporary, []byte(text), 0o600); err != nil {
		return err
	}
	return os.Rename(temporary, path)
}
