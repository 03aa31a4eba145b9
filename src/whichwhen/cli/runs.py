"""Verbs about data and single runs: data, pack, train, evaluate, plot, demo, bench. Torch is imported where it is needed."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whichwhen.cli.arguments import BenchArgs, ComputeArgs, DataArgs, DemoArgs, EvaluateArgs, PackArgs, PlotArgs, TrainArgs
from whichwhen.cli.output import MissedError, StoppedError, console_on, print_facts, print_json
from whichwhen.errors import DataError, SpecError
from whichwhen.menu import slack
from whichwhen.specs import BudgetSpec, DataSpec, PredictorSpec, RunSpec, TrainingSpec

if TYPE_CHECKING:
    import numpy as np

    from whichwhen.data import Dataset, SeriesSet


def run_data(args: DataArgs) -> None:
    """``whichwhen data``."""
    from rich.table import Table

    from whichwhen.data import load_dataset, reference, task_of
    from whichwhen.data.catalog import CATALOG
    from whichwhen.data.frames import is_table

    task = task_of(args.data)
    budget = args.budget if args.budget is not None else task.budget if task else 1.0
    RunSpec(data=args.data, budget=BudgetSpec(per_step=budget), seed=args.seed)  # raises what is out of range
    console = console_on()
    if not args.data.name:
        if args.plot:
            raise SpecError(
                "--plot without a data set", expected="a name", do="try `whichwhen data japanese-vowels --plot f.png`"
            )
        rows = [{"name": entry.name, "about": entry.about, "from": entry.where(args.data_dir)} for entry in CATALOG]
        if args.json_:
            return print_json(rows)
        table = Table("name", "what it is", "from")
        for row in rows:
            table.add_row(*row.values())
        return console.print(table)
    if args.plot:
        from whichwhen.reports.figures import check_figure_path

        check_figure_path(args.plot)
    if is_table(args.data.name):
        return _describe_table(args)
    data = load_dataset(args.data, args.seed, args.data_dir)
    facts = _describe(data)
    known = reference(args.data, budget)
    if task and known:
        facts |= {"meant for a budget per step of": task.budget, "chance accuracy": round(known.chance, 4)}
        for name in ("random", "greedy", "blind", "optimum"):
            reached = getattr(known, name)
            facts[f"{name} accuracy at budget {budget:g}"] = "not known" if reached is None else round(reached, 4)
    if args.plot:
        from whichwhen.reports.figures import draw_samples, save_figure

        save_figure(draw_samples(data), args.plot)
        facts["plot"] = str(args.plot)
    if args.json_:
        return print_json(facts)
    print_facts(facts)


def _describe_table(args: DataArgs) -> None:
    """What is in a table of one's own."""
    from whichwhen.data.catalog import finish_dataset
    from whichwhen.data.frames import check_digest, open_table
    from whichwhen.reports.tables import print_table_report

    check_digest(args.data)
    table = open_table(args.data.name, args.data)
    if args.plot:
        from whichwhen.reports.figures import draw_samples, save_figure

        save_figure(draw_samples(finish_dataset(table.source, args.data, args.seed)), args.plot)
    if args.json_:
        return print_json(table.report.to_dict() | ({"plot": str(args.plot)} if args.plot else {}))
    print_table_report(table.report, console_on())
    if args.plot:
        print(f"plot: {args.plot}")


def run_pack(args: PackArgs) -> None:
    """``whichwhen pack``."""
    from whichwhen.data.frames import is_table, pack_table
    from whichwhen.data.on_disk import SUFFIX, is_store
    from whichwhen.reports.tables import print_table_report

    spec = args.data
    if not is_table(spec.name):
        raise SpecError(f"pack {spec.name or 'without a table'}", expected="the path of a .parquet or .csv file")
    if spec.fakes != "none":
        raise SpecError("--fakes for a folder of series", expected="the columns of the table alone", do="leave it out")
    out = args.out or Path(Path(spec.name).name.split(".")[0] + SUFFIX)
    if not is_store(out):
        raise SpecError(f"--out {out}", expected=f"a name that ends in {SUFFIX}")
    report = pack_table(spec.name, spec, out)
    if args.json_:
        return print_json(report.to_dict() | {"folder": str(out)})
    print_table_report(report, console_on())
    print(f"folder: {out}")


