"""The names that columns of result files have, and what each is of."""

NO_GPU = "GPU not stated"
MEASURED, PREDICTED, REFITTED = "measured", "predicted", "refitted"  # forecasts that files name no model of
SYNONYMS = {  # names that files of earlier versions have: those of `dse.data.columns`
    "seconds": "time_s",
    "time": "time_s",
    "measured": "measured_s",
    "measured_time_s": "measured_s",
    "low": "low_s",
    "high": "high_s",
    "refitted": "refitted_s",
    "fastest": "fastest_s",
    "optimum": "optimum_s",
    "shared": "shared_bytes",
    "limited by": "limited_by",
    "above optimum [%]": "above_optimum_percent",
    "P(best)": "chance_fastest",
    "P(within 5 %)": "chance_near",
}
OF_A_MODEL = ("time_s", "low_s", "high_s", "bottleneck")
FACTS = (  # of a configuration, whatever the model
    *("threads", "blocks", "registers", "shared_bytes", "warps_per_sm", "occupancy", "limited_by"),
    *("possible", "measured_s", "number", "fastest_s", "optimum_s", "above_optimum_percent"),
    *("thread_instructions", "dram_bytes", "chance_fastest", "chance_near", "status", "kept"),
)
WORDS = ("bottleneck", "limited_by", "status", "kept")  # of these, columns of words
SCORES = ("spearman", "mape")  # what tells a file of scores
UNREAD = ("rank", "cycles")  # worked out anew, and said by the time
REFIT = "refitted_s"  # the time of a forecast of its own
