"""A grid's records as tables: the paper's layout, its numbers beside ours, and how sure each difference is."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich import box
from rich.table import Table

from whichwhen.evaluation.statistics import paired_difference
from whichwhen.experiments.adaptive import summarise_adaptive
from whichwhen.experiments.records import correct_of, summarise
from whichwhen.reports.kept import difference_to, not_kept, with_kept
from whichwhen.reports.tables import longest_word
from whichwhen.specs import RunSpec

LABELS = {"m-forda": "m-FordA", "spoken-arabic-digits": "SpokenArabicDigits", "japanese-vowels": "JapaneseVowels"}
FAKES = {"none": "no fakes", "zeros": "Zeros", "noise": "Noise", "gp": "GP"}
PRESETS = {"paper": "the paper's settings", "run": "own runs", "adaptive": "every objective"}
ORDER = (
    *("none", "random", "static", "round-robin", "static-by-time"),
    *("table", "learned-only", "learned", "oracle", "complete"),
)
PAIRS = (
    *(("learned", "round-robin"), ("learned", "random"), ("learned", "static")),
    *(("learned", "complete"), ("learned", "table"), ("complete", "random")),
)
"""Compared with each other; first the rule that learned has to beat."""
WITHOUT_BUDGET = ("none", "complete")
"""Acquirers that no budget changes anything for: they are compared with the others at each budget."""
_LONGEST = 20
"""Letters of a word that a narrow terminal still leaves in one piece."""


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
                words = longest_word(name, *(row[i] for row in self.rows))
                table.add_column(name, min_width=min(words, _LONGEST))
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

    A row per acquirer, and per budget where there are several; a column per kind of fake, the paper's number in a column of
    its own.
    """
    rows = _rows(records)
    groups = _unique((row["preset"], row["dataset"], row["shifted"]) for row in rows)
    return [
        _accuracy_table([row for row in rows if (row["preset"], row["dataset"], row["shifted"]) == group]) for group in groups
    ]


def _accuracy_table(rows: Sequence[Mapping[str, Any]]) -> TextTable:
    """The table of some rows with the same preset, data set and shift."""
    preset, dataset, shifted = rows[0]["preset"], rows[0]["dataset"], rows[0]["shifted"]
    kinds = [kind for kind in FAKES if any(row["fakes"] == kind for row in rows)]
    with_paper = preset != "run" and any(row["paper_mean"] is not None for row in rows)
    budgets = _budgets(rows)
    several = len(budgets) > 1
    header = ["acquirer", *(["budget"] if several else [])]
    for kind in kinds:
        header += [FAKES[kind], f"{FAKES[kind]}, paper"] if with_paper else [FAKES[kind]]
    policies = _unique((row["acquirer"], row["policy"], row["budget"]) for row in rows)
    body = []
    for policy in sorted(policies, key=lambda policy: ORDER.index(policy[0])):
        own = {row["fakes"]: row for row in rows if (row["acquirer"], row["policy"], row["budget"]) == policy}
        name = with_kept(policy[1], *(record for row in own.values() for record in row["records"]))
        line = [name, *([policy[2] or "–"] if several else [])]
        for kind in kinds:
            found = own.get(kind)
            line.append(_number(found["mean"], found["std"]) if found else "–")
            if with_paper:
                line.append(_number(found["paper_mean"], found["paper_std"]) if found else "–")
        body.append(tuple(line))
    where = [
        LABELS.get(dataset, dataset),
        *(["shifted"] if shifted else []),
        *(budgets if preset == "run" and not several else []),
    ]
    title = f"{', '.join(where)}: test accuracy, {PRESETS.get(preset, preset)}"
    return TextTable(title, tuple(header), tuple(body), _seeds(rows, kinds))


