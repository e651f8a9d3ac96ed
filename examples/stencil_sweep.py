"""A sweep of a described kernel over sizes and GPUs, as a pandas DataFrame."""

import dse


def main() -> None:
    sweep = dse.sweep("convolution", ["a100", "rtx-3090", "mi250x"], sizes={"image_width": [2048, 4096]})
    best = sweep.top(1, per=["gpu", "size"]).to_pandas()
    print(best.pivot_table(index="gpu", columns="image_width", values="time_s") * 1e6, "µs")


if __name__ == "__main__":
    main()
