#!/bin/sh
# The npm packages of the tests, as tests/clients/package-lock.json has them,
# into build/npm. Does nothing when they are there.
set -eu
cd "$(dirname "$0")/.."

want=$(cat tests/clients/package-lock.json tests/clients/package.json | sha256sum)
[ "$(cat build/npm/.have 2>/dev/null || true)" != "$want" ] || exit 0
rm -rf build/npm
mkdir -p build/npm
cp tests/clients/package.json tests/clients/package-lock.json build/npm/
(cd build/npm && npm ci --no-audit --no-fund --ignore-scripts)
printf '%s\n' "$want" > build/npm/.have
