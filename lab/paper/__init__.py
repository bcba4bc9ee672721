"""The paper: train its classifiers, run its experiments, check its numbers and its claims."""
