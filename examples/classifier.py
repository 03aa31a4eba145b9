"""The front door in scikit-learn's style: which of twelve measurements of a spoken vowel to take, and when, to tell who speaks.

Run it with `python examples/classifier.py`: JapaneseVowels comes with aeon, and it takes some seconds.
"""

import tempfile
from pathlib import Path

import numpy as np
from aeon.datasets import load_japanese_vowels

import whichwhen as ww


def main() -> None:
    # Lists of arrays (features, time) of unequal lengths, as aeon gives them.
    X, y = load_japanese_vowels(split="train")
    X_test, y_test = load_japanese_vowels(split="test")

    # Two of the twelve features at each step; a tenth of the training steps, to be done soon.
    clf = ww.AcquisitionClassifier(budget=2, effort=0.1, random_state=0).fit(X, y)
    print(f"accuracy {clf.score(X_test, y_test):.2f} with 2 of {clf.n_features_in_} features at each step")

    requested, cost = clf.acquire(X_test)
    print(f"mean cost of a series {cost.mean():.1f}; asked at the first step:", np.flatnonzero(requested[0, :, 0]).tolist())

    # Panels and free channels: the first two arrive by themselves, the rest come three at a time.
    features = tuple(ww.Feature(f"lpc{i}") for i in range(12))
    free = tuple(ww.Order(f.name, (f.name,), cost=0.0, free=True) for f in features[:2])
    panels = tuple(ww.Order(f"panel{i}", tuple(f.name for f in features[i : i + 3]), cost=3.0) for i in range(2, 11, 3))
    panel_clf = ww.AcquisitionClassifier(
        budget=3, menu=ww.Menu(features, (*free, *panels, ww.Order("lpc11", ("lpc11",)))), effort=0.05, random_state=0
    ).fit(X, y)
    print(
        f"with panels: accuracy {panel_clf.score(X_test, y_test):.2f} for {panel_clf.acquire(X_test).cost.mean():.1f} a series"
    )

    # Saved without pickle, used live: one step in, the next orders out.
    with tempfile.TemporaryDirectory() as folder:
        path = clf.save(Path(folder) / "vowels.safetensors")
        session = ww.AcquisitionClassifier.load(path).session()
    for step in X_test[0].T:
        outcome = session.observe({name: step[int(name[1:])] for name in session.request})
    print(f"live: speaker {outcome.prediction}, truth {y_test[0]}, cost {session.total_cost:g}")


if __name__ == "__main__":
    main()
