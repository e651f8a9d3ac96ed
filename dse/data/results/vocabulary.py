"""The columns of result files, by what they describe."""

NO_GPU = "GPU not stated"
MEASURED, PREDICTED, REFITTED = "measured", "predicted", "refitted"  # forecasts without a model's name
OF_A_MODEL = ("time_s", "low_s", "high_s", "bottleneck")
FACTS = (  # of a configuration, whatever the model
    *("threads", "blocks", "registers", "shared_bytes", "warps_per_sm", "occupancy", "limited_by"),
    *("possible", "measured_s", "number", "fastest_s", "optimum_s", "above_optimum_percent"),
    *("thread_instructions", "dram_bytes", "chance_fastest", "chance_near", "status", "kept"),
)
WORDS = ("bottleneck", "limited_by", "status", "kept")  # columns of words
SCORES = ("spearman", "mape")  # columns that identify a file of scores
UNREAD = ("rank", "cycles")  # implied by the time
REFIT = "refitted_s"  # becomes a forecast of its own
