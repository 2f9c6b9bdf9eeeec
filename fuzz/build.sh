#!/bin/bash -eu
# Builds the fuzz targets as OSS-Fuzz wants them in $OUT: programs, seed corpora as NAME_seed_corpus.zip, dictionaries
# as NAME.dict and options as NAME.options. Runs in the folder of the project, with OSS-Fuzz's compiler, a nightly one.
# With another, RUSTC_BOOTSTRAP=1 allows the flags that cargo-fuzz passes.

: "${OUT:?where the programs go}"
cd "${SRC:+$SRC/vpmu}"
triple=${FUZZ_TARGET_TRIPLE:-x86_64-unknown-linux-gnu}

# Targets that need nothing but their input; longest inputs as in README.md.
declare -A longest=([pmu]=500 [instructions]=258 [machine]=400 [loaders]=4096)

# -O: optimised, with debug assertions, so that an overflow is a find.
for target in "${!longest[@]}"; do
    cargo fuzz build -O --debug-assertions --target "$triple" "$target"
done

for target in "${!longest[@]}"; do
    cp "target/$triple/release/$target" "$OUT/"
    if [ -d "fuzz/corpus/$target" ]; then
        rm -f "$OUT/${target}_seed_corpus.zip"
        (cd "fuzz/corpus/$target" && zip -q -r "$OUT/${target}_seed_corpus.zip" .)
    fi
    if [ -f "fuzz/$target.dict" ]; then
        cp "fuzz/$target.dict" "$OUT/"
    fi
    printf '[libfuzzer]\nmax_len = %s\n' "${longest[$target]}" >"$OUT/$target.options"
done
