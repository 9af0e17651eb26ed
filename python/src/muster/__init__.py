"""Muster from Python: submits jobs and follows them, and is what a program that runs as a job talks to (docs/python.md).

    import muster

    with muster.connect() as client:
        job = client.submit(muster.Job.from_file("job.yaml").set("optimizer.learning_rate", 3e-4))
        job.wait()
        weights = job.last_checkpoint().tensors()

`muster.aio` has the same for asyncio. Nothing here needs numpy or torch until arrays are asked for. Errors are those of
`muster.errors`; messages of the protos are in `muster.v1`.
"""

# Before all else, so that a name that tells nobody what to install is not the first thing to fail.
from muster import _requirements

_requirements.check()

from muster import aio
from muster._cluster import Tls
from muster._draft import JobDraft
from muster._plain import Checkpoint, Client, Job, connect
from muster.errors import CollectiveError, Error, InvalidArgument, JobCancelled, JobFailed, NotFinite, NotFound, Unreachable
from muster.history import ClassResult, Evaluation, Evaluations, History, Point, RollBack, Series
from muster.optimizers import SGD, Adagrad, Adam, AdamW, Ftrl, Lion, RMSprop, RowWiseAdagrad
from muster.program import Resumed, checkpoint, in_job, report, resume, resume_folder
from muster._version import __version__

__all__ = [
    "Adagrad",
    "Adam",
    "AdamW",
    "Checkpoint",
    "ClassResult",
    "Client",
    "CollectiveError",
    "Error",
    "Evaluation",
    "Evaluations",
    "Ftrl",
    "History",
    "InvalidArgument",
    "Job",
    "JobCancelled",
    "JobDraft",
    "JobFailed",
    "Lion",
    "NotFinite",
    "NotFound",
    "Point",
    "RMSprop",
    "Resumed",
    "RollBack",
    "RowWiseAdagrad",
    "SGD",
    "Series",
    "Tls",
    "Unreachable",
    "__version__",
    "aio",
    "checkpoint",
    "connect",
    "in_job",
    "report",
    "resume",
    "resume_folder",
]