def _open_for_training(args: TrainArgs) -> tuple[RunSpec, Dataset]:
    """A table of one's own, read once: its report is shown, its content becomes part of the spec."""
    from whichwhen.data.catalog import finish_dataset
    from whichwhen.data.frames import check_digest, digest_files, open_table
    from whichwhen.reports.tables import print_table_report

    spec = args.run
    check_digest(spec.data)
    table = open_table(spec.data.name, spec.data)
    if args.quiet or args.json_:  # which are no reasons to miss that a column is in other units
        for line in table.report.warnings:
            print(f"warning: {line}", file=sys.stderr)
    else:
        print_table_report(table.report, console_on(stderr=True))
    data = finish_dataset(table.source, spec.data, spec.seed)
    if not args.quiet:
        _warn_of_what_is_out_of_reach(spec, data)
        _warn_of_the_past(spec.predictor, data)
    return spec.change(data__digest=digest_files(spec.data)), data


def _warn_of_what_is_out_of_reach(spec: RunSpec, data: Dataset) -> None:
    """Name the orders that no request can ever pay for."""
    from whichwhen.budget import default_per_step

    own = spec.budget
    if data.menu is None or spec.acquirer.kind in ("none", "complete") or not any(data.menu.prices):
        return
    amounts = [amount for amount in (own.per_step, own.total) if amount is not None]
    if own.amount is None:
        amounts = [default_per_step(data.menu)]
    if not amounts:
        return
    most = min(amounts)
    dear = [f"{order.name} ({order.cost:g})" for order in data.menu.orders if order.cost > most + slack(most)]
    if dear:
        what = "a total" if most == own.total else "a step"
        print(f"warning: never asked for, as {what} pays for {most:g} at most: {', '.join(dear)}", file=sys.stderr)


def _warn_of_the_past(predictor: PredictorSpec, data: Dataset) -> None:
    """Labels that change are not well read off a mean over all that was: on PhysioNet 2019 an AUROC of .78 instead of .83."""
    if data.train.step_labels is not None and predictor.kind == "conv" and not predictor.now:
        print(
            "warning: every step has a label of its own, and the predictor reads the mean over all steps so far; with "
            "--predictor-now it reads the present, too",
            file=sys.stderr,
        )


def run_train(args: TrainArgs) -> None:
    """``whichwhen train``."""
    from whichwhen.data import load_dataset
    from whichwhen.data.frames import check_digest, digest_files, is_table
    from whichwhen.data.on_disk import is_store

    spec, data = args.run, None
    own = is_table(spec.data.name) or is_store(spec.data.name)
    name = Path(spec.data.name).stem if own else spec.data.name.replace(":", "-")
    out = args.out or Path("runs") / f"{name}-{spec.acquirer.kind}-{spec.seed}"
    device = _prepare(args)
    if is_table(spec.data.name):
        spec, data = _open_for_training(args)
    elif own:
        check_digest(spec.data)
        spec = spec.change(data__digest=digest_files(spec.data))
        data = load_dataset(spec.data, spec.seed, args.data_dir)
        if not args.quiet:
            _warn_of_the_past(spec.predictor, data)
    from whichwhen.reports.progress import TrainingProgress
    from whichwhen.reports.tables import candidates_line, results_table
    from whichwhen.training import train

    console = console_on()
    with TrainingProgress(console_on(stderr=True), quiet=args.quiet or args.json_) as progress:
        progress.begin(spec.acquirer.kind)
        try:
            result = train(
                spec,
                out,
                data=data,
                folder=args.data_dir,
                device=device,
                resume=args.resume,
                threads=args.threads,
                on_epoch=progress.epoch,
            )
        except KeyboardInterrupt:
            raise StoppedError(f"stopped; go on with the same command and --resume (run folder {out})") from None
    if args.json_:
        return print_json(result)
    console.print(results_table({spec.acquirer.kind: result}, _title(spec, result)))
    if result["candidates"]:
        print(candidates_line(result))
    print(f"run folder: {out}")


