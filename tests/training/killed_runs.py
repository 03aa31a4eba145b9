"""Trains the same run into one folder per place of death, and is killed with SIGKILL there. Called by test_run.py.

The process forks for each place, so that torch is imported once.
"""

import os
import signal
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

from builders import recipe_spec, tiny_dataset, tiny_spec
from whichwhen.training import epochs, recipe, run, train

SPEC = {
    "predictor__dropout": 0.2,
    "training__epochs": 4,
    "training__learning_rate": 0.4,  # so high that the best epoch is not the last, with this seed
    "seed": 2,
    "training__save_epochs": True,
}
RECIPE = {"training__effort": 0.005, "predictor__dropout": 0.2}
"""A run by the recipe: five phases of one round each."""


def die(*_: object, **__: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def on_call(count: int, function):
    """The function, which kills the process at its ``count``-th call."""
    calls = []

    def wrapper(*args, **kwargs):
        calls.append(1)
        if len(calls) == count:
            die()
        return function(*args, **kwargs)

    return wrapper


def after_an_epoch() -> dict:
    return {"on_epoch": lambda state: die() if len(state.history) == 3 else None}


def within_the_first_epoch() -> dict:
    epochs.roll_out_detached = on_call(2, epochs.roll_out_detached)
    return {}


def within_an_epoch() -> dict:
    epochs.roll_out_detached = on_call(11, epochs.roll_out_detached)  # three batches per epoch
    return {}


def within_a_checkpoint() -> dict:
    """The new checkpoint is written beside the old one, and not yet in its place."""
    save, calls = run.save_checkpoint, []

    def half(*args):
        calls.append(1)
        if len(calls) == 3:
            os.fsync = die
        save(*args)

    run.save_checkpoint = half
    return {}


def after_a_checkpoint() -> dict:
    """The new checkpoint is in its place; what else is written after an epoch is not."""
    save, calls = run.save_checkpoint, []

    def whole(*args):
        calls.append(1)
        save(*args)
        if len(calls) == 3:
            die()

    run.save_checkpoint = whole
    return {}


def before_the_test_set() -> dict:
    run.write_series = die
    return {}


def before_the_result() -> dict:
    run.write_json = die
    return {}


def within_the_joint_phase() -> dict:
    recipe.replay = on_call(3, recipe.replay)
    return {}


def within_settling() -> dict:
    recipe.mixture = on_call(3, recipe.mixture)
    return {}


def between_network_and_rule() -> dict:
    return {"on_epoch": lambda state: die() if len(state.history) == 3 else None}


def between_two_refits() -> dict:
    return {"on_epoch": lambda state: die() if len(state.history) == 9 else None}


def before_the_result_of_the_recipe() -> dict:
    run.write_series = die
    return {}


PLACES = {
    after_an_epoch: 1,
    within_the_first_epoch: 4,
    within_an_epoch: 1,
    within_a_checkpoint: 2,
    after_a_checkpoint: 1,
    before_the_test_set: 0,
    before_the_result: 0,
}
"""Where to die, and how many epochs are left to train afterwards."""
RECIPE_PLACES = {
    within_the_joint_phase: 9,
    within_settling: 8,
    between_network_and_rule: 7,
    between_two_refits: 1,
    before_the_result_of_the_recipe: 0,
}
"""The same by the recipe, in rounds."""


def main(out: Path) -> None:
    torch.set_num_threads(1)
    for place in (*PLACES, *RECIPE_PLACES):
        child = os.fork()
        if not child:
            spec = tiny_spec(**SPEC) if place in PLACES else recipe_spec(**RECIPE)
            train(spec, out / place.__name__, data=tiny_dataset(), **place())
            os._exit(0)
        _, status = os.waitpid(child, 0)
        print(place.__name__, os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
