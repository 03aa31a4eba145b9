"""A grid's records as tables: the paper's layout, its numbers beside ours, and how sure each difference is."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich import box
from rich.table import Table

from whichwhen.evaluation.statistics import paired_difference
from whichwhen.experiments.adaptive import summarise_adaptive
from whichwhen.experiments.records import correct_of, summarise

LABELS = {"m-forda": "m-FordA", "spoken-arabic-digits": "SpokenArabicDigits", "japanese-vowels": "JapaneseVowels"}
FAKES = {"none": "no fakes", "zeros": "Zeros", "noise": "Noise", "gp": "GP"}
PRESETS = {"paper": "the paper's settings", "run": "own runs", "adaptive": "every objective"}
ORDER = (
    *("none", "random", "static", "round-robin", "static-by-time"),
    *("table", "learned-only", "learned", "oracle", "complete"),
)
PAIRS = (("learned", "random"), ("learned", "static"), ("learned", "complete"), ("learned", "table"), ("complete", "random"))


@dataclass(frozen=True)
class TextTable:
    """A table of plain text, in three notations."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""

    def markdown(self) -> str:
        """For GitHub and editors."""
        lines = [f"### {self.title}", "", _pipe(self.header), _pipe(["---:" if right else "---" for right in self._numbers])]
        lines += [_pipe(row) for row in self.rows]
        return "\n".join([*lines, "", *([self.note, ""] if self.note else [])])

    def latex(self) -> str:
        """For a paper; needs booktabs."""
        body = [" & ".join(_tex(cell) for cell in row) + r" \\" for row in (self.header, *self.rows)]
        columns = "".join("r" if right else "l" for right in self._numbers)
        return "\n".join(
            [
                r"\begin{table}[h]",
                r"  \centering",
                rf"  \begin{{tabular}}{{{columns}}}",
                r"    \toprule",
                f"    {body[0]}",
                r"    \midrule",
                *(f"    {line}" for line in body[1:]),
                r"    \bottomrule",
                r"  \end{tabular}",
                rf"  \caption{{{_tex(self.title)}. {_tex(self.note)}}}",
                r"\end{table}",
                "",
            ]
        )

    def rich(self) -> Table:
        """For the terminal."""
        table = Table(
            title=self.title,
            caption=self.note or None,
            title_justify="left",
            caption_justify="left",
            box=box.SIMPLE_HEAD,
            show_edge=False,
            padding=(0, 1, 0, 0),
        )
        for i, (name, right) in enumerate(zip(self.header, self._numbers, strict=True)):
            if right:  # as narrow as its numbers and the words of its head allow: the room is for the words
                width = max(len(text) for text in (*name.split(), *(row[i] for row in self.rows)))
                table.add_column(name, justify="right", width=width)
            else:
                table.add_column(name)
        for row in self.rows:
            table.add_row(*row)
        return table

    @property
    def _numbers(self) -> list[bool]:
        """Which columns hold numbers, and stand to the right: all but the first and those with words."""
        words = [any(cell[:1].isalpha() for cell in column) for column in zip(*self.rows, strict=True)]
        return [i > 0 and not wordy for i, wordy in enumerate(words or [True] * len(self.header))]


def accuracy_tables(records: Sequence[Mapping[str, Any]]) -> list[TextTable]:
    """One table per preset, data set and whether it is shifted, as the paper has them.

    A row per acquirer, a column per kind of fake, the paper's number in a column of its own.
    """
    rows = summarise(records)
    tables = []
    for preset, dataset, shifted in _unique((row["preset"], row["dataset"], row["shifted"]) for row in rows):
        here = [row for row in rows if (row["preset"], row["dataset"], row["shifted"]) == (preset, dataset, shifted)]
        kinds = [kind for kind in FAKES if any(row["fakes"] == kind for row in here)]
        with_paper = preset != "run" and any(row["paper_mean"] is not None for row in here)
        header = ["acquirer"]
        for kind in kinds:
            header += [FAKES[kind], f"{FAKES[kind]}, paper"] if with_paper else [FAKES[kind]]
        body = []
        for acquirer in sorted({row["acquirer"] for row in here}, key=ORDER.index):
            line = [acquirer]
            for kind in kinds:
                found = next((row for row in here if (row["acquirer"], row["fakes"]) == (acquirer, kind)), None)
                line.append(_number(found["mean"], found["std"]) if found else "–")
                if with_paper:
                    line.append(_number(found["paper_mean"], found["paper_std"]) if found else "–")
            body.append(tuple(line))
        title = f"{LABELS.get(dataset, dataset)}{', shifted' if shifted else ''}: test accuracy, {PRESETS.get(preset, preset)}"
        tables.append(TextTable(title, tuple(header), tuple(body), _seeds(here, kinds)))
    return tables


