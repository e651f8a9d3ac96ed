"""Explain the costs of one configuration of a kernel on an AMD GPU: tables of plain rows."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dse.hardware.gpus import GpuFile
from dse.kernels.description import Description, Number
from dse.source.amd.compile.source import HipSource
from dse.source.amd.compile.triton import HipTriton
from dse.source.amd.profile.characterise import counted
from dse.source.amd.profile.record import BlockRecord
from dse.source.amd.source import architecture, completed, execution, listing_of, resources, source_of
from dse.source.contract import Failure
from dse.source.explain.nvidia import configured, failed, tables
from dse.source.kernel import warn_of_counts
from dse.source.machine.blocks import Sample
from dse.source.profile.characterise import Characterisation


@dataclass(frozen=True)
class _Run:
    """One compiled and executed configuration, in the form for tables."""

    source: HipSource | HipTriton
    machine: BlockRecord
    sample: Sample
    counts: Characterisation


def explained(
    description: Description, parameters: Mapping[str, Number], problem: Mapping[str, Number], gpu: GpuFile
) -> dict[str, Any]:
    """Compile and run the configuration of these parameters, and explain it part by part.

    **Raises:** DseError if it cannot be compiled or executed.
    """
    source = source_of(description)
    configuration = configured(description, parameters, problem, gpu)
    settings = source.settings(configuration.defines, configuration.arguments)
    made = source.compile(architecture(gpu.gpu, source), settings)
    if isinstance(made, Failure):
        raise failed(description, made, parameters)
    profile, configuration = completed(made, configuration, gpu.gpu, source)
    warn_of_counts(description.name, [profile])
    listing = listing_of(made, source.kernel)
    ran, asked = execution(made, listing, configuration, gpu.gpu), resources(listing, configuration)
    counts = counted(ran, asked)
    return {
        "kernel": listing.name,
        "gpu": gpu.name,
        "compiler": made.compiler,
        "configuration": dict(parameters),
        "resources": {
            "threads": int(asked.threads),
            "blocks": int(asked.blocks),
            "registers": listing.vgprs,
            "scalar_registers": listing.sgprs,
            "shared_bytes": int(asked.shared_bytes),
            "stack_bytes": listing.scratch_bytes,
            "spill_bytes": 4 * listing.vgpr_spills,
        },
        **tables(_Run(source, ran.record, ran.sample, counts)),
    }
