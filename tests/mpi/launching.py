"""How MPI programs are run over the provider and over Open MPI's own transports."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

SOURCES = Path(__file__).parent
# A run that takes so long hangs.
LIMIT_S = 120
# As python/weft/mpi.py chooses.
CHOICES = {
    "pml": "cm",
    "mtl": "ofi",
    "opal_common_ofi_provider_include": "weft",
    "osc_rdma_priority": "90",
}
BACKING = ("osc_sm", "osc_rdma", "btl_vader")
WEFT = tuple(word for name, value in CHOICES.items() for word in ("--mca", name, value))
SHARED = ("--mca", "pml", "ob1", "--mca", "btl", "vader,self")


class FailedError(Exception):
    """Why a case did not pass."""


@dataclass
class Stage:
    """Where programs are run."""

    provider: Path
    folder: Path
    directory: Path
    environment: dict[str, str] = field(default_factory=dict)
    # How often something is killed at a random moment.
    kills: int = 8

    def variables(self) -> dict[str, str]:
        """Return the environment of every run."""
        return {
            **os.environ,
            "FI_PROVIDER_PATH": str(self.provider.parent),
            "WEFT_MESSAGES_DIRECTORY": str(self.directory),
            **backed(self.directory),
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "OMPI_MCA_rmaps_base_oversubscribe": "1",
            "OMPI_MCA_btl_base_warn_component_unused": "0",
            "OMP_NUM_THREADS": "1",
            **self.environment,
        }

    def run(self, *words: str, cwd: Path | None = None, may_fail: bool = False) -> str:
        """Run a program to its end; what it prints."""
        ran = subprocess.Popen(
            words,
            env=self.variables(),
            cwd=cwd or self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            out, errors = ran.communicate(timeout=LIMIT_S)
        except subprocess.TimeoutExpired:
            os.killpg(ran.pid, signal.SIGKILL)
            raise FailedError(f"{' '.join(words)} hangs") from None
        if ran.returncode and not may_fail:
            raise FailedError(f"{' '.join(words)}: exit {ran.returncode}\n{out}{errors}"[-2000:])
        return out

    def mpirun(self, ranks: int, transport: tuple[str, ...], *words: str) -> str:
        """Run an MPI program over a transport."""
        return self.run("mpirun", "--oversubscribe", *transport, "-n", str(ranks), *words)

    def compile(self, name: str, compiler: str = "mpicc", *libraries: str) -> str:
        """Compile a program of this folder."""
        binary = self.folder / name
        if not binary.exists():
            source = str(SOURCES / f"{name}.c")
            self.run(compiler, "-D_GNU_SOURCE", "-O2", source, "-o", str(binary), *libraries)
        return str(binary)


def backed(directory: Path) -> dict[str, str]:
    """Have Open MPI keep shared memory of windows in a directory."""
    return {f"OMPI_MCA_{name}_backing_directory": str(directory) for name in BACKING}


def is_there(what: str) -> bool:
    """Whether a program, or a file by its whole path, is installed."""
    return Path(what).exists() if what.startswith("/") else shutil.which(what) is not None


def processor_seconds() -> float:
    """Return what all programs have used that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def figures(text: str) -> dict[int, float]:
    """Return the pairs of numbers that a program printed, one a line."""
    pairs = (line.split() for line in text.splitlines())
    return {int(pair[0]): float(pair[1]) for pair in pairs if len(pair) == 2}
