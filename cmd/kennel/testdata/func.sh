#!/usr/bin/env bash
# Uses every part of an app once: a number, a gate, a batch of 1,000 and its
# report, a channel. $KENNEL is the command line; it finds the app by .kennel/url
# or $KENNEL_URL.
set -euo pipefail
kennel=${KENNEL:-bin/kennel}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

number=$("$kennel" next | tr -d '\r')
[[ $number =~ ^[0-9]+$ ]] || { echo "$number is not a number" >&2; exit 1; }
echo "number $number"

"$kennel" gate release func --yes
"$kennel" gate wait func --generation 0 --timeout 30s

"$kennel" sample billing -n 1000 >"$work/items"
"$kennel" submit "$work/items" --watch >"$work/batch"
grep ' is done: 1000 items' "$work/batch"
id=$(head -n 1 "$work/batch" | cut -d ' ' -f 1)
"$kennel" batch report "$id" --csv -o "$work/report"
[[ $(wc -l <"$work/report") -gt 1 ]] || { echo "the report is empty" >&2; exit 1; }
results=$("$kennel" batch results "$id" --outcome done | wc -l)
((results == 1000)) || { echo "$results results, want 1000" >&2; exit 1; }

"$kennel" channels create func --owner ann
"$kennel" blogs add func --title First --text Text --user ann
"$kennel" channels delete func --yes --watch | grep '^func was deleted with 1 blog'
echo "all of it works"