def difference_table(records: Sequence[Mapping[str, Any]], preset: str) -> TextTable:
    """How much one acquirer is ahead of another in each setting, with a 95 % interval."""
    own = [record for record in records if record["preset"] == preset]
    body = []
    for dataset, fakes, shifted in _unique((row["dataset"], row["fakes"], row["shifted"]) for row in summarise(own)):
        for one, other in PAIRS:
            pairs = _paired(own, (dataset, fakes, shifted), one, other)
            if pairs:
                gap = paired_difference([pair[0] for pair in pairs], [pair[1] for pair in pairs])
                interval = f"{gap.low:+.3f} to {gap.high:+.3f}{' *' if gap.clear else ''}"
                setting = cell_label(dataset, fakes, shifted)
                body.append((setting, f"{one} − {other}", f"{gap.mean:+.3f}", interval, str(gap.n_seeds)))
    note = (
        "Differences of test accuracy; * = the interval leaves 0 out. Seeds are paired; seeds, and the test series within "
        "each, are drawn again 2000 times. With 4 or 5 seeds that vary much, such intervals are somewhat too narrow."
    )
    header = ("setting", "difference", "mean", "95 % interval", "seeds")
    return TextTable(f"Differences between acquirers, {PRESETS.get(preset, preset)}", header, tuple(body), note)


def cost_table(records: Sequence[Mapping[str, Any]], preset: str) -> TextTable:
    """What each acquirer spends and on what."""
    rows = [row for row in summarise(records) if row["preset"] == preset]
    body = tuple(
        (
            cell_label(row["dataset"], row["fakes"], row["shifted"]),
            row["acquirer"],
            f"{row['mean']:.3f}",
            f"{row['cost_per_step']:.1f}",
            "–" if row["real_fraction"] is None else f"{100 * row['real_fraction']:.0f} %",
            f"{row['levelled']}/{row['n_seeds']}",
            f"{row['cpu_seconds']:.0f}",
        )
        for row in rows
    )
    header = ("setting", "acquirer", "accuracy", "cost per step", "real requests", "levelled off", "CPU s per run")
    note = "Levelled off: runs whose best validation accuracy gained less than .002 over the last fifth of their epochs."
    return TextTable(f"Cost and requests, {PRESETS.get(preset, preset)}", header, body, note)


def adaptive_table(rows: Sequence[Mapping[str, Any]]) -> TextTable:
    """What each objective reaches on the tasks that need reacting or planning."""
    body = tuple(
        (
            row["task"],
            row["acquirer"],
            row["objective"],
            _number(row["mean"], row["std"]),
            f"{row['share']:.2f}",
            f"{row['optimum']:.3f}",
            *("–" if row[name] is None else f"{row[name]:.3f}" for name in ("blind", "greedy")),
            str(row["n_seeds"]),
        )
        for row in rows
    )
    header = ("task", "acquirer", "objective", "test accuracy", "share", "best", "blind", "greedy", "n")
    note = (
        "Share: of the way from chance to the best possible. Best, blind (time alone) and greedy (one step ahead) are exact; "
        "n: seeds."
    )
    return TextTable("Reacting and planning", header, body, note)


def all_tables(records: Sequence[Mapping[str, Any]]) -> list[TextTable]:
    """Everything, in reading order."""
    presets = _unique(record["preset"] for record in records)
    if presets == ["adaptive"]:
        return [adaptive_table(summarise_adaptive(records))]
    tables = accuracy_tables(records)
    tables += [difference_table(records, preset) for preset in presets]
    return tables + [cost_table(records, preset) for preset in presets]


def cell_label(dataset: str, fakes: str, shifted: bool) -> str:
    """A setting in words."""
    return f"{LABELS.get(dataset, dataset)}, {FAKES[fakes].lower() if fakes != 'gp' else 'GP'}{', shifted' if shifted else ''}"


def _paired(records: Sequence[Mapping[str, Any]], cell: tuple[str, str, bool], one: str, other: str) -> list[tuple[Any, Any]]:
    """Of each seed that both acquirers have: which test series were right."""
    found: dict[str, dict[int, Mapping[str, Any]]] = {one: {}, other: {}}
    for record in records:
        if (record["dataset"], record["fakes"], record["shifted"]) == cell and record["acquirer"] in found:
            found[record["acquirer"]][record["seed"]] = record
    seeds = sorted(found[one].keys() & found[other].keys())
    return [(correct_of(found[one][seed]), correct_of(found[other][seed])) for seed in seeds]


def _seeds(rows: Sequence[Mapping[str, Any]], kinds: Sequence[str]) -> str:
    counts = sorted({row["n_seeds"] for row in rows if row["fakes"] in kinds})
    many = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return f"Mean ± standard deviation over {many} seed{'s' if counts[-1] > 1 else ''}."


def _number(mean: float | None, std: float | None) -> str:
    if mean is None:
        return "–"
    return f"{mean:.3f}" if std is None else f"{mean:.3f} ± {std:.3f}"


def _pipe(cells: Iterable[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _tex(text: str) -> str:
    for old, new in (("&", r"\&"), ("%", r"\%"), ("_", r"\_"), ("±", r"$\pm$"), ("−", "$-$"), ("–", "--"), ("*", r"$^*$")):
        text = text.replace(old, new)
    return text


def _unique(items: Iterable[Any]) -> list[Any]:
    return list(dict.fromkeys(items))
