"""Train the paper's classifiers, and store what they say: `priorshift train` (extra `torch`).

Data sets are read without PyTorch; Pillow is needed for image files alone.
"""

from priorshift.training._datasets import LOADERS, load_images
from priorshift.training._images import ArrayImages, FileImages, ImageData, Images
from priorshift.training._published import (
    PUBLISHED,
    PublishedCheck,
    check_published,
    load_published,
)
from priorshift.training._recipe import RECIPES, Plan, Recipe
from priorshift.training._run import train_classifier
from priorshift.training._split import N_VAL, source_counts, split
from priorshift.training._torch import require_torch

__all__ = [
    "LOADERS",
    "N_VAL",
    "PUBLISHED",
    "RECIPES",
    "ArrayImages",
    "FileImages",
    "ImageData",
    "Images",
    "Plan",
    "PublishedCheck",
    "Recipe",
    "check_published",
    "load_images",
    "load_published",
    "require_torch",
    "source_counts",
    "split",
    "train_classifier",
]
