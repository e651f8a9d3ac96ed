"""The names that columns of result files have, and what each is of."""

NO_GPU = "GPU not stated"
MEASURED, PREDICTED, REFITTED = "measured", "predicted", "refitted"  # forecasts that files name no model of
OF_A_MODEL = ("time_s", "low_s", "high_s", "bottleneck")
FACTS = (  # of a configuration, whatever the model
    *("threads", "blocks", "registers", "shared_bytes", "warps_per_sm", "occupancy", "limited_by"),
    *("possible", "measured_s", "number", "fastest_s", "optimum_s", "above_optimum_percent"),
    *("thread_instructions", "dram_bytes", "chance_fastest", "chance_near", "status", "kept"),
)
WORDS = ("bottleneck", "limited_by", "status", "kept")  # of these, columns of words
SCORES = ("spearman", "mape")  # what tells a file of scores
UNREAD = ("rank", "cycles")  # computed again, and implied by the time
REFIT = "refitted_s"  # the time of a forecast of its own