def run_evaluate(args: EvaluateArgs) -> None:
    """``whichwhen evaluate``."""
    from whichwhen.artifacts import load_candidates, load_result

    device = _prepare(args)
    result = load_result(args.run)
    models = load_candidates(args.run)
    from whichwhen.data import load_dataset
    from whichwhen.evaluation import measure
    from whichwhen.evaluation.choice import choose_at_budget
    from whichwhen.reports.figures import check_figure_path, draw_reliability, save_figure
    from whichwhen.reports.measures import calibration_facts, print_measures

    if args.plot:
        check_figure_path(args.plot)
    model = models[0]
    spec = model.card.spec
    own, amounts = spec.budget, (args.budget, args.mean_cost, args.price, args.total)
    asked = any(amount is not None for amount in amounts)
    wanted = own.at(*amounts) if asked else own
    data = load_dataset(spec.data, spec.seed, args.data_dir)
    model.check_features([feature.name for feature in data.features])
    model.check_classes(data.classes)
    for candidate in models:
        for module in candidate.modules().values():
            module.to(device)
    policy = model.policy
    if asked:  # which of the candidates serves another budget best is chosen again
        chosen = choose_at_budget(models, wanted, data.validation, device)
        model, policy = chosen.model, chosen.policy
    model = replace(model, policy=policy)
    found = measure(model, data, args.split, false_alarms=args.false_alarms, estimate=args.estimate, device=device)
    head = {
        "run": str(args.run),
        "dataset": spec.data.name,
        "acquirer": spec.acquirer.kind,
        "seed": result["seed"],
        "split": args.split,
        "kept": model.card.acquirer,
        "budget kind": wanted.kind if asked else result["budget_kind"],
        "budget": wanted.amount if asked else result["budget"],
        "price": getattr(policy.budget, "price", None),
    }
    if args.plot:
        one = found.calibration
        if one is None:
            raise DataError(f"no reliability curve ({found.refused['calibration']})", do="leave out --plot")
        curves = {"as it is": one.before, f"temperature {one.temperature:.3g}": one.after}
        save_figure(draw_reliability({f"{data.name}, {args.split}": curves}), args.plot)
    if args.json_:
        return print_json({**head, **found.to_dict(), **({"plot": str(args.plot)} if args.plot else {})})
    print_facts({**head, **found.evaluation.metrics.to_dict(), **calibration_facts(found)})
    print_measures(found, console_on())
    if args.plot:
        print(f"plot: {args.plot}")


def run_plot(args: PlotArgs) -> None:
    """``whichwhen plot``."""
    from whichwhen import artifacts
    from whichwhen.reports import figures

    if not args.runs:
        raise SpecError("no run folder", expected="one or more", do="try `whichwhen plot runs/a runs/b`")
    results = {folder: artifacts.load_result(folder) for folder in args.runs}
    titles = {folder: _run_title(folder, results) for folder in args.runs}
    patterns = {titles[folder]: artifacts.load_pattern(folder) for folder in args.runs}
    histories = {titles[folder]: artifacts.load_history(folder) for folder in args.runs}
    test: dict[str, list[float]] = {}
    if args.test_curve:
        from whichwhen.evaluation.curves import accuracy_on_test

        device = _prepare(args)
        test = {titles[folder]: accuracy_on_test(folder, args.data_dir, device) for folder in args.runs}
    out = args.out or args.runs[0]
    paths = [out / f"pattern.{args.format}", out / f"curves.{args.format}"]
    figures.save_figure(figures.draw_patterns(patterns), paths[0])
    figures.save_figure(figures.draw_curves(histories, test), paths[1])
    if args.json_:
        return print_json({"figures": [str(path) for path in paths]})
    for path in paths:
        print(path)