def kept_table(records: Sequence[Mapping[str, Any]], preset: str) -> TextTable:
    """What validation kept in each run that had a choice, and what the other candidate gives."""
    own = [record for record in records if record["preset"] == preset]
    several = len(_budgets_of(own)) > 1
    body = []
    for record in sorted(own, key=lambda record: record["seed"]):
        for other in not_kept(record):
            kept = next(row for row in record["candidates"] if row["kept"])
            setting = ", ".join(filter(None, (setting_label(record, several), record.get("variant"))))
            numbers = [(_candidate(row), f"{row['test']['accuracy']:.3f}") for row in (kept, other)]
            body.append((setting, str(record["seed"]), *numbers[0], *numbers[1], difference_to(other)))
    header = ("setting", "seed", "kept", "accuracy", "not kept", "accuracy", "difference")
    note = "Chosen by validation loss. Accuracies are on test; the difference is kept minus not kept, ± its standard error."
    return TextTable(f"What validation kept, {PRESETS.get(preset, preset)}", header, tuple(body), note)


def difference_table(records: Sequence[Mapping[str, Any]], preset: str) -> TextTable:
    """How much one acquirer is ahead of another in each setting and at each budget, with a 95 % interval."""
    own = [record for record in records if record["preset"] == preset]
    rows = _rows(own)
    several = len(_budgets(rows)) > 1
    body = []
    for cell in _unique(_cell(row) for row in rows):
        here = [row for row in rows if _cell(row) == cell]
        for budget in _budgets(here) or [""]:
            same = [row for row in here if row["budget"] in ("", budget)]
            setting = ", ".join([cell_label(*cell), *([budget] if several and budget else [])])
            body += [(setting, *difference) for difference in _differences(same)]
    note = (
        "Differences of test accuracy; * = the interval leaves 0 out. Seeds are paired; seeds, and the test series within "
        "each, are drawn again 2000 times. With 4 or 5 seeds that vary much, such intervals are somewhat too narrow."
    )
    header = ("setting", "difference", "mean", "95 % interval", "seeds")
    return TextTable(f"Differences between acquirers, {PRESETS.get(preset, preset)}", header, tuple(body), note)


def _differences(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, ...]]:
    """All pairs among the rows of one setting and budget."""
    found: list[tuple[str, ...]] = []
    for one, other in PAIRS:
        for left, right in itertools.product(*([row for row in rows if row["acquirer"] == name] for name in (one, other))):
            pairs = _paired(left["records"], right["records"])
            if pairs:
                gap = paired_difference([pair[0] for pair in pairs], [pair[1] for pair in pairs])
                interval = f"{gap.low:+.3f} to {gap.high:+.3f}{' *' if gap.clear else ''}"
                found.append((f"{left['policy']} − {right['policy']}", f"{gap.mean:+.3f}", interval, str(gap.n_seeds)))
    return found


def cost_table(records: Sequence[Mapping[str, Any]], preset: str) -> TextTable:
    """What each acquirer spends and on what; whether it levelled off, for runs that were trained by epochs."""
    rows = _rows([record for record in records if record["preset"] == preset])
    several = len(_budgets(rows)) > 1
    by_epochs = {id(row): [_trained_by_epochs(record) for record in row["records"]] for row in rows}
    levelling = any(any(flags) for flags in by_epochs.values())
    body = tuple(
        (
            setting_label(row["records"][0], several),
            with_kept(row["policy"], *row["records"]),
            f"{row['mean']:.3f}",
            f"{row['cost_per_step']:.1f}",
            "–" if row["real_fraction"] is None else f"{100 * row['real_fraction']:.0f} %",
            *([f"{row['levelled']}/{row['n_seeds']}" if all(by_epochs[id(row)]) else "–"] if levelling else []),
            f"{row['cpu_seconds']:.0f}",
        )
        for row in rows
    )
    levelled = ("levelled off",) if levelling else ()
    header = ("setting", "acquirer", "accuracy", "cost per step", "real requests", *levelled, "CPU s per run")
    note = "Levelled off: runs whose best validation accuracy gained less than .002 over the last fifth of their epochs."
    return TextTable(f"Cost and requests, {PRESETS.get(preset, preset)}", header, body, note if levelling else "")


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
    """Everything that there is, in reading order; no table without rows."""
    presets = _unique(record["preset"] for record in records)
    if presets == ["adaptive"]:
        return [adaptive_table(summarise_adaptive(records))]
    tables = accuracy_tables(records)
    for make in (kept_table, difference_table, cost_table):
        tables += [make(records, preset) for preset in presets]
    return [table for table in tables if table.rows]


