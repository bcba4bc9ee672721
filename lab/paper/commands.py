"""`python -m lab benchmark` and `python -m lab train`."""

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from lab.paper.distributions import IMBALANCES, OWN
from lab.paper.experiments import EXPERIMENTS, WITHOUT_DATA, run_experiment
from lab.paper.images import load_images
from lab.paper.outputs import StoredOutputs
from lab.paper.training import RECIPES, Plan, require_torch, train_classifier
from lab.show import markdown, parse
from priorshift import available_estimators

if TYPE_CHECKING:
    from lab.paper.networks import Epoch


def benchmark(arguments: list[str] | None = None) -> None:
    """Run an experiment of the paper on stored outputs; print its table, write its files.

      --data FILE                 an npz with train_logits, train_y, val_logits, val_y, test_logits,
                                  test_y; several files are several classifiers
      --target-distribution NAME  class distribution of the target; may be repeated [default: UNI]
      --target-priors FILE        priors of the target: a CSV with the columns class (0 to K - 1)
                                  and prior, or a list of `path label` that they are counted
                                  from, such as Places_LT_train.txt; may be repeated
      --method NAME               a further method beside the paper's; may be repeated
      --lists FOLDER              of figures: has Places_LT_train.txt or ImageNet_LT_train.txt,
                                  whose long tails are drawn; may be repeated
      --quick                     two seeds instead of ten, and fewer sizes
      --output FOLDER             for CSV, Markdown and figures [default: benchmark]

    Example: python -m lab benchmark gaussian --output results
    """
    targets, methods = (*IMBALANCES, "supplement"), available_estimators()
    options = parse(
        benchmark.__doc__,
        arguments,
        experiment={"choices": tuple(EXPERIMENTS)},
        data={"type": existing, "action": "extend", "nargs": "+", "default": []},
        target_distribution={"action": "append", "choices": targets, "default": []},
        target_priors={"type": existing, "action": "append", "default": []},
        lists={"type": existing, "action": "append", "default": []},
        method={"action": "append", "choices": methods, "default": []},
        quick=False,
        output=Path("benchmark"),
    )
    if not options.data and options.experiment not in WITHOUT_DATA:
        print(f"Error: {options.experiment} needs --data.", file=sys.stderr)
        sys.exit(2)
    text = run_experiment(
        options.experiment,
        [StoredOutputs.load(path) for path in options.data],
        options.output,
        targets=[*options.target_distribution, *options.target_priors] or ("UNI",),
        quick=options.quick,
        methods=options.method,
        lists=options.lists,
    )
    print(text)
    print(f"written into {options.output}", file=sys.stderr)


def train(arguments: list[str] | None = None) -> None:
    """Train a network as the paper does (extra train), and store its outputs for benchmark.

      --data FOLDER         with the data set as downloaded; you need not unpack archives
      --source NAME         class distribution of the training images; own keeps all of them
                            [default: LT, and own for list]
      --largest N           training images of the most frequent class; 450 gives the counts of the
                            paper's CIFAR-100 [default: as many as there are]
      --retrain NAME        also train a second network, with a sampler that follows this
                            distribution: the column 're-trained' of table1
      --label-noise SHARE   of training images that get the label of a similar class, as web images
                            have; validation and test labels stay right
      --epochs N            scales the schedule [default: the paper's]
      --learning-rate RATE  at the start [default: the paper's]
      --runs N              networks to train, one per seed; the paper has 10, or 5 for large images
      --seed N              the first seed
      --initial-weights F   PyTorch file of weights to start from
      --device NAME         PyTorch device [default: cuda if available, else cpu]
      --output FOLDER       each run writes into seed-0, seed-1, ... in it [default: trained]

    Example: python -m lab train --dataset fashion-mnist --data /usr/share/datasets/fashion-mnist
    """
    options = parse(
        train.__doc__,
        arguments,
        dataset={"choices": tuple(RECIPES), "required": True},
        data={"type": existing, "required": True},
        source={"choices": (*IMBALANCES, OWN)},
        largest=positive,
        retrain={"choices": tuple(IMBALANCES)},
        label_noise=0.0,
        epochs=positive,
        learning_rate=float,
        runs={"type": positive, "default": 1},
        seed=0,
        initial_weights=existing,
        device=str,
        output=Path("trained"),
    )
    torch = require_torch()
    device = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
    n_epochs = options.epochs or RECIPES[options.dataset].n_epochs
    plans = [
        Plan(
            options.dataset,
            source=options.source or (OWN if options.dataset == "list" else "LT"),
            seed=seed,
            n_epochs=n_epochs,
            largest=options.largest,
            label_noise=options.label_noise,
            learning_rate=options.learning_rate,
        )
        for seed in range(options.seed, options.seed + options.runs)
    ]
    data = load_images(options.dataset, options.data)
    rows = []
    for plan in plans:
        path = train_classifier(
            data,
            plan,
            options.output / f"seed-{plan.seed}",
            retrain=options.retrain,
            initial_weights=options.initial_weights,
            device=device,
            watch=watch,
        )
        accuracy = json.loads(path.with_suffix(".json").read_text("utf-8"))["accuracy"]
        rows.append([path, *(f"{accuracy.get(part, float('nan')):.4f}" for part in SCORED)])
    print(markdown(["outputs", *SCORED], rows))


SCORED = ("train", "val", "test", "retrained")


def watch(plan: Plan, epoch: "Epoch") -> None:
    """Tell on stderr how an epoch ended."""
    what = plan.dataset if plan.sampler is None else f"{plan.dataset} for {plan.sampler}"
    text = f"{what}, epoch {epoch.epoch}/{plan.n_epochs}: loss {epoch.loss:.3f}"
    print(f"{text}, accuracy {epoch.accuracy:.3f}", file=sys.stderr, flush=True)


def existing(text: str) -> Path:
    """Read the name of a file or folder that is there."""
    if not Path(text).exists():
        raise argparse.ArgumentTypeError(f"{text!r} does not exist")
    return Path(text)


def positive(text: str) -> int:
    """Read a whole number of at least 1."""
    if int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not at least 1")
    return int(text)