def run_demo(args: DemoArgs) -> None:
    """``whichwhen demo``."""
    base = RunSpec(
        data=DataSpec(name="japanese-vowels", fakes=args.fakes, n_fakes=args.n_fakes, shift=args.shift),
        budget=BudgetSpec(per_step=args.budget),
        training=TrainingSpec(effort=args.effort),
        seed=args.seed,
    )
    device = _prepare(args)
    from whichwhen import artifacts
    from whichwhen.experiments.demo import check_demo_folder, demo_specs, run_specs, write_records
    from whichwhen.reports import figures
    from whichwhen.reports.kept import with_kept
    from whichwhen.reports.progress import TrainingProgress
    from whichwhen.reports.tables import candidates_line, results_table

    specs = demo_specs(base)
    check_demo_folder(args.out, specs)
    if all(artifacts.is_finished(args.out / name) for name in specs) and not (args.quiet or args.json_):
        print(f"{args.out} holds all runs already: delete it, or pass another --out, to train anew", file=sys.stderr)
    with TrainingProgress(console_on(stderr=True), quiet=args.quiet or args.json_) as progress:
        try:
            results = run_specs(
                specs,
                args.out,
                folder=args.data_dir,
                device=device,
                on_begin=lambda name, spec: progress.begin(name),
                on_epoch=progress.epoch,
            )
        except KeyboardInterrupt:
            raise StoppedError("stopped; the same command goes on from here") from None
    command = "whichwhen demo " + " ".join(
        f"--{name.replace('_', '-')} {getattr(args, name)}" for name in ("fakes", "n_fakes", "budget", "effort", "seed")
    )
    command += " --shift" if args.shift else ""
    for path in filter(None, (args.out / "summary.json", args.record)):
        write_records(path, specs, results, command)
    folders = {name: args.out / name for name in specs}
    titles = {with_kept(name, results[name]): folder for name, folder in folders.items()}
    pattern, curves = args.out / "pattern.png", args.out / "curves.png"
    figures.save_figure(
        figures.draw_patterns({title: artifacts.load_pattern(folder) for title, folder in titles.items()}), pattern
    )
    figures.save_figure(
        figures.draw_curves({title: artifacts.load_history(folder) for title, folder in titles.items()}, {}), curves
    )
    if args.json_:
        return print_json({name: {**result, "run": str(folders[name])} for name, result in results.items()})
    console = console_on()
    console.print(results_table(results, _title(base, results["learned"])))
    print(candidates_line(results["learned"]))
    print(f"figures: {pattern} and {curves}\nruns:    {args.out}")


def run_bench(args: BenchArgs) -> None:
    """``whichwhen bench``."""
    if args.rounds < 1:
        raise SpecError(f"rounds is {args.rounds}", expected="at least 1")
    import torch

    torch.set_num_threads(1)
    from whichwhen.experiments.bench import run_benchmarks
    from whichwhen.files import write_json
    from whichwhen.reports.tables import benchmark_table

    progress = console_on(stderr=True)
    document = run_benchmarks(args.rounds, lambda line: None if args.json_ else progress.print(line, highlight=False))
    if args.out:
        args.out.parent.mkdir(parents=True, exist_ok=True)
        write_json(args.out, document)
    if args.json_:
        print_json(document)
    else:
        console_on().print(benchmark_table(document))
    if document["missed"]:
        raise MissedError("\n".join(f"missed: {line}" for line in document["missed"]))


def _prepare(args: ComputeArgs) -> Any:
    """Threads and device."""
    import torch

    if args.threads < 1:
        raise SpecError(f"threads is {args.threads}", expected="at least 1")
    torch.set_num_threads(args.threads)
    try:
        device = torch.device(args.device)
        float(torch.zeros(1, device=device))
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).splitlines()[0]
        raise SpecError(f"device {args.device!r} can't be used ({reason})", do="use --device cpu") from None
    return device


