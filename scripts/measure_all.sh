#!/bin/sh
# Measures this machine's GPU: microbenchmarks, kernels compiled in advance, then a sample of the tuning space of each
# of our kernels with CUDA source.
#
#   scripts/measure_all.sh FOLDER [SECONDS]
#
# Ends shortly after SECONDS (default 520); a failing part does not stop the next.
# One folder for one GPU: it gets gpu.toml, records.parquet, spaces.parquet and occupancy.parquet, and for each file of
# `dse measure build` in the folder $BUILT (default built) a table of its name: h100.zip, h100.parquet. Run again with
# this folder, it continues. Needs gpu-dse with the extra cuda; $PYTHON is its Python (default python3).
# Afterwards, where the results are kept: dse measure store FOLDER/gpu.toml FOLDER/spaces.parquet \
#   FOLDER/occupancy.parquet FOLDER/h100.parquet
set -eu

folder=${1:?"usage: scripts/measure_all.sh FOLDER [SECONDS]"}
seconds=${2:-520}
begun=$(date +%s)
mkdir -p "$folder"

left() { echo $((seconds - ($(date +%s) - begun) - 25)); } # 25: for the current part to end
sweep=45                                                    # seconds for the last part
dse() {
    "${PYTHON:-python3}" -c 'from dse.cli.main import run
if __name__ == "__main__":
    run()' "$@" || echo "measure_all: failed: dse $*" >&2
}

if [ ! -s "$folder/gpu.toml" ]; then
    dse measure gpu -o "$folder/gpu.toml" --records "$folder/records.parquet" --budget 150
fi

# Each kernel and case of sizes gets an equal share of the time for a random part, which a second run extends. Files for
# another GPU are refused at once. All remaining time may be spent here: these kernels were brought to be measured.
for built in "${BUILT:-built}"/*.zip; do
    if [ -s "$built" ] && [ "$(left)" -gt 20 ]; then
        dse measure space --built "$built" --repeats 3 --budget "$(left)" \
            -o "$folder/$(basename "$built" .zip).parquet"
    fi
done

# Small spaces are measured whole; of the three large ones the first so many in a random order.
if [ "$(left)" -gt $((sweep + 20)) ]; then
    dse measure space reduction prefix_sum histogram transpose stencil2d spmv_csr matmul_naive matmul_tiled \
        nbody gemm convolution dedispersion --sample 900 --repeats 5 \
        --budget $(($(left) - sweep)) \
        -o "$folder/spaces.parquet"
fi
if [ "$(left)" -gt 20 ]; then
    dse measure space nbody matmul_tiled reduction stencil2d --sample 8 --occupancy-sweep --repeats 5 \
        --budget "$(left)" -o "$folder/occupancy.parquet"
fi
for lines in "$folder"/*.partial.jsonl; do # a newer table is enough to continue from
    if [ "${lines%.partial.jsonl}" -nt "$lines" ]; then rm -f "$lines"; fi
done
ls -l "$folder"
[ -s "$folder/records.parquet" ] || exit 2