def cell_label(dataset: str, fakes: str, shifted: bool) -> str:
    """A setting in words."""
    return f"{LABELS.get(dataset, dataset)}, {FAKES[fakes].lower() if fakes != 'gp' else 'GP'}{', shifted' if shifted else ''}"


def setting_label(record: Mapping[str, Any], with_budget: bool) -> str:
    """A record's setting in words, with its budget if there are several to tell apart."""
    budget = budget_words(record) if with_budget else ""
    return ", ".join(filter(None, (cell_label(*_cell(record)), budget)))


def policy_name(record: Mapping[str, Any]) -> str:
    """The acquirer, with the variant where there is one."""
    return ", ".join(filter(None, (record["acquirer"], record.get("variant"))))


def budget_words(record: Mapping[str, Any]) -> str:
    """A record's budget, ``mean cost 1.5 per step``; nothing for an acquirer without a budget."""
    if record["acquirer"] in WITHOUT_BUDGET:
        return ""
    budget = RunSpec.model_validate(record["spec"]).budget
    return str(budget if budget.amount is not None else budget.at(per_step=record["budget"]))


def row_key(record: Mapping[str, Any]) -> tuple[Any, ...]:
    """What makes a row: preset, setting, policy and budget; records with the same differ in their seed alone."""
    return (record["preset"], *_cell(record), record["acquirer"], record.get("variant", ""), budget_words(record))


def _rows(records: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The rows of the summary, apart by policy and budget in words, each with its ``records``."""
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for record in records:
        groups.setdefault(row_key(record), []).append(record)
    cells = _unique((row["preset"], *_cell(row)) for row in summarise(records))
    rows = []
    for group in groups.values():
        budget, policy = budget_words(group[0]), policy_name(group[0])
        (row,) = summarise([{**record, "budget": None} for record in group])
        amount = None if budget == "" else group[0]["budget"]
        rows.append({**row, "amount": amount, "budget": budget, "policy": policy, "records": group})
    return sorted(rows, key=lambda row: (cells.index((row["preset"], *_cell(row))), *_place_of(row)))


def _place_of(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Within a setting: by kind of budget and amount, then by acquirer; what has no budget comes last."""
    kind = row["budget"].split(" ")[0]
    return row["budget"] == "", kind, row["amount"] or 0.0, row["budget"], ORDER.index(row["acquirer"]), row["policy"]


def _cell(record: Mapping[str, Any]) -> tuple[str, str, bool]:
    return record["dataset"], record["fakes"], record["shifted"]


def _budgets(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """The budgets of rows in words, each once."""
    return _unique(row["budget"] for row in rows if row["budget"])


def _budgets_of(records: Iterable[Mapping[str, Any]]) -> list[str]:
    """The same of records."""
    return _unique(filter(None, map(budget_words, records)))


def _trained_by_epochs(record: Mapping[str, Any]) -> bool:
    return RunSpec.model_validate(record["spec"]).training.epochs is not None


def _candidate(row: Mapping[str, Any]) -> str:
    """A candidate in words."""
    return "the network" if row["acquirer"] == "learned-only" else str(row["title"])


def _paired(left: Iterable[Mapping[str, Any]], right: Iterable[Mapping[str, Any]]) -> list[tuple[Any, Any]]:
    """Of each seed that both have: which test series were right."""
    one, other = ({record["seed"]: record for record in records} for records in (left, right))
    return [(correct_of(one[seed]), correct_of(other[seed])) for seed in sorted(one.keys() & other.keys())]


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
