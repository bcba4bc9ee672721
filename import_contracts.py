"""A contract for import-linter: what a package keeps to itself, others do not import."""

from importlinter import Contract, ContractCheck, output


class PrivateModules(Contract):
    """No package imports another package's underscore module.

    `priorshift.solvers._mixture` is for `priorshift.solvers` alone; what others need of it is in
    `priorshift.solvers`. Foundations such as `priorshift.border` serve all packages.
    """

    def check(self, graph, verbose):  # type: ignore[no-untyped-def]  # noqa: ARG002
        """Collect the imports that cross a door."""
        crossing = [
            (importer, imported)
            for importer in sorted(graph.modules)
            for imported in sorted(graph.find_modules_directly_imported_by(importer))
            if _is_private(imported) and _package(importer) != _package(imported)
        ]
        return ContractCheck(kept=not crossing, metadata={"crossing": crossing})

    def render_broken_contract(self, check):  # type: ignore[no-untyped-def]
        """Name each import, and what to do."""
        for importer, imported in check.metadata["crossing"]:
            output.print_error(f"{importer} imports {imported}: use {_package(imported)}.")


def _is_private(module: str) -> bool:
    return any(part.startswith("_") for part in module.split(".")[2:])


def _package(module: str) -> str:
    return ".".join(module.split(".")[:2])
