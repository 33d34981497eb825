package verify

import (
	"errors"
	"fmt"
	"slices"
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

// borders refuses a template in which what a sender chooses could move from one piece into the next with the signature still right. The body
// and the id are of any length; a fresh timestamp has one length, the method is POST, and the URL is the source's own. An id may not contain
// the literal behind it (see [HMAC.read]), and so ends there.
func borders(pieces []piece) error {
	for i, p := range pieces {
		switch last := i+1 == len(pieces); {
		case p.kind == pieceID && !last && pieces[i+1].kind != pieceLiteral:
			return errors.New("signed: {id} needs a literal behind it, such as {id}.{body}: without, a part of the id can pass for a part of what follows")
		case p.kind == pieceBody && slices.ContainsFunc(pieces[i+1:], func(p piece) bool { return p.kind == pieceID || p.kind == pieceBody }):
			return errors.New("signed: {body} must be the last piece of any length: a part of it could pass for the {id} or {body} behind it")
		}
	}
	return nil
}

func uses(pieces []piece, kind pieceKind) bool {
	for _, p := range pieces {
		if p.kind == kind {
			return true
		}
	}
	return false
}