def _describe(data: Dataset) -> dict[str, Any]:
    splits = {"train": data.train, "validation": data.validation, **_tests(data)}
    facts = {
        "data set": data.name,
        **{f"{name} series": len(split) for name, split in splits.items()},
        **{f"{name} lengths": _range(split.lengths) for name, split in splits.items()},
        "features": len(data.features),
        "of them real at step 0": int(data.provenance.real[0].sum()),
        "names": [feature.name for feature in data.features],
        "classes": list(data.classes),
        "largest class, test": round(max((data.test.labels == c).mean() for c in range(len(data.classes))), 4),
    }
    return facts | _describe_records(data, splits) | _describe_menu(data) | dict(data.notes)


def _tests(data: Dataset) -> dict[str, SeriesSet]:
    """The test sets by the names that facts have for them."""
    return {name if name == "test" else f"test {name}": part for name, part in data.tests.items()}


def _describe_records(data: Dataset, splits: dict[str, SeriesSet]) -> dict[str, Any]:
    """What was not measured, how frequent each class and each positive step is, and the subgroups."""
    import numpy as np

    facts: dict[str, Any] = {}
    if not all(split.complete for split in splits.values()):
        facts |= {f"{name} not measured": round(float(part.missing.mean()), 4) for name, part in splits.items()}
        unseen = data.train.missing
        rarest = np.argsort(-unseen, kind="stable")[:5]
        facts["rarest features, train"] = [f"{data.features[i].name} ({1 - unseen[i]:.2%} of steps)" for i in rarest]
    if data.menu is not None:
        shares = {name: np.bincount(part.labels, minlength=len(data.classes)) / len(part) for name, part in splits.items()}
        facts |= {
            f"{name} share of {label!r}": round(float(shares[name][c]), 4)
            for name in splits
            for c, label in enumerate(data.classes[1:], start=1)
        }
    for name, part in splits.items():
        if part.step_labels is not None:
            facts[f"{name} share of positive steps"] = round(float((part.step_labels[:] > 0).mean()), 4)
    for name, column in data.train.subgroups.items():
        values, counts = np.unique(column, return_counts=True)
        facts[f"subgroups by {name}, train"] = [f"{value} ({n})" for value, n in zip(values, counts, strict=True)]
    return facts


def _describe_menu(data: Dataset) -> dict[str, Any]:
    """Each order with its price and what it reveals, where the set has a menu of its own."""
    if data.menu is None:
        return {}
    from whichwhen.data.clinical import recorded_cost

    return {
        "orders": len(data.menu.orders),
        "of them free": sum(order.free for order in data.menu.orders),
        **{
            f"order {order.name!r}": f"{'free' if order.free else f'{order.cost:g}'}: {', '.join(order.features)}"
            for order in data.menu.orders
        },
        "mean cost of a record, train": round(float(recorded_cost(data.train, data.menu).mean()), 2),
    }


def _range(numbers: np.ndarray) -> str:
    low, high = numbers.min(), numbers.max()
    return str(low) if low == high else f"{low}-{high}"


def _title(spec: RunSpec, result: dict[str, Any]) -> str:
    fakes = "" if spec.data.fakes == "none" else f", {spec.data.n_fakes} fake features ({spec.data.fakes})"
    moved = ", shifted" if spec.data.shift else ""
    budget = spec.budget if spec.budget.amount is not None else spec.budget.at(per_step=result["budget"])
    return f"{spec.data.name}{fakes}{moved}, {budget}, seed {result['seed']}"


def _run_title(folder: Path, results: dict[Path, dict[str, Any]]) -> str:
    """The acquirer's name and the rule that was kept, with the folder's name where that is not enough."""
    from whichwhen.reports.kept import with_kept

    names = {run: with_kept(str(result["acquirer"]), result) for run, result in results.items()}
    own = names[folder]
    return own if list(names.values()).count(own) == 1 else f"{own} ({folder})"
