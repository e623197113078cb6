"""The contract that every sandboxio adapter is judged by.

Importing this package loads nothing else: pytest imports it early, with the plugin.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from sandboxio_contract.contract import Contract

__all__ = ["Contract"]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Import a public name when it is first used."""
        if name != "Contract":
            raise AttributeError(f"module 'sandboxio_contract' has no attribute {name!r}")
        from sandboxio_contract.contract import Contract

        return Contract
