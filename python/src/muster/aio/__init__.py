"""The asyncio client: the names and meanings of the package's own client, to be awaited.

    async with muster.aio.connect() as client:
        job = await client.submit(muster.Job.from_file("job.yaml"))
        async for text in job.logs(follow=True):
            print(text, end="")
        await job.wait()
"""

# generate.py makes _plain, the client for plain code, from this folder: it drops `async` and `await` and exchanges a few
# names. So whatever is awaited here has to have a twin that is not.

from muster.aio._checkpoint import Checkpoint
from muster.aio._client import Client, connect
from muster.aio._job import Job

__all__ = ["Checkpoint", "Client", "Job", "connect"]
