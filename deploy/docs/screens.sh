#!/bin/sh
# Makes the screenshot of README from the scene that `make run` plays; it wants what `make deps` brings, and bin/forebay:
#   deploy/docs/screens.sh http://127.0.0.1:9090
set -eu
url=$1
cd "$(dirname "$0")"
docs=$PWD
cd ../..
entity=820982911946154503 # an order whose third state comes after its place was skipped, and whose fourth is withheld
cd cmd/internal/console/testdata/browser
CHROMIUM=${CHROMIUM:-$(command -v chromium)} node drive.mjs <<END
{"do":"look","scheme":"light","width":1280}
{"do":"open","url":"$url/console/entity?of=demo/fulfil/orders&entity=$entity"}
{"do":"shot","file":"$docs/console-entity.png"}
END
