package verify

import (
	"fmt"
	"strings"
)

type pieceKind uint8

const (
	pieceLiteral pieceKind = iota
	pieceBody
	pieceTimestamp
	pieceID
	pieceURL
	pieceMethod
)

// piece is a part of what is signed.
type piece struct {
	kind    pieceKind
	literal string
}

var pieceNames = map[string]pieceKind{
	"body": pieceBody, "timestamp": pieceTimestamp, "id": pieceID, "url": pieceURL, "method": pieceMethod,
}

// parseTemplate reads a template of literals and {names}; a brace that never closes is a literal.
func parseTemplate(template string) ([]piece, error) {
	var pieces []piece
	for rest := template; rest != ""; {
		open := strings.IndexByte(rest, '{')
		end := strings.IndexByte(rest[max(open, 0):], '}')
		if open < 0 || end < 0 {
			return append(pieces, piece{literal: rest}), nil
		}
		name := rest[open+1 : open+end]
		kind, ok := pieceNames[name]
		if !ok {
			return nil, fmt.Errorf("signed: {%s} is not one of {body}, {timestamp}, {id}, {url}, {method}", name)
		}
		if open > 0 {
			pieces = append(pieces, piece{literal: rest[:open]})
		}
		pieces = append(pieces, piece{kind: kind})
		rest = rest[open+end+1:]
	}
	return pieces, nil
}

func uses(pieces []piece, kind pieceKind) bool {
	for _, p := range pieces {
		if p.kind == kind {
			return true
		}
	}
	return false
}
