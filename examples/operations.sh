#!/bin/sh
# Output equivalence with `brownout check --op`, for a program that can print what it holds: after a crash it must
# print what it prints after the operations that were done, or after one more, if the crash came into one.
# docs/recovery.md explains it. Needs brownout on the PATH; ends with 1, since the program has a mistake.
set -eu

source=$(realpath "$(dirname "$0")/../corpus/recovery-failed/equivalence.c")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cc -g -D_GNU_SOURCE -o pair "$source"

# What it prints after 0, 1, 2 and 3 operations, without a crash.
mkdir expected
for operations in 0 1 2 3; do
	rm -f pool
	./pair pool $operations
	./pair pool print > expected/$operations
done

rm -f pool
brownout check --op operate --recover './pair pool print' --expect-one-of expected -- ./pair pool 3
