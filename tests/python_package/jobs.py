"""Jobs that the tests submit."""

import muster


def small_job(**changes):
    """A job of 60 steps on servers, which takes a moment; `changes` are fields to set, with `__` for a dot."""
    draft = muster.Job.from_fields({
        "name": "small",
        "model": {"mlp": {"hidden": [16], "classes": 3}},
        "data": {
            "synthetic_classification": {"examples": 2000, "features": 8, "classes": 3, "seed": 1},
            "holdout": 0.2,
        },
        "optimizer": {"name": "sgd", "learning_rate": 0.1},
        "update": {"dense": "PARAMETER_SERVER"},
        "workers": 2,
        "batch_size": 50,
        "stop": {"steps": 60},
        "checkpoint": {"every_steps": 20},
        "evaluation": {"every_steps": 20},
    })
    for path, value in changes.items():
        draft.set(path.replace("__", "."), value)
    return draft


def endless_job(name):
    """A job that goes on until it is cancelled."""
    return small_job(name=name, stop__steps=10**9)
