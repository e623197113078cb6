"""Rows about getting dependencies into a sandbox that may reach nothing."""

import tempfile
from pathlib import Path

from sandboxio import CapabilityNotSupported, Enforcement, Sandbox

from sandboxio_contract.rows import row
from sandboxio_contract.rows.inside import held, need_files, need_python, output_of
from sandboxio_contract.target import Target
from sandboxio_contract.verdict import Finding, Inconclusive, proven, require
from sandboxio_contract.wheel import write_wheel

PACKAGE = "sandboxio_contract_dependency"
ANSWER = 4242
_ASK = ["python3", "-c", f"import {PACKAGE}; print({PACKAGE}.ANSWER)"]


@row("NET-08", within=180, world=True)
async def a_template_is_fetched_from_outside_the_sandbox(target: Target) -> Finding:
    """A sandbox that may reach nothing starts from a template that its provider had to fetch first."""
    if not target.ground.fetches:
        return Finding(
            "not applicable", "the provider's templates are built before, and nothing is fetched for a sandbox"
        )
    told: list[str] = []
    async with held(target.ground.fetched()) as fetched:
        require(not fetched.present(), "the provider has the template already: there is nothing to fetch")
        async with target.create(dsn=fetched.dsn, on_progress=told.append) as sb:
            _denies(sb)
            await need_files(sb)
            content = await sb.files.read(fetched.path)
            require(content == fetched.content.encode(), "the sandbox was not made from the template that was named")
        asked = fetched.downloads()
        require(asked > 0 and fetched.present(), "the template was there without having been fetched")
    require(told, "on_progress was told nothing while the template was fetched")
    return proven(f"{asked} pieces were fetched for a sandbox with egress denied; {len(told)} lines of progress")


@row("NET-12", within=120, world=True)
async def a_wheelhouse_is_uploaded_and_installed_offline(target: Target) -> Finding:
    """Wheels are uploaded and installed inside without any index; before, the package could not be imported."""
    with tempfile.TemporaryDirectory(prefix="sandboxio-contract-") as folder:
        write_wheel(Path(folder), PACKAGE, f"ANSWER = {ANSWER}\n")
        async with target.sandbox() as sb:
            _denies(sb)
            await _need_pip(sb)
            # The control: neither is the package in the image, nor does pip find it anywhere but in the wheels.
            require(not (await sb.run(_ASK)).ok, "the package is in the image: nothing needs to be installed")
            install = ["python3", "-m", "pip", "install", "--no-index", "--target", "packages"]
            require(not (await sb.run([*install, PACKAGE])).ok, "pip found the package without the wheels")
            try:
                await sb.files.upload(folder, "wheels")
            except CapabilityNotSupported as error:
                raise Inconclusive(f"no directory can be uploaded here: {error.message}") from error
            await output_of(sb, [*install, "--find-links", "wheels", PACKAGE], timeout=90)
            said = await output_of(sb, _ASK, env={"PYTHONPATH": f"{sb.cwd}/packages"})
    require(said.strip() == str(ANSWER), f"the installed package says {said!r}")
    return proven("an uploaded wheel was installed with --no-index and imported, egress denied")


@row("NET-12", within=120, world=True)
async def a_prepared_template_has_its_dependencies(target: Target) -> Finding:
    """A package that was baked into the template without a network is there in a sandbox that may reach nothing."""
    async with target.sandbox() as plain:
        await _need_pip(plain)
        require(not (await plain.run(_ASK)).ok, "the package is in the image already: nothing was prepared")
    with tempfile.TemporaryDirectory(prefix="sandboxio-contract-") as folder:
        write_wheel(Path(folder), PACKAGE, f"ANSWER = {ANSWER}\n")
        async with (
            held(target.ground.prepared(Path(folder), PACKAGE)) as dsn,
            target.create(dsn=dsn) as sb,
        ):
            _denies(sb)
            said = await output_of(sb, _ASK)
    require(said.strip() == str(ANSWER), f"the package that was baked in says {said!r}")
    return proven("a package baked into the template offline is imported, egress denied")


def _denies(sb: Sandbox) -> None:
    item = next(one for one in sb.policy if one.policy == "network.egress")
    require(isinstance(item, Enforcement) and item.requested == "deny", f"the sandbox does not deny: {item!r}")


async def _need_pip(sb: Sandbox) -> None:
    await need_python(sb)
    if not (await sb.run(["python3", "-m", "pip", "--version"], timeout=60)).ok:
        raise Inconclusive("the image has no pip, which this row installs with")
