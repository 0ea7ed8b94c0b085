#!/bin/sh
# Output equivalence with `brownout check --op`, for a program that can print its state. After a crash it must print the
# same as after the completed operations, or after one more if the crash interrupted an operation.
# See docs/recovery.md. Requires brownout in the PATH. Exits with 1, because the program has a bug.
set -eu

source=$(realpath "$(dirname "$0")/../corpus/recovery-failed/equivalence.c")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cc -g -D_GNU_SOURCE -o pair "$source"

# The expected output after 0, 1, 2 and 3 operations without a crash.
mkdir expected
for operations in 0 1 2 3; do
	rm -f pool
	./pair pool $operations
	./pair pool print > expected/$operations
done

rm -f pool
brownout check --op operate --recover './pair pool print' --expect-one-of expected -- ./pair pool 3
