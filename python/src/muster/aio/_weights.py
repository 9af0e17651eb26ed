"""What is done with the weights of a checkpoint."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Literal

from muster import _derived_jobs
from muster._draft import JobDraft
from muster._muster_program import run_async as run_program
from muster.errors import Error, JobCancelled, JobFailed, NotFound
from muster.history import Evaluation

if TYPE_CHECKING:
    from muster.aio._checkpoint import Checkpoint
    from muster.aio._client import Client
    from muster.aio._job import Job


class Weights:
    """The weights of a checkpoint, to be measured, trained on and given away. `Checkpoint` and `Job` are such.

    Every method may raise NotFound: the job has no checkpoint yet, or was deleted.
    """

    _client: Client

    async def _checkpoint(self) -> Checkpoint:
        """Returns the checkpoint that has the weights."""
        raise NotImplementedError

    async def evaluate(
        self, data: str | os.PathLike[str] | None = None, *, metric: str = "", timeout: float | None = None
    ) -> Evaluation:
        """Measures the weights on data, as `muster evaluate` does: by a job of no steps, which is deleted afterwards.

        Args:
            data: file or folder of the same kind as the job's data, as workers see it; None: the examples that the job held
                out.
            metric: such as auc, if the model has it; empty: the model's usual one.
            timeout: most seconds to wait.

        Raises:
            InvalidArgument: the job runs a program, or its data is synthetic and cannot be replaced.
            JobFailed: the evaluation failed, for example because the data cannot be read.
            TimeoutError: it has not ended in time, and was cancelled.
        """
        measured = await self._checkpoint()
        spec = _derived_jobs.evaluation_of(await measured._job.status(), measured.clock, data, metric)
        job = await self._client.submit(JobDraft(spec))
        try:
            last = await job.wait(timeout)
        except (JobFailed, JobCancelled):
            raise
        except BaseException:
            with contextlib.suppress(Error):
                await job.cancel("its user did not wait for it")
            raise
        with contextlib.suppress(NotFound):
            # The coordinator may have forgotten it by itself.
            await job.delete()
        return _derived_jobs.evaluation_in(last, measured.clock, metric)

    async def predict(self, data: str | os.PathLike[str], out: str | os.PathLike[str], *, force: bool = False) -> int:
        """Writes a CSV file with a prediction for each example of a file, by the program `muster predict`.

        Args:
            data: file, or pattern of files, of the same kind as the job's data, on this machine. The column of the label may
                be left out.
            out: file to write: the columns of the data and, after them, `predicted` and the classes' probabilities.
            force: replaces what is there.

        Returns:
            The number of examples.

        Raises:
            NotFound: there are no such data; or the program is not installed, and it says how to.
            InvalidArgument: the job trains a model of language, runs a program or learns from synthetic data; the data are
                wrong, with file, line and column; or `out` is there already.
        """
        flags = ["--force"] if force else []
        name = (await self._checkpoint())._name()
        words = ["predict", name, f"--data={os.fspath(data)}", f"--out={os.fspath(out)}", *flags]
        return int((await run_program(self._client._cluster, words))["examples"])

    async def restore(self, *, steps: int | None = None, epochs: float | None = None) -> Job:
        """Submits a new job that goes on from the checkpoint, with weights, optimizer state and clock; returns it.

        Args:
            steps: where it ends, counted from the first job's start; None: where that job would end.
            epochs: the same in passes over the data.

        Raises:
            InvalidArgument: both are given.
        """
        start = await self._checkpoint()
        spec = _derived_jobs.continuation_of(await start._job.status(), start.clock, steps, epochs)
        return await self._client.submit(JobDraft(spec))

    async def export(
        self, path: str | os.PathLike[str], *, format: Literal["safetensors", "huggingface"] = "safetensors", force: bool = False
    ) -> None:
        """Writes the weights for use without the job, by the program `muster export`.

        Args:
            path: file to write; with `huggingface` a folder.
            format: safetensors, which for a transformer also says what it is and how its tokens are made; or huggingface, for
                transformers in the shape of GPT-2, Llama, Mistral, Qwen 2 or 3, or one of these with experts (Mixtral,
                Qwen2-MoE, Qwen3-MoE, OLMoE).
            force: replaces what is there.

        Raises:
            NotFound: the program is not installed; says how to.
        """
        name = (await self._checkpoint())._name()
        flags = ["--force"] if force else []
        await run_program(self._client._cluster, ["export", name, f"--out={os.fspath(path)}", f"--format={format}", *flags])

    async def generate(
        self,
        prompt: str,
        *,
        max_tokens: int | None = None,
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int | None = None,
    ) -> str:
        """Returns what the transformer with these weights writes after a text, by the program `muster generate`.

        Arguments that are None are as `muster help generate` says.

        Args:
            max_tokens: most tokens to add.
            temperature: below 1 likely tokens become likelier; 0 always takes the likeliest.
            top_k: chooses among so many likeliest tokens.
            top_p: chooses among the fewest likeliest tokens whose probabilities add up to this.
            seed: the same one gives the same text.

        Raises:
            NotFound: the program is not installed; says how to.
            InvalidArgument: the model is no transformer.
        """
        options = {"max_tokens": max_tokens, "temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed}
        words = _derived_jobs.generate_words((await self._checkpoint())._name(), prompt, options)
        return str((await run_program(self._client._cluster, words))["text"])
