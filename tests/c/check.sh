#!/bin/bash
# Compiles the header and the C programs as C99 and as C++11, and runs the programs. `make test-c` calls it.
#
# tests/c/NAME.c is one program. Its first line may be `// ranks: N`; then N processes run it under `collect run`.
set -eu
out=build/c
mkdir -p "$out"
read -ra warnings <<< "$WARNINGS"
read -ra link <<< "$LINK"

# as_c SOURCE OUTPUT FLAGS…, as_cxx SOURCE OUTPUT FLAGS…
as_c() { "$CC" -std=c99 -O1 -g "${warnings[@]}" -Iinclude "$1" -o "$2" "${@:3}"; }
as_cxx() { "$CXX" -std=c++11 -O1 -g "${warnings[@]}" -Iinclude -x c++ "$1" -x none -o "$2" "${@:3}"; }

# run PROGRAM RANKS: alone if RANKS is empty.
run() {
  if [ -n "$2" ]; then timeout -k 5 300 "$COLLECT" run -n "$2" -- "$1"; else timeout -k 5 300 "$1"; fi
}

check_header() {
  # Twice: the include guard works. And the header needs nothing before it.
  printf '#include <collect/collect.h>\n#include <collect/collect.h>\n' > "$out/header.c"
  printf 'int main(void) { return collect_last_error_message() == NULL; }\n' >> "$out/header.c"
  as_c "$out/header.c" "$out/header_c" "${link[@]}"
  as_cxx "$out/header.c" "$out/header_cxx" "${link[@]}"
  "$out/header_c"
  "$out/header_cxx"
  echo "header: C99, C++11"
}

# check_example NAME: four ranks of examples/c/NAME.c, as C and as C++, print what standard input has.
check_example() {
  local program
  cat > "$out/expected.txt"
  as_c "examples/c/$1.c" "$out/$1_c" "${link[@]}" -pthread
  as_cxx "examples/c/$1.c" "$out/$1_cxx" "${link[@]}" -pthread
  for program in "$out/$1_c" "$out/$1_cxx"; do
    run "$program" 4 | sort | diff "$out/expected.txt" -
  done
  echo "examples/c/$1.c: C99, C++11"
}

check_program() {
  local name ranks
  name=$(basename "$1" .c)
  ranks=$(sed -n '1s,^// ranks: \([0-9]*\)$,\1,p' "$1")
  as_c "$1" "$out/${name}_c" "${link[@]}" -pthread
  as_cxx "$1" "$out/${name}_cxx" "${link[@]}" -pthread
  run "$out/${name}_c" "$ranks"
  run "$out/${name}_cxx" "$ranks"
  echo "$1: C99, C++11"
}

check_header
printf 'rank %d of 4: the sum of 1 to 4 is 10\n' 0 1 2 3 | check_example allreduce
printf 'layer %d: %g\n' 0 1.5 1 11.5 2 21.5 3 31.5 4 41.5 5 51.5 | check_example keys
shopt -s nullglob
for source in tests/c/*.c; do check_program "$source"; done
