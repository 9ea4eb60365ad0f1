#!/bin/bash
# Installs what the checks need (Debian, as root), or names it and fails.
set -eu
cd "$(dirname "$0")/.."

missing=()

# need COMMAND PACKAGE: notes the Debian package of a command that is not there.
need() {
  if ! command -v "$1" > /dev/null; then missing+=("$2"); fi
}

install_packages() {
  if [ "$(id -u)" = 0 ] && command -v apt-get > /dev/null; then
    echo "installing ${missing[*]}"
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "${missing[@]}" && return
  fi
  echo "please install: ${missing[*]} (Debian: apt-get install ${missing[*]})" >&2
  exit 1
}

# Debian's Rust is too old, and the sources of newer ones differ: named, not installed.
check_rust() {
  local least present
  least=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
  if ! command -v cargo > /dev/null || ! command -v rustc > /dev/null; then
    echo "please install: Rust $least or newer (rustup toolchain install stable)" >&2
    exit 1
  fi
  present=$(rustc --version | cut -d ' ' -f 2)
  if [ "$(printf '%s\n' "$least" "$present" | sort -V | head -n 1)" != "$least" ]; then
    echo "please install: Rust $least or newer; this is $present (rustup update stable)" >&2
    exit 1
  fi
}

# check_component COMMAND COMPONENT
check_component() {
  if cargo "$1" --version > /dev/null 2>&1; then return; fi
  if command -v rustup > /dev/null && rustup component add "$2"; then return; fi
  echo "please install: $2 (rustup component add $2)" >&2
  exit 1
}

need make make
need cc gcc
need c++ g++
need nm binutils
need readelf binutils
need strace strace
if [ "${#missing[@]}" -gt 0 ]; then install_packages; fi
check_rust
check_component fmt rustfmt
check_component clippy clippy
rustc --version
cc --version | head -n 1
cargo nextest --version 2> /dev/null | head -n 1 || echo "no cargo-nextest: cargo test takes its place"
