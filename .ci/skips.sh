#!/bin/bash
# skips.sh SKIPS ALLOWED: lists what was skipped, and fails if ALLOWED does not name it.
# SKIPS has lines `NAME: why`. ALLOWED has lines `NAME  # why that is right`.
set -eu
skips=$1
allowed=$2
sort -u -o "$skips" "$skips"
refused=0
while IFS= read -r line; do
  if sed 's/ *#.*//' "$allowed" | grep -Fxq -- "${line%%:*}"; then
    echo "skipped: $line"
  else
    echo "skipped, and not named in $allowed: $line" >&2
    refused=1
  fi
done < "$skips"
if [ ! -s "$skips" ]; then echo "nothing was skipped"; fi
exit "$refused"
